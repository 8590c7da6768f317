"""`penfac tune`: what it draws, how it judges, and that a search ends the same however often
it was stopped."""

import csv
import dataclasses
import json
import math
import os
import signal
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.faults.commands import (
    BAD,
    command,
    command_alone,
    environment,
    finish,
    start,
    status,
)
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import LQR, ended_alike, learners, signal_at_update

from penfac.algos import ALGORITHMS
from penfac.engines.base import Job
from penfac.engines.plans import program_shapes
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError
from penfac.runs.config import SearchConfig
from penfac.runs.csv_files import read_csv
from penfac.runs.evaluations import score
from penfac.runs.run import Run
from penfac.scores import authors_score, final_score, last_tenth
from penfac.search import halving as tune
from penfac.search import space
from penfac.search.rungs import RungResult, rank, rungs
from penfac.settings import presets
from penfac.settings.configs import check, from_values, to_values
from penfac.settings.declaration import known_fields
from penfac.training.request import Request, resolve

ENV = "penfac/LQR-v0"
EACH = pytest.mark.parametrize("algo", ALGORITHMS.values(), ids=ALGORITHMS)
SEARCHED = ("penfac", "nfac", "ppo", "ddpg")  # by the paper


def base(algo, env: str = ENV) -> dict:
    """The config a search starts from."""
    return to_values(resolve(Request(env, algo=algo.name)).settings)


def drawn(algo, name: str = "default", count: int = 40, seed: int = 0) -> list:
    """Configs of a search."""
    found = space.draw(algo, space.space(algo, name), base(algo), count, seed)
    return [from_values(algo.config, settings) for settings in found]


# --- drawing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("lam = [0.5, 1.5]", "lam = 1.5: must be at least 0 and at most 1"),
        ("lam = { uniform = [0.5, 2] }", "lam = 2.0: must be"),
        ("actor_update = ['cac', 'cad']", "actor_update = cad: must be one of"),
        ("actor_steps = [5, 0.5]", "actor_steps = 0.5: must be"),
    ],
)
def test_a_space_is_held_to_the_types_and_ranges_of_its_settings(
    values, told, tmp_path
):
    """Before anything is drawn, in one line that names the file."""
    file = tmp_path / "space.toml"
    file.write_text(values)
    with pytest.raises(ConfigError) as refused:
        space.space(ALGORITHMS["penfac"], str(file))
    assert str(refused.value).startswith(f"--space {file}: {told}")


@EACH
def test_draws(algo):
    """The base first, all different, the same again for a seed, others for another."""
    configs = drawn(algo)
    assert len(configs) == 40
    assert configs[0] == from_values(algo.config, base(algo))
    assert len(set(configs)) == 40
    assert drawn(algo) == configs
    others = drawn(algo, seed=1)
    assert others[0] == configs[0]
    assert not set(others[1:]) & set(configs[1:])
    # more of them are the same and some behind
    assert drawn(algo, count=60)[:40] == configs


def inside(value, values) -> bool:
    if isinstance(values, list):
        return value in values or (isinstance(value, tuple) and list(value) in values)
    ((_, (low, high)),) = values.items()
    return low <= value <= high


@pytest.mark.parametrize(
    ("algo", "name"),
    [(name, "default") for name in ALGORITHMS] + [(name, "paper") for name in SEARCHED],
)
def test_spaces_of_every_algorithm(algo, name):
    """Settings that are there and free, several values of each, and every draw a config
    that the algorithm accepts."""
    algo = ALGORITHMS[algo]
    own = space.space(algo, name)
    assert own.keys() <= known_fields(algo.config).keys()
    assert not own.keys() & algo.overrides.keys()
    start, configs = base(algo), drawn(algo, name)
    for cfg in configs:
        check(cfg)
        values = to_values(cfg)
        rest = {k: v for k, v in values.items() if k not in own}
        assert rest == {k: v for k, v in start.items() if k not in own}
    for cfg in configs[1:]:
        for key, values in own.items():
            assert inside(getattr(cfg, key), values), key
    for key in own:
        assert len({getattr(cfg, key) for cfg in configs[1:]}) > 1, key


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - set(SEARCHED)))
def test_what_the_paper_did_not_search(name):
    with pytest.raises(ConfigError, match="searched no setting"):
        space.space(ALGORITHMS[name], "paper")


@pytest.mark.slow
@EACH
def test_a_default_search_is_one_program(algo):
    """No draw shapes a program or how experience is collected."""
    configs = drawn(algo)
    job = Job(algo, configs[0], ENV, EnvOptions(), 100)
    assert len(set(program_shapes(job, configs))) == 1


@EACH
def test_a_config_goes_through_a_preset_file(algo, tmp_path):
    """As best.toml writes it and --preset reads it: the same config."""
    file = tmp_path / "best.toml"
    default = to_values(algo.config())
    for cfg in drawn(algo):
        values = to_values(cfg)
        changed = {k: v for k, v in values.items() if v != default[k]}
        file.write_text(space.as_toml(changed))
        again = presets.preset(algo.presets, str(file), ENV)
        assert from_values(algo.config, again | dict(algo.overrides)) == cfg


def test_values_as_toml(tmp_path):
    """Every kind a config has, to the last digit."""
    import tomllib

    values = {"a": 0.1 + 0.2, "b": 1e-30, "c": 7, "d": True, "e": "leaky_relu",
              "f": [64, 64], "g": (), "h": math.inf, "i": 1e16}  # fmt: skip
    again = tomllib.loads(space.as_toml(values | {"j": None}))
    assert again == values | {"g": [], "f": [64, 64], "j": "none"}


def test_intervals_are_drawn_by_their_law():
    """log: as much below the geometric mean as above; uniform: below the middle."""
    random = np.random.default_rng(0)
    for values, middle in (
        ({"log": [1e-4, 1e-2]}, 1e-3),
        ({"uniform": [-1.0, 3.0]}, 1.0),
    ):
        found = np.array([space.draw_one(random, values) for _ in range(2000)])
        ((_, (low, high)),) = values.items()
        assert low <= found.min() < found.max() <= high
        assert 0.45 < (found < middle).mean() < 0.55
        assert len(set(found)) > 500


def test_draws_that_do_not_go_together_are_left_out(tmp_path):
    """beta_min above beta_max is no config, each alone is."""
    file = tmp_path / "space.toml"
    file.write_text("beta_min = [0.01, 5.0]\nbeta_max = [1.0, 20.0]\n")
    configs = drawn(ALGORITHMS["penfac"], str(file), count=3)
    assert {(c.beta_min, c.beta_max) for c in configs} == {
        (0.01, 20.0), (0.01, 1.0), (5.0, 20.0),
    }  # fmt: skip
    with pytest.raises(ConfigError, match="at most 3"):
        drawn(ALGORITHMS["penfac"], str(file), count=4)


# --- what is refused ------------------------------------------------------------------------

BAD_SPACES = {
    "not TOML": "gamma = [",
    "empty": "",
    "no such setting": "gama = [0.9, 0.99]\n",
    "no choice": "gamma = []\n",
    "one number": "gamma = 0.9\n",
    "another law": "gamma = { normal = [0.9, 0.99] }\n",
    "one end": "gamma = { log = [0.9] }\n",
    "ends the wrong way round": "gamma = { log = [0.99, 0.9] }\n",
    "a logarithm of 0": "actor_lr = { log = [0.0, 0.1] }\n",
    "no end": "actor_lr = { log = [0.1, inf] }\n",
    "words as ends": 'actor_lr = { log = ["a", "b"] }\n',
    "a word for a number": 'gamma = ["much", "little"]\n',
    "fractions of steps": "actor_steps = { log = [1, 10] }\n",
    "nothing that may be": "gamma = [2.0, 3.0]\n",
    "too few": "gamma = [0.99, 0.9]\n",
}


@pytest.mark.parametrize("text", BAD_SPACES.values(), ids=BAD_SPACES)
def test_bad_spaces_are_refused(text):
    """One line, exit 2, no folder."""
    Path("space.toml").write_text(text)
    result = command("tune", *LQR, "--space=space.toml", "--configs=4")
    assert (result.code, result.out) == (2, "")
    assert result.line
    assert [p.name for p in Path().iterdir()] == ["space.toml"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--configs=1"], "--configs 1"),
        (["--configs=-5"], "--configs -5"),
        (["--halvings=9"], "--halvings 9: must be 0 to 6"),
        (["--configs=7", "--halvings=3"], "--halvings 3: must be 0 to 2"),
        (["--halvings=-1"], "--halvings -1"),
        (["--space=mine"], "--space mine"),
        (["--space=nowhere.toml"], "nowhere.toml"),
        (["--slice=0"], "--slice 0"),
        (["--env=penfac/LRQ-v0"], "penfac/LRQ-v0"),
        (["--set=gama=0.9"], "gama"),
        (["--name=../x"], "--name ../x"),
        (["--seeds=3,3"], "listed twice"),
    ],
)
def test_bad_words_are_refused(words, told):
    result = command("tune", *LQR, *words)
    assert (result.code, result.out) == (2, "")
    assert told in result.line
    assert list(Path().iterdir()) == []


def test_a_fixed_setting_is_not_searched():
    """What makes NFAC of PeNFAC is not for a search to change."""
    nfac = ALGORITHMS["nfac"]
    key, value = next(iter(nfac.overrides.items()))
    Path("space.toml").write_text(space.as_toml({key: [value]}))
    result = command("tune", f"--env={ENV}", "--algo=nfac", "--space=space.toml")
    assert (result.code, result.out) == (2, "")
    assert f"{key} is fixed to {value} in nfac" in result.line


def test_a_negative_draw_is_refused():
    result = command("tune", *LQR, "--configs=4", "--draw=-1", "--stop-after=0s")
    assert (result.code, result.out) == (2, "")


def test_a_negative_number_of_processes_is_refused(monkeypatch):
    # it would wait for ever
    monkeypatch.setattr(tune, "run_with_retries", lambda *_: iter(()))
    result = command("tune", *LQR, "--configs=4", "--processes=-1")
    assert (result.code, result.out) == (2, "")


# --- judging ----------------------------------------------------------------------------------


COLUMNS = ("step", "update", "episode", "mode", "return", "length", "terminated")


def evaluated(folder: Path, points: dict[int, list[float]], failed: int = 0) -> None:
    """A learner's folder as training leaves it: returns by step, a mode that is not mu's
    among them, and an exit code if it failed."""
    folder.mkdir(parents=True)
    with open(folder / "evaluations.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for step, returns in points.items():
            for k, value in enumerate(returns):
                writer.writerow([step, step // 10, k, "mean", value, 5, 0])
                writer.writerow([step, step // 10, k, "sampled", 1e9, 5, 0])
    state = {"state": "failed" if failed else "stopped", "exit_code": failed}
    (folder / "status.json").write_text(json.dumps(state | {"error": "it broke"}))


def test_a_score_is_the_last_tenth(tmp_path):
    """Episodes of an evaluation are averaged, then the last tenth of the evaluations up to
    the first at the rung's steps; one at least; what came later does not count."""
    evaluated(tmp_path / "a", {10 * k: [float(k), k + 1.0] for k in range(1, 41)})
    assert score(tmp_path / "a", 200) == pytest.approx((19.5 + 20.5) / 2)
    assert score(tmp_path / "a", 195) == pytest.approx((19.5 + 20.5) / 2)
    assert score(tmp_path / "a", 10) == 1.5
    assert score(tmp_path / "a", 400) == pytest.approx(
        np.mean([37.5, 38.5, 39.5, 40.5])
    )
    evaluated(tmp_path / "b", {0: [-5.0], 50: [3.0], 100: [8.0]})
    assert score(tmp_path / "b", 50) == 3.0
    assert score(tmp_path / "b", 100) == 8.0


@pytest.mark.parametrize("n", [3, 11, 14, 21, 24, 30])
def test_a_search_a_study_and_a_run_mean_the_same_tenth(n, tmp_path):
    """`penfac tune`, `penfac study` and the authors' score that `penfac train` prints,
    which leaves out the very last evaluation."""
    returns = [float(x) for x in np.random.default_rng(n).normal(size=n)]
    evaluated(tmp_path / "a", {10 * k: [x] for k, x in enumerate(returns)})
    assert score(tmp_path / "a", 10 * n) == pytest.approx(final_score(returns))
    tail = returns[:-1][-last_tenth(n) :]
    wanted = np.mean(tail) - (np.std(tail) if len(tail) > 1 else 0.0)
    assert authors_score(returns) == pytest.approx(wanted)
    assert np.mean(returns[-last_tenth(n) :]) == pytest.approx(final_score(returns))


def search(folder: Path, results: dict[str, list], halvings: int = 1) -> Run:
    """A search whose configs ended so: by seed a return, or an exit code
    as a string."""
    seeds = [1000 + k for k in range(len(next(iter(results.values()))))]
    for arm, ends in results.items():
        for seed, end in zip(seeds, ends, strict=True):
            home = folder / arm / f"seed-{seed}" if len(seeds) > 1 else folder / arm
            if isinstance(end, str):
                evaluated(home, {0: [0.0]}, int(end))
            else:
                evaluated(home, {0: [0.0], 100: [end]})
    request = Request(ENV, steps=100 * 2**halvings, seeds=tuple(seeds))
    config = replace(
        resolve(dataclasses.replace(request, arms={name: {} for name in results})),
        alive=tuple(results),
        search=SearchConfig(len(results), halvings, {}),
    )
    return Run(folder, config)


def order(rows: list[RungResult]) -> list[tuple[str, bool]]:
    return [(row.config, row.kept) for row in rows]


def test_the_better_half_is_kept(tmp_path):
    """By the mean over seeds; of five three."""
    ends = {
        "a": [1.0, 3.0],
        "b": [9.0, -9.0],
        "c": [4.0, 4.0],
        "d": [5.0, 0.0],
        "e": [0, 1],
    }
    rows = rank(search(tmp_path, ends), 0, 100)
    assert order(rows) == [
        ("c", True), ("d", True), ("a", True), ("e", False), ("b", False),
    ]  # fmt: skip
    assert [row.score for row in rows] == [4.0, 2.5, 2.0, 0.5, 0.0]
    assert rows[2].scores == {1000: 1.0, 1001: 3.0}
    assert {(row.rung, row.steps) for row in rows} == {(0, 100)}


def test_at_the_end_one_is_kept(tmp_path):
    run = search(tmp_path, {"a": [1.0], "b": [3.0], "c": [2.0]}, halvings=1)
    assert order(rank(run, 1, 100)) == [
        ("b", True), ("c", False), ("a", False),
    ]  # fmt: skip
    # of those that are left alone
    left = rank(Run(run.path, replace(run.config, alive=("a", "c"))), 1, 100)
    assert order(left) == [("c", True), ("a", False)]


def test_of_equals_the_earlier_is_kept(tmp_path):
    ends = {"c0": [2.0], "c1": [2.0], "c2": [2.0], "c3": [2.0]}
    rows = rank(search(tmp_path, ends), 0, 100)
    assert order(rows) == [("c0", True), ("c1", True), ("c2", False), ("c3", False)]


@pytest.mark.parametrize("code", ["3", "4"])
def test_one_seed_that_failed_puts_a_config_last(code, tmp_path):
    """However good its others are; it is not kept even where half of all would be more."""
    ends = {"a": [1e6, code], "b": [-1e6, -1e6], "c": [code, code], "d": [1e9, code]}
    rows = rank(search(tmp_path, ends), 0, 100)
    assert order(rows)[0] == ("b", True)
    assert {row.config for row in rows if row.kept} == {"b"}
    first = next(row for row in rows if row.config == "a")
    assert first.score == -math.inf
    assert first.failed == {1001: "it broke"}
    assert first.scores == {1000: 1e6}


def test_who_failed_after_the_rung_had_reached_it(tmp_path):
    """Judged by what it was then."""
    run = search(tmp_path, {"a": [1.0], "b": [2.0]})
    state = {"state": "failed", "exit_code": 4, "error": "later"}
    (tmp_path / "b" / "status.json").write_text(json.dumps(state))
    assert order(rank(run, 0, 100)) == [("b", True), ("a", False)]
    assert rank(run, 1, 200)[-1].failed == {1000: "later"}


def test_steps_of_the_rungs():
    for halvings, wanted in ((0, [1000]), (1, [500, 1000]), (3, [125, 250, 500, 1000])):
        config = replace(
            resolve(Request(ENV, steps=1000)), search=SearchConfig(2, halvings, {})
        )
        assert rungs(config) == wanted


# --- a search in one program ----------------------------------------------------------------

SMALL = [*LQR, "--eval-every=50", "--seeds=1000-1001", "--configs=4"]
ONE = ["tune", *SMALL, "--halvings=2", "--slice=8"]
TUNED = Path("runs/tune/penfac/test")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search of four configs as one program: its folder, and what --json said."""
    home = tmp_path_factory.mktemp("searched")
    result = command(*ONE, "--out", home, "--name", "test", "--json")
    assert (result.code, result.err) == (0, "")
    return home / "tune" / "penfac" / "test", json.loads(result.out)


def config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def table(folder: Path) -> list[dict[str, str]]:
    return read_csv(folder / "search.csv")


def halved(rows: list[dict[str, str]], halvings: int, steps: int) -> None:
    """Every config at rung 0, after it those that were kept, at last one; by score."""
    alive = {"c0", "c1", "c2", "c3"}
    for rung in range(halvings + 1):
        own = [row for row in rows if row["rung"] == str(rung)]
        assert {row["config"] for row in own} == alive
        assert len(own) == math.ceil(4 / 2**rung)
        scores = [float(row["score"]) for row in own]
        assert scores == sorted(scores, reverse=True)
        assert {row["steps"] for row in own} == {str(steps // 2 ** (halvings - rung))}
        keep = 1 if rung == halvings else len(own) // 2
        assert [row["kept"] for row in own] == ["1"] * keep + ["0"] * (len(own) - keep)
        alive = {row["config"] for row in own if row["kept"] == "1"}


def test_a_search_in_one_program(searched):
    """Half go at 1/4 of the steps, half of the rest at 1/2; the table says so, with every
    setting that was drawn; who went has no row behind."""
    folder, said = searched
    rows = table(folder)
    halved(rows, 2, 200)
    document = config(folder)
    names = document["search"]["space"]
    for row in rows:
        own = document["arms"][row["config"]]
        assert row.keys() >= {"seed_1000", "seed_1001", *names}
        told = {key: "" if own[key] is None else str(own[key]) for key in names}
        assert {key: row[key] for key in names} == told
        seeds = [float(row[f"seed_{seed}"]) for seed in (1000, 1001)]
        assert float(row["score"]) == pytest.approx(np.mean(seeds))
        assert float(row["std"]) == pytest.approx(np.std(seeds, ddof=1))
        for seed, value in zip((1000, 1001), seeds, strict=True):
            home = folder / row["config"] / f"seed-{seed}"
            assert value == score(home, int(row["steps"]))
    reached = {row["config"]: row["steps"] for row in rows}
    for arm, steps in reached.items():
        for home in learners(folder / arm):
            assert read_csv(home / "evaluations.csv")[-1]["step"] == steps
    # --json tells the same
    assert said["state"] == "finished"
    assert said["best"] == rows[-1]["config"]
    assert [(x["config"], str(x["steps"])) for x in said["configs"]] == [
        (row["config"], row["steps"]) for row in rows
    ]


def test_the_best_is_a_preset(searched):
    """`penfac train` takes it, on another seed, and has the config of the best."""
    folder, said = searched
    assert said["preset"] == str(folder / "best.toml")
    words = ["--preset", said["preset"], "--stop-after=0s", "--name=run"]
    assert command("train", f"--env={ENV}", *words).code == 0
    best = config(folder)["arms"][said["best"]]
    assert config(Path("runs/penfac/run"))["config"] == best
    text = (folder / "best.toml").read_text()
    assert f"{said['best']} of 4 configs" in text
    assert "seeds 1000, 1001" in text


def test_a_finished_search_resumed_says_the_same(searched):
    """Nothing is trained again; search.csv is made from what lies there."""
    folder, said = searched
    before = (folder / "search.csv").read_bytes()
    (folder / "search.csv").unlink()
    result = command("resume", folder, "--slice=8", "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == said
    assert (folder / "search.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("update", [1, 3])
def test_a_stopped_search_goes_on(update, searched, monkeypatch):
    """In the first rung or behind it: the same table, and the same learners."""
    with monkeypatch.context() as patched:
        signal_at_update(patched, update)
        result = command(*ONE, "--name=test")
    assert (result.code, result.err) == (143, "")
    assert f"continue: penfac resume {TUNED}" in result.out
    assert not (TUNED / "best.toml").exists()
    result = command("resume", TUNED, "--slice=8")
    assert (result.code, result.err) == (0, "")
    wanted = (searched[0] / "search.csv").read_bytes()
    assert (TUNED / "search.csv").read_bytes() == wanted
    ended_alike(TUNED, searched[0])


def test_a_search_has_no_other_budget(searched):
    result = command("resume", searched[0], "-n", 400)
    assert (result.code, result.out) == (2, "")
    assert "--steps 400" in result.line


@pytest.mark.slow
def test_a_config_that_diverges_is_last():
    """Failed in the table, never kept; the search goes on without it."""
    Path("space.toml").write_text("actor_lr = [1e30]\ncritic_lr = [0.2, 1e30, 2e30]\n")
    words = ["--space=space.toml", "--halvings=1", "--slice=8", "--name=test"]
    result = command("tune", *SMALL, *words, "--set=actor_lr=0.01", "--json")
    assert result.code == 0
    rows = table(TUNED)
    failed = [row["config"] for row in rows if row["score"] == "failed"]
    assert 2 <= len(failed) <= 3
    assert [row["config"] for row in rows[:4]][-len(failed) :] == failed
    assert {row["kept"] for row in rows[:4] if row["config"] in failed} == {"0"}
    assert not set(failed) & {row["config"] for row in rows[4:]}
    assert json.loads(result.out)["best"] == "c0"


@pytest.mark.slow
def test_a_search_in_which_all_fail():
    """Exit 4, no preset, and the table says of each that it failed."""
    words = ["--set=critic_lr=1e30", "--set=actor_lr=1e30", "--space=space.toml"]
    Path("space.toml").write_text("gamma = { uniform = [0.9, 0.99] }\n")
    result = command("tune", *SMALL, *words, "--slice=8", "--name=test", "--json")
    assert result.code == 4
    said = json.loads(result.out)
    assert (said["state"], said["best"]) == ("every config failed", None)
    assert [row["score"] for row in table(TUNED)] == ["failed"] * 4
    assert not (TUNED / "best.toml").exists()


@pytest.mark.slow
def test_a_search_packed_and_unpacked_is_a_search(searched):
    folder, said = searched
    assert command("runs", "pack", folder, "files").code == 0
    assert command("runs", "unpack", "files", "--out=out").code == 0
    again = Path("out/tune/penfac/penfac-LQR-v0_1")
    ended_alike(again, folder)
    result = command("resume", again, "--slice=8", "--json")
    assert json.loads(result.out)["configs"] == said["configs"]
    for name in ("search.csv", "best.toml"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_a_search_is_not_resumed_from_its_files(searched):
    """As a run it would train those that were left behind: it says what to do instead."""
    assert command("runs", "pack", searched[0], "files").code == 0
    before = Path("files.csv").read_bytes()
    result = command("resume", "files", "--slice=8")
    assert result.code == 2
    assert "runs unpack" in result.line
    assert Path("files.csv").read_bytes() == before


# --- a search on processes --------------------------------------------------------------------

MANY = ["tune", *SMALL, "--halvings=1", "--processes=2"]


class Marked:
    """Processes that carry a word in their environment, wherever they ended up."""

    def __init__(self):
        self.word = uuid.uuid4().hex
        self.environment = environment(PENFAC_TEST=self.word)

    def alive(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                told = (place / "environ").read_bytes()
                ended = (place / "stat").read_text().rpartition(") ")[2][0] == "Z"
            except OSError:
                continue
            if self.word.encode() in told and not ended:
                found.append(int(place.name))
        return found

    def all_leave(self, seconds: float = 60) -> None:
        wait_until(lambda: not self.alive(), seconds)


def wait_until(true, seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


def rows_of(folder: Path) -> int:
    return sum(len(read_csv(f)) for f in folder.rglob("evaluations.csv"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A search on two processes, in one go."""
    home = tmp_path_factory.mktemp("undisturbed")
    marked = Marked()
    result = command_alone(*MANY, "--name=test", cwd=home, env=marked.environment)
    assert (result.code, result.err) == (0, "")
    assert marked.alive() == []
    return home / TUNED


@pytest.mark.slow
def test_a_search_on_processes(undisturbed):
    rows = table(undisturbed)
    halved(rows, 1, 200)
    assert (undisturbed / "best.toml").is_file()
    for arm in config(undisturbed)["arms"]:
        assert config(undisturbed / arm)["config"] == config(undisturbed)["arms"][arm]
        assert {status(x)["state"] for x in learners(undisturbed / arm)} <= {
            "stopped", "finished",
        }  # fmt: skip


@pytest.mark.slow
def test_processes_end_as_runs_of_their_own(undisturbed):
    """The best, trained alone on the tuning seeds, but for the evaluation at the rung."""
    best = next(r["config"] for r in table(undisturbed)[::-1] if r["kept"] == "1")
    words = ["--preset", undisturbed / "best.toml", "--seeds=1000-1001", "--name=run"]
    assert command("train", f"--env={ENV}", "--steps=200", "--eval-every=50",
                   "--eval-episodes=1", *words).code == 0  # fmt: skip
    ended_alike(undisturbed / best, Path("runs/penfac/run"))


@pytest.mark.slow
def test_killed_interrupted_and_stopped(undisturbed, tmp_path):
    """--stop-after, kill -9 of the one who drives, Ctrl-C: the processes leave with it, what
    they learned is saved, and the search ends with the very same table."""
    first = command(*MANY, "--name=test", "--stop-after=0s")
    assert (first.code, first.err) == (0, "")
    assert f"continue: penfac resume {TUNED}" in first.out
    assert not (TUNED / "search.csv").exists()

    killed = Marked()
    process = start("resume", TUNED, cwd=tmp_path, env=killed.environment)
    wait_until(lambda: rows_of(TUNED) > 0)
    process.kill()
    process.communicate()
    killed.all_leave()
    assert not (TUNED / "best.toml").exists()

    told = Marked()
    before = rows_of(TUNED)
    process = start("resume", TUNED, cwd=tmp_path, env=told.environment)
    wait_until(lambda: rows_of(TUNED) > before)
    os.kill(process.pid, signal.SIGINT)
    result = finish(process)
    assert (result.code, result.err) == (130, "")
    assert "stopped by SIGINT" in result.out
    assert told.alive() == []
    states = [status(file.parent) for file in TUNED.rglob("status.json")]
    assert {state["state"] for state in states} <= {"stopped", "finished"}
    for state in states:
        assert state["last_checkpoint"] is not None
    assert not (TUNED / "best.toml").exists()

    last = command_alone("resume", TUNED, cwd=tmp_path)
    assert (last.code, last.err) == (0, "")
    wanted = (undisturbed / "search.csv").read_bytes()
    assert (TUNED / "search.csv").read_bytes() == wanted
    ended_alike(TUNED, undisturbed)


def test_seeds_of_tuning():
    """Unless told, not those that results are reported on."""
    words = ["--configs=4", "--stop-after=0s", "--name=test"]
    assert command("tune", *LQR, *words).code == 0
    document = config(TUNED)
    assert document["seeds"] == [1000, 1001, 1002]
    assert len(document["arms"]) == 4
    assert document["arms"]["c0"] == document["config"]


OWN = ["--configs=2", "--halvings=0", "--seeds=7-7", "--name=test", "--processes=2"]


@pytest.mark.slow
def test_an_environment_of_ones_own(monkeypatch):
    """module:Id: each process brings in the module."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    result = command("tune", *LQR, f"--env={BAD}Plain-v0", *OWN)
    assert (result.code, result.err) == (0, "")
    assert [row["rung"] for row in table(TUNED)] == ["0", "0"]


def test_processes_that_cannot_begin():
    """An environment that cannot be used: one line and the exit code of training on it."""
    result = command("tune", *LQR, f"--env={BAD}Tuple-v0", *OWN)
    assert result.code == 2
    assert "the observation space is Tuple" in result.line
    assert not (TUNED / "best.toml").exists()
