"""Several configs as arms of one run: their folders, and that none can tell it from a run
of its own."""

import json
from pathlib import Path

import pytest
from tests.faults.commands import command, status
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import (
    ARMS,
    LQR,
    ended_alike,
    learners,
    left,
    settings,
    signal_at_update,
    write_arms,
)

from penfac.runs.csv_files import read_csv
from penfac.runs.learners import configs_of
from penfac.runs.run import Run
from penfac.settings import presets

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RUN = Path("runs/penfac/test")


def train_arms(*more: object, arms=ARMS, name: str = "test", seeds: object = 2):
    file = write_arms(Path("arms.toml"), arms)
    return command(
        "train", *LQR, "--arms", file, "--seeds", seeds, "--name", name, *more
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two arms of two seeds, in one go: the folder, and what --json said."""
    home = tmp_path_factory.mktemp("whole")
    file = write_arms(home / "arms.toml", ARMS)
    words = ["--arms", file, "--seeds", 2, "--out", home, "--name", "whole", "--json"]
    result = command("train", *LQR, *words)
    assert (result.code, result.err) == (0, "")
    return home / "penfac" / "whole", json.loads(result.out)


def config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


# --- folders ------------------------------------------------------------------------------


def test_folders_and_their_configs(whole):
    """config.json of the run, of each arm and of each seed, as `configs_of` has them; and
    no other folder holds one."""
    run, _ = whole
    opened = Run.open(run)
    configs = configs_of(run, opened.config)
    wanted = {path: own.to_document() for path, own in configs.items()}
    arms = [run / arm for arm in ARMS]
    seeds = [arm / f"seed-{seed}" for arm in arms for seed in (0, 1)]
    assert wanted.keys() == {run, *arms, *seeds}
    assert {f.parent: config(f.parent) for f in run.rglob("config.json")} == wanted
    assert [x.path for x in opened.learners] == seeds
    for arm, own in ARMS.items():
        document = config(run / arm)
        assert document["arm"] == arm
        assert "arms" not in document
        assert own.items() <= document["config"].items()
        assert document["seeds"] == [0, 1]
        assert config(run / arm / "seed-1") == document | {"seeds": [1]}
    assert config(run / "short")["config"] != config(run / "base")["config"]


@pytest.mark.slow
def test_one_seed_is_the_arm_itself():
    """No seed folder where there is one seed."""
    assert train_arms("--seed", 3, seeds="3-3").code == 0
    assert learners(RUN) == [RUN / arm for arm in ARMS]
    assert {f.parent for f in RUN.rglob("config.json")} == {RUN, *learners(RUN)}
    assert config(RUN / "short")["seeds"] == [3]


def test_curves_on_all_three_levels(whole):
    run, _ = whole
    folders = [run, *(run / arm for arm in ARMS), *learners(run)]
    assert len(folders) == 1 + 2 + 4
    pictures = [(folder / "curve.png").read_bytes() for folder in folders]
    assert all(picture.startswith(SIGNATURE) for picture in pictures)
    assert len(set(pictures)) == len(pictures)


@pytest.mark.slow
def test_the_ablation_is_one_run():
    """The arms that come with the package, each with the config that says so."""
    words = ["--arms=ablation", "--preset=authors", "--stop-after=0s", "--name=test"]
    assert command("train", *LQR, *words).code == 0
    arms = presets.arms("ablation")
    # PeNFAC is the CAC update itself in this preset
    assert config(RUN)["arms"].keys() == arms.keys() - {"cac-update"}
    assert len(config(RUN)["arms"]) == 7
    for arm in config(RUN)["arms"]:
        own = arms[arm]
        assert own.items() <= config(RUN / arm)["config"].items()
        assert status(RUN / arm)["state"] == "stopped"


# --- an arm is a run of its own -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_is_the_run_of_that_arm_alone(arm, whole):
    """Bit for bit: rows, policy and weights of every seed."""
    run, _ = whole
    words = ["--seeds", 2, "--name", "alone"]
    assert command("train", *LQR, *settings(arm), *words).code == 0
    ended_alike(run / arm, RUN.parent / "alone")


def test_arms_and_seeds_differ(whole):
    """Else all of them being equal to others would say nothing."""
    run, _ = whole
    states = [tuple(left(folder).values())[-1] for folder in learners(run)]
    assert len(set(states)) == 4


@pytest.mark.slow
def test_an_arm_can_be_resumed_alone(whole):
    """It goes further, as that arm alone would; the other stays where it was."""
    assert train_arms().code == 0
    before = {folder: left(folder) for folder in learners(RUN / "base")}
    result = command("resume", RUN / "short", "-n", 300)
    assert (result.code, result.err) == (0, "")
    words = ["--seeds", 2, "--steps=300", "--name", "alone"]
    assert command("train", *LQR, *settings("short"), *words).code == 0
    ended_alike(RUN / "short", RUN.parent / "alone")
    assert {folder: left(folder) for folder in learners(RUN / "base")} == before
    ended_alike(RUN / "base", whole[0] / "base")


def test_eval_tells_every_arm(whole):
    """The mean over the seeds of each; an arm alone is judged as within the run."""
    run, _ = whole
    shown = command("eval", run, "--episodes", 2)
    assert (shown.code, shown.err) == (0, "")
    report = json.loads(command("eval", run, "--episodes", 2, "--json").out)
    rows = report["seeds"]
    assert [(row["arm"], row["seed"]) for row in rows] == [
        (arm, seed) for arm in ARMS for seed in (0, 1)
    ]
    assert report["arms"].keys() == ARMS.keys()
    for arm, told in report["arms"].items():
        own = [row for row in rows if row["arm"] == arm]
        assert told["mean"] == pytest.approx(sum(row["mean"] for row in own) / 2)
        assert told["std_over_seeds"] > 0
        assert f"{arm}: {told['mean']:.1f} +- " in shown.out
        alone = json.loads(command("eval", run / arm, "--episodes=2", "--json").out)
        assert "arms" not in alone
        unnamed = [{k: v for k, v in row.items() if k != "arm"} for row in own]
        assert alone["seeds"] == unnamed
        assert alone["mean"] == told["mean"]


def test_play_needs_an_arm(whole):
    """One line that names them; exit 2 and no picture."""
    result = command("play", whole[0], "--strip", "strip.png")
    assert (result.code, result.out) == (2, "")
    assert "base, short" in result.line
    assert not Path("strip.png").exists()


def test_json_names_arm_and_seed(whole):
    run, said = whole
    assert (said["run"], said["state"], said["errors"]) == (str(run), "finished", {})
    assert said["steps"] == 4 * 200
    rows = {(row["arm"], row["seed"]): row for row in said["seeds"]}
    assert list(rows) == [(arm, seed) for arm in ARMS for seed in (0, 1)]
    for (arm, seed), row in rows.items():
        last = read_csv(run / arm / f"seed-{seed}" / "evaluations.csv")[-1]
        assert (row["step"], row["return"]) == (200, float(last["return"]))


# --- stopping and failing -------------------------------------------------------------------


@pytest.mark.slow
def test_stopped_and_resumed_ends_as_in_one_go(whole, monkeypatch):
    first = train_arms("--stop-after", "0s")
    assert (first.code, first.err) == (0, "")
    assert f"continue: penfac resume {RUN}" in first.out
    assert read_csv(RUN / "short" / "seed-1" / "progress.csv") == []
    with monkeypatch.context() as patched:
        signal_at_update(patched, 7)  # some learners have made two updates, some one
        assert command("resume", RUN).code == 143
    assert {status(folder)["state"] for folder in learners(RUN)} == {"stopped"}
    made = {len(read_csv(folder / "progress.csv")) for folder in learners(RUN)}
    assert made <= {1, 2}
    assert command("resume", RUN).code == 0
    ended_alike(RUN, whole[0])


@pytest.mark.slow
def test_an_arm_that_diverges_fails_alone(whole):
    """Exit code 4, one line for each of its seeds; the others end as if it were not."""
    arms = {"base": {}, "mad": {"actor_lr": 1e30, "critic_lr": 1e30}, **ARMS}
    result = train_arms("--json", arms=arms)
    assert result.code == 4
    said = json.loads(result.out)
    assert said["state"] == "2 of 6 learners failed"
    assert said["errors"].keys() == {"mad, 0", "mad, 1"}
    assert result.err.count("\n") == 2
    assert "penfac: mad, 0: " in result.err
    for seed in (0, 1):
        state = status(RUN / "mad" / f"seed-{seed}")
        assert (state["state"], state["exit_code"]) == ("failed", 4)
    for arm in ARMS:
        ended_alike(RUN / arm, whole[0] / arm)
        assert {status(x)["state"] for x in learners(RUN / arm)} == {"finished"}


# --- what is refused ------------------------------------------------------------------------

BAD_FILES = {
    "not TOML": "[base\n",
    "no such setting": "[base]\ngama = 0.9\n",
    "not a number": '[base]\ngamma = "much"\n',
    "out of range": "[base]\ngamma = 2.0\n",
    "a folder elsewhere": '["../x"]\n',
    "a seed's folder": "[seed-1]\n",
    "no name": '[""]\n',
    "no block": "gamma = 0.9\n",
    "empty": "",
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_of_arms_are_refused(text):
    """One line, exit 2, no folder."""
    Path("arms.toml").write_text(text)
    result = command("train", *LQR, "--arms", "arms.toml")
    assert (result.code, result.out) == (2, "")
    assert "arms" in result.line
    assert [p.name for p in Path().iterdir()] == ["arms.toml"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--arms=ablatoin"], "ablation"),
        (["--arms=nowhere.toml"], "nowhere.toml"),
        (["--arms=ablation", "--algo=ppo"], "no-trust-region"),
        (["--slice=0"], "--slice 0"),
        (["--slice=-3"], "--slice -3"),
        (["--slice=all"], "--slice"),
    ],
)
def test_bad_words_are_refused(words, told):
    result = command("train", "--env=penfac/LQR-v0", *words)
    assert (result.code, result.out) == (2, "")
    assert told in result.line
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("name", ["lock", "config.json", "curve.png"])
def test_an_arm_may_not_be_named_as_a_file_of_the_run(name):
    """Its folder would lie where the run writes; the name is refused before anything is."""
    write_arms(Path("arms.toml"), {name: {}, "other": {"gamma": 0.9}})
    result = command("train", *LQR, "--arms", "arms.toml", "--stop-after=0s")
    assert result.code == 2
    assert name in result.line
    assert not Path("runs").exists()


@pytest.mark.slow
def test_learners_that_share_a_program_learn_the_same(whole):
    """--slice 4: one program for all, the numbers of four to a rounding."""
    assert train_arms("--slice", 4).code == 0
    for folder in learners(RUN):
        own = read_csv(folder / "evaluations.csv")
        other = read_csv(whole[0] / folder.relative_to(RUN) / "evaluations.csv")
        assert [r["step"] for r in own] == [r["step"] for r in other]
        returns = [[float(r["return"]) for r in rows] for rows in (own, other)]
        assert returns[0] == pytest.approx(returns[1], rel=1e-2)
