"""`penfac tune --sampler tpe`: Optuna draws, the worse half stops, and a kill costs nothing."""

import json
import sys
from pathlib import Path

import pytest
from tests.faults.commands import command, command_alone, environment, start
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.search.test_tune import Marked, rows_of, wait_until
from tests.small_runs import LQR, ended_alike, learners

from penfac.runs.config import read_config
from penfac.runs.csv_files import read_csv
from penfac.search.rungs import search_of

TPE = [
    "tune", *LQR, "--configs=5", "--halvings=1", "--processes=1", "--seeds=3-4",
    "--sampler=tpe", "--study=test",
]  # fmt: skip
TUNED = Path("runs/tune/penfac/test")


def test_without_optuna(monkeypatch):
    """One line with the command that installs it, and no folder."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = command(*TPE)
    assert (result.code, result.out) == (2, "")
    assert 'pip install "penfac[optuna]"' in result.line
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sampler=grid"], "--sampler grid: must be random or tpe"),
        (["--sampler=random", "--storage=sqlite:///x.db"], "needs --sampler tpe"),
        (["--name=other"], "--study is the name"),
        (["--study=a/b"], "must be a plain folder name"),
        (["--slice=8"], "use --sampler random"),
    ],
)
def test_what_is_refused(words, told):
    result = command(*TPE, *words)
    assert (result.code, result.out) == (2, "")
    assert told in result.line
    assert not Path("runs").exists()


def test_a_random_search_with_a_name_goes_on():
    """The same command twice is one search; with other options it is refused."""
    words = ["tune", *LQR, "--configs=2", "--halvings=0", "--study=test", "--slice=8"]
    first = command(*words, "--stop-after=0s")
    assert (first.code, first.err) == (0, "")
    other = command(*words, "--draw=1")
    assert other.code == 2
    assert "was begun otherwise (search.seed: 0 -> 1)" in other.line
    assert command(*words).code == 0
    assert len(learners(TUNED)) == 6
    assert (TUNED / "best.toml").is_file()


# --- with Optuna ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search on one process, in one go."""
    pytest.importorskip("optuna")
    home = tmp_path_factory.mktemp("searched")
    result = command_alone(*TPE, cwd=home)
    assert (result.code, result.err) == (0, "")
    return home / TUNED


def load_trials(storage) -> list:
    import optuna

    if isinstance(storage, Path):
        journal = optuna.storages.journal
        storage = optuna.storages.JournalStorage(
            journal.JournalFileBackend(str(storage))
        )
    return optuna.load_study(study_name="penfac-test", storage=storage).trials


def halved_as_told(folder: Path) -> None:
    """A config goes on from the first rung if it is in the better half of those before
    it and itself, or is the best of them; oracle: sorting."""
    config = read_config(folder)
    rows = {(r["config"], r["rung"]): float(r["score"]) for r in table(folder)}
    before: list[float] = []
    for arm, rung, goes_on in search_of(config).told:
        if rung == 0:
            before.append(rows[arm, "0"])
            better = sorted(before, reverse=True)[: max(1, len(before) // 2)]
            assert goes_on == (rows[arm, "0"] in better), arm
        else:
            assert not goes_on


def table(folder: Path) -> list[dict[str, str]]:
    return read_csv(folder / "search.csv")


@pytest.mark.slow
def test_a_search(searched):
    """Five configs, the preset first; the study holds what the runs hold."""
    halved_as_told(searched)
    config = read_config(searched)
    assert list(config.arms) == ["c0", "c1", "c2", "c3", "c4"]
    assert config.arms["c0"] == config.settings
    rows = table(searched)
    last = [row for row in rows if row["rung"] == "1"]
    scores = [float(row["score"]) for row in last]
    assert scores == sorted(scores, reverse=True)
    assert [row["kept"] for row in last] == ["1"] + ["0"] * (len(last) - 1)
    trials = load_trials(searched / "optuna.journal")
    at_end = {row["config"]: float(row["score"]) for row in last}
    for trial, arm in zip(trials, config.arms, strict=True):
        assert trial.user_attrs["config"] == arm
        assert trial.value == at_end.get(arm, trial.intermediate_values[100])
    assert "of 5 configs" in (searched / "best.toml").read_text()


@pytest.mark.slow
def test_a_search_that_was_killed_ends_alike(searched, tmp_path):
    """kill -9, then the same command: the same draws, table and learners."""
    killed = Marked()
    process = start(*TPE, cwd=tmp_path, env=killed.environment)
    wait_until(lambda: rows_of(TUNED) >= 14, 300)  # of the second config or the third
    process.kill()
    process.communicate()
    killed.all_leave()
    assert not (TUNED / "best.toml").exists()
    result = command_alone(*TPE, cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert (TUNED / "search.csv").read_bytes() == (searched / "search.csv").read_bytes()
    ended_alike(TUNED, searched)
    again = command_alone("resume", TUNED, "--json", cwd=tmp_path)
    assert json.loads(again.out)["state"] == "finished"


@pytest.mark.slow
def test_more_configs_in_a_database(tmp_path):
    """Two processes; then more of the same search, kept in SQLite; another search may not
    take its study."""
    pytest.importorskip("optuna")
    words = [*TPE, "--processes=2"]
    assert command_alone(*words, "--configs=3", cwd=tmp_path).code == 0
    kept = "--storage=sqlite:///search.db"
    result = command_alone(*words, "--configs=5", kept, cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    halved_as_told(TUNED)
    assert len(load_trials("sqlite:///search.db")) == 5
    assert not (TUNED / "optuna.journal").exists()
    fewer = command(*words, "--configs=4", kept)
    assert "has 5; must be at least that" in fewer.line
    theirs = command(*words, kept, "--out=elsewhere")
    assert theirs.code == 2
    assert "choose another --study" in theirs.line


@pytest.mark.slow
def test_configs_that_fail_or_are_none(tmp_path):
    """One that diverges is last; values that do not go together are not trained; a space
    that holds no more ends the search."""
    pytest.importorskip("optuna")
    Path("space.toml").write_text(
        "critic_lr = [0.1, 1e30]\nbeta_min = [0.01, 5.0]\nbeta_max = [1.0]\n"
    )
    words = ["--space=space.toml", "--set=beta_max=1.0", "--configs=8", "--halvings=0"]
    result = command_alone(*TPE, *words, "--seeds=3", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert "the space holds no other config; 2 were drawn" in result.out
    rows = table(TUNED)
    assert [row["kept"] for row in rows] == ["1", "0"]
    assert rows[1]["score"] == "failed"
    failed = [
        t for t in load_trials(TUNED / "optuna.journal") if "failed" in t.user_attrs
    ]
    assert [t.params["critic_lr"] for t in failed] == ["1e+30"]


@pytest.mark.slow
def test_a_process_that_is_lost_is_tried_again(monkeypatch, tmp_path):
    pytest.importorskip("optuna")
    env = environment(DIES_ONCE=str(tmp_path / "died"))
    dies = ["--env=tests.faults.rude_envs:Dies-v0", "--configs=2", "--halvings=0"]
    result = command_alone(*TPE, *dies, "--seeds=7", cwd=tmp_path, env=env)
    assert (result.code, result.err) == (0, "")
    assert "its process was killed by SIGSEGV; it is tried again" in result.out


def test_a_forged_search_is_refused(tmp_path):
    """What was decided is of configs that are there."""
    words = ["tune", *LQR, "--configs=2", "--halvings=0", "--name=test"]
    assert command(*words, "--stop-after=0s").code == 0
    file = TUNED / "config.json"
    document = json.loads(file.read_text())
    document["search"]["told"] = [["c9", 0, True]]
    file.write_text(json.dumps(document))
    result = command("resume", TUNED)
    assert result.code == 2
    assert "search.told: c9" in result.line


# --- several processes ----------------------------------------------------------------------


def shared(configs: int) -> list[str]:
    return [*TPE, f"--configs={configs}"]


def trained_once(folder: Path) -> None:
    """Every rung of every config was judged once, and trained in one go."""
    told = search_of(read_config(folder)).told
    judged = [(arm, rung) for arm, rung, _ in told]
    assert len(judged) == len(set(judged))
    for arm in read_config(folder).arms:
        rungs = sum(name == arm for name, _ in judged)
        log = (folder / arm / "seed-3" / "log.txt").read_text()
        assert log.count("learning on") == rungs
        for learner in learners(folder / arm):
            steps = [row["step"] for row in read_csv(learner / "progress.csv")]
            assert len(steps) == len(set(steps))


def configs_in(output: str) -> set[str]:
    return {line.split()[1] for line in output.splitlines() if " steps: " in line}


@pytest.mark.parametrize(
    "storage", [None, pytest.param("sqlite:///search.db", marks=pytest.mark.slow)]
)
def test_two_processes_share_a_search(storage, tmp_path):
    """The same command twice at once: each trains some configs, none is trained twice,
    and both end with the whole table."""
    pytest.importorskip("optuna")
    words = [*shared(6), *([f"--storage={storage}"] if storage else [])]
    both = [start(*words, cwd=tmp_path) for _ in range(2)]
    told = []
    for process in both:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, "")
        told.append(configs_in(out))
    assert told[0] | told[1] == {f"c{k}" for k in range(6)}
    assert not told[0] & told[1]
    trained_once(TUNED)
    halved_as_told(TUNED)
    assert len({row["config"] for row in table(TUNED)}) == 6
    trials = load_trials(storage or TUNED / "optuna.journal")
    kept = [trial for trial in trials if "refused" not in trial.user_attrs]
    assert sorted(t.user_attrs["config"] for t in kept) == sorted(told[0] | told[1])
    assert all(trial.state.is_finished() for trial in trials)


def test_a_kill_leaves_the_other_process_well(tmp_path):
    """What the killed one had begun is ended by the other one."""
    pytest.importorskip("optuna")
    killed = Marked()
    first = start(*shared(5), cwd=tmp_path, env=killed.environment)
    wait_until(lambda: rows_of(TUNED) >= 1, 300)
    second = start(*shared(5), cwd=tmp_path)
    wait_until(lambda: len(read_config(TUNED).arms) >= 3, 300)
    first.kill()
    first.communicate()
    _, err = second.communicate(timeout=300)
    killed.all_leave()
    assert (second.returncode, err) == (0, "")
    told = search_of(read_config(TUNED)).told
    assert len({(arm, rung) for arm, rung, _ in told}) == len(told)
    assert {arm for arm, _, _ in told} == {f"c{k}" for k in range(5)}
    halved_as_told(TUNED)
    assert (TUNED / "best.toml").is_file()
    for folder in learners(TUNED):
        steps = [int(row["step"]) for row in read_csv(folder / "progress.csv")]
        assert steps == list(range(50, 50 * len(steps) + 1, 50))
