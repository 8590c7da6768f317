"""`--track`: W&B and MLflow hear what TensorBoard hears, and never end a run."""

import json
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.faults.commands import command, command_alone, environment, same_end
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import LQR

from penfac.runs import tracking
from penfac.runs.csv_files import read_csv

STUDY = """
name = "mine"
title = "Wide or narrow"
envs = ["penfac/LQR-v0"]
steps = 200
eval_every = 100
eval_episodes = 2

[arms.wide]
actor_hidden = [4]
sigma = 0.4

[arms.narrow]
actor_hidden = [4]
sigma = 0.2
"""
RUN = Path("runs/penfac/test")
TRAIN = ["train", *LQR, "--name=test"]


def column(name: str) -> list[float]:
    return [float(row[name]) for row in read_csv(RUN / "progress.csv")]


@pytest.mark.parametrize(
    ("name", "package"), [("wandb", "wandb"), ("mlflow", "mlflow.tracking")]
)
def test_a_missing_package(name, package, monkeypatch):
    """One line with the command that installs it, and no folder."""
    monkeypatch.setitem(sys.modules, package, None)
    result = command(*TRAIN, "--track", name)
    assert (result.code, result.out) == (2, "")
    assert f'pip install "penfac[{name}]"' in result.line
    assert not Path("runs").exists()


def test_an_unknown_tracker():
    result = command(*TRAIN, "--track=comet")
    assert result.code == 2
    assert "--track comet: must be wandb, mlflow, tensorboard" in result.line


def test_tensorboard_needs_nothing():
    assert command(*TRAIN, "--track=tensorboard").code == 0
    assert list((RUN / "tb").iterdir())
    assert not (RUN / "track.json").exists()


class Good:
    """Keeps what it hears."""

    heard: list = []  # noqa: RUF012

    def __init__(self, about):
        self.about = about
        self.heard.append(("begin", about))

    def scalars(self, values, step):
        self.heard.append((step, values))

    def close(self, state):
        self.heard.append(("close", state))


class NoBeginning(Good):
    def __init__(self, about):
        raise ConnectionError("no\nnetwork")


class Leaves(Good):
    def scalars(self, values, step):
        sys.exit(5)


class NoEnd(Good):
    def close(self, state):
        raise OSError("disk full")


class Hangs(Good):
    def close(self, state):
        threading.Event().wait(20)


@pytest.fixture
def known(monkeypatch):
    """A tracker of ours under the name `wandb`."""

    def use(kind):
        monkeypatch.setitem(tracking.KINDS, "wandb", kind)
        monkeypatch.setitem(tracking.trackers.CHECKS, "wandb", lambda: None)
        monkeypatch.setattr(Good, "heard", [])

    return use


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (NoBeginning, "ConnectionError: no network"),
        (Leaves, "SystemExit: 5"),
        (NoEnd, "OSError: disk full"),
        (Hangs, "did not end within 0.2 s"),
    ],
)
def test_one_that_fails_ends_no_run(kind, told, known, monkeypatch, tmp_path):
    """The same bits as without it, exit code 0, and one line that says what happened."""
    known(kind)
    monkeypatch.setattr(tracking, "CLOSING", 0.2)
    result = command(*TRAIN, "--track=wandb")
    assert (result.code, result.err) == (0, "")
    assert result.out.count("--track wandb") == 1
    assert told in result.out
    assert command(*TRAIN, "--name=plain").code == 0
    same_end(RUN, Path("runs/penfac/plain"))


def test_what_it_hears(known):
    """Settings first, every row of progress.csv under TensorBoard's names, the end; after
    an interruption the same id."""
    known(Good)
    assert command(*TRAIN, "--track=wandb", "--stop-after=0s").code == 0
    first = Good.heard[0][1]
    assert Good.heard[-1] == ("close", "stopped")
    assert first.settings["actor_lr"] == 0.01
    assert first.name == first.group == "penfac/test"
    assert command("resume", RUN, "--track=wandb").code == 0
    again = [x[1] for x in Good.heard if x[0] == "begin"][1]
    assert again.id == first.id
    assert Good.heard[-1] == ("close", "finished")
    rows = [(s, v) for s, v in Good.heard if isinstance(s, int)]
    losses = [(s, v["train/value_loss"]) for s, v in rows if "train/value_loss" in v]
    assert [step for step, _ in losses] == column("step")
    assert [loss for _, loss in losses] == pytest.approx(column("value_loss"))
    assert [s for s, v in rows if "eval/mean_reward" in v][-1] == 200


def test_one_for_each_seed(known):
    known(Good)
    assert command(*TRAIN, "--seeds=2", "--track=wandb").code == 0
    begun = {x[1].name: x[1] for x in Good.heard if x[0] == "begin"}
    assert sorted(begun) == ["penfac/test/seed-0", "penfac/test/seed-1"]
    assert len({about.id for about in begun.values()}) == 2
    assert {about.settings["seed"] for about in begun.values()} == {0, 1}


def names_heard() -> dict[str, str]:
    """The names of runs, and the groups that they are in."""
    return {x[1].name: x[1].group for x in Good.heard if x[0] == "begin"}


def test_a_search(known):
    """A run for each learner, under the search; the same one at every rung."""
    known(Good)
    words = ["--configs=2", "--halvings=1", "--seeds=3-4", "--slice=8", "--study=mine"]
    assert command("tune", *LQR, *words, "--track=wandb").code == 0
    group = "tune/penfac/mine"
    each = [f"{group}/c{k}/seed-{s}" for k in (0, 1) for s in (3, 4)]
    assert names_heard() == dict.fromkeys(each, group)
    begun = [x[1] for x in Good.heard if x[0] == "begin"]
    assert len({about.id for about in begun}) == 4 < len(begun)
    assert {about.settings["arm"] for about in begun} == {"c0", "c1"}
    kept = [x for x in Good.heard if x[0] == "close" and x[1] == "finished"]
    assert len(kept) == 2


def test_a_study(known, tmp_path):
    known(Good)
    (tmp_path / "mine.toml").write_text(STUDY)
    words = ["mine.toml", "--on=device", "--processes=1", "--seeds=2", "--track=wandb"]
    assert command("study", "run", *words).code == 0
    each = [
        f"mine/penfac-LQR-v0/penfac/{arm}/seed-{seed}"
        for arm in ("wide", "narrow")
        for seed in (0, 1)
    ]
    assert names_heard() == dict.fromkeys(each, "mine")
    rows = [v for s, v in Good.heard if isinstance(s, int)]
    assert any("eval/mean_reward" in v for v in rows)


@pytest.mark.parametrize("text", ["[1", '{"wandb": "../x"}', '{"wandb": 5}', "[]"])
def test_a_forged_file_of_ids(text, known):
    """An id is a word; anything else is replaced."""
    known(Good)
    assert command(*TRAIN, "--stop-after=0s").code == 0
    (RUN / "track.json").write_text(text)
    assert command("resume", RUN, "--track=wandb").code == 0
    assert Good.heard[0][1].id == json.loads((RUN / "track.json").read_text())["wandb"]
    assert len(Good.heard[0][1].id) == 16


def test_one_that_does_not_keep_up(known):
    """Messages wait to a limit; then it is dropped."""
    wait = threading.Event()

    class Slow(Good):
        def scalars(self, values, step):
            wait.wait(20)

    told = []
    courier = tracking.Courier(
        "wandb", Slow, tracking.About("a", "b", "c", {}), told.append
    )
    for k in range(tracking.WAITING + 3):
        courier.scalars({}, k)
    courier.scalars({}, 0)
    began = time.monotonic()
    wait.set()
    courier.close("finished")
    assert time.monotonic() - began < 5
    assert len(told) == 1
    assert "does not keep up" in told[0]


# --- the real ones ----------------------------------------------------------------------------


@pytest.mark.slow
def test_wandb_offline(tmp_path):
    """A run of W&B on the disk, with the id of track.json, and none of its lines in ours."""
    pytest.importorskip("wandb")
    env = environment(WANDB_MODE="offline", WANDB_DIR=str(tmp_path))
    result = command_alone(*TRAIN, "--track=wandb", cwd=tmp_path, env=env)
    assert (result.code, result.err) == (0, "")
    assert "--track" not in result.out
    own = json.loads((RUN / "track.json").read_text())["wandb"]
    (file,) = Path("wandb").glob(f"offline-run-*-{own}/run-{own}.wandb")
    data = file.read_bytes()
    for word in (b"eval/mean_reward", b"train/value_loss", b"global_step", b"actor_lr"):
        assert word in data
    assert command("eval", RUN).code == 0  # the folder is as it was


@pytest.mark.slow
def test_wandb_without_an_account(tmp_path):
    pytest.importorskip("wandb")
    env = environment(HOME=str(tmp_path), WANDB_MODE="online")
    env.pop("WANDB_API_KEY", None)
    result = command_alone(*TRAIN, "--track=wandb", cwd=tmp_path, env=env)
    assert (result.code, result.out) == (2, "")
    assert "run `wandb login`, or set WANDB_MODE=offline" in result.line


@pytest.mark.slow
@pytest.mark.parametrize("uri", ["sqlite:///own.db", "file:kept"])
def test_mlflow(uri, tmp_path, monkeypatch):
    """A database and MLflow's folder of files: metrics by step, settings, and one run
    although training was interrupted."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = uri if uri.startswith("sqlite") else f"file://{tmp_path}/kept"
    env = environment(MLFLOW_TRACKING_URI=uri)
    words = [*TRAIN, "--track=mlflow", "--stop-after=0s"]
    first = command_alone(*words, cwd=tmp_path, env=env)
    assert (first.code, first.err) == (0, "")
    second = command_alone("resume", RUN, "--track=mlflow", cwd=tmp_path, env=env)
    assert (second.code, second.err) == (0, "")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    place = client.get_experiment_by_name("penfac")
    assert place is not None
    (run,) = client.search_runs([place.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "penfac/test"
    assert run.data.params["actor_lr"] == "0.01"
    history = client.get_metric_history(run.info.run_id, "train/value_loss")
    assert [m.step for m in history] == column("step")
    assert [m.value for m in history] == pytest.approx(column("value_loss"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["tune", "study"])
def test_processes_tell_trackers_without_network(what, tmp_path):
    """Processes that begin at once share MLflow's database and W&B's folder."""
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    uri = f"sqlite:///{tmp_path}/own.db"
    env = environment(
        MLFLOW_TRACKING_URI=uri, WANDB_MODE="offline", WANDB_DIR=str(tmp_path)
    )
    (tmp_path / "mine.toml").write_text(STUDY)
    words = {
        "tune": ["tune", *LQR, "--configs=2", "--halvings=0", "--seeds=3-4"],
        "study": ["study", "run", "mine.toml", "--seeds=1"],
    }[what]
    words = [*words, "--processes=2", "--track=mlflow", "--track=wandb"]
    result = command_alone(*words, cwd=tmp_path, env=env)
    assert (result.code, result.err) == (0, "")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    place = client.get_experiment_by_name("penfac")
    assert place is not None
    runs = client.search_runs([place.experiment_id])
    group, count = ("tune/penfac/penfac-LQR-v0_1", 4) if what == "tune" else ("mine", 2)
    assert [run.data.tags["penfac.group"] for run in runs] == [group] * count
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert len(list(Path("wandb").glob("offline-run-*/*.wandb"))) == count


@pytest.mark.slow
def test_mlflow_with_a_place_it_refuses(tmp_path):
    pytest.importorskip("mlflow")
    env = environment(MLFLOW_TRACKING_URI="gopher://nowhere")
    result = command_alone(*TRAIN, "--track=mlflow", cwd=tmp_path, env=env)
    assert (result.code, result.out) == (2, "")
    assert result.line.startswith("penfac: --track mlflow: ")
