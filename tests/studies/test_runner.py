"""Running a study: everything once, failures told, stopped and gone on with, one driver."""

import json
import signal
from pathlib import Path

import pytest
from tests.faults.commands import BAD, command, environment, status
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import ended_alike, left
from tests.studies.small_study import LQR, SETTINGS, run_study, small
from tests.studies.study_folders import (
    here,
    run_folders,
    run_nothing,
    snapshot,
    unlocked,
    updates_once,
)

from penfac.errors import ConfigError, RunFolderBusy
from penfac.runs.storage import Lock
from penfac.studies import executors, plan, runner
from penfac.studies.runner import How
from penfac.studies.spec import Arm
from penfac.training import trial
from penfac.training.limits import Limits

HOME = Path("study")
BOTH = "penfac/ProbeBoth-v0"
GROUP = Path("penfac-LQR-v0/penfac")
# a step of Adam so long that the first update makes no numbers
DIVERGES = Arm("diverges", settings=SETTINGS | {"critic_lr": 1e30, "actor_lr": 1e30})
RAISES = f"{BAD}RaisesStepping-v0"
PLAIN = f"{BAD}Plain-v0"


@pytest.fixture
def as_tests(monkeypatch):
    """Processes find our environments and what was compiled already."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that nobody disturbed, run here."""
    home = tmp_path_factory.mktemp("whole") / "study"
    with pytest.MonkeyPatch.context() as patch:
        here(patch)
        assert run_study(home).exit_code == 0
    return home


def start(study=None, seeds=(0, 1), stop_after=None, how=None):
    limits = Limits(stop_after=stop_after, command="penfac study run small.toml")
    return runner.start(
        study or small(), seeds, HOME, how or How(), limits, [].append
    )  # fmt: skip


# --- to the end --------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_run_all_and_a_second_start_runs_nothing(as_tests, whole):
    said = []
    told = run_study(HOME, tell=said, processes=2)
    assert (told.exit_code, told.reason, told.failed) == (0, "finished", {})
    assert told.counts == {"finished": 4, "running": 0, "failed": 0, "missing": 0}
    assert said[0] == "4 runs to go, 1,200 steps in all"
    assert len(said) == 5
    assert all("seed" in line and "return" in line for line in said[1:])
    ended_alike(HOME, whole)
    updates_once(HOME)
    before, said = snapshot(HOME), []
    again = run_study(HOME, tell=said)
    assert (again.exit_code, again.counts) == (0, told.counts)
    assert said == ["0 runs to go, 0 steps in all; 4 of 4 are complete or failed"]
    assert unlocked(snapshot(HOME)) == unlocked(before)


@pytest.mark.slow
def test_one_program_for_all_ends_as_processes_do(whole):
    told = run_study(HOME, on="device")
    assert (told.exit_code, told.counts["finished"]) == (0, 4)
    ended_alike(HOME, whole)
    before = snapshot(HOME)
    assert run_study(HOME, on="device").exit_code == 0
    assert unlocked(snapshot(HOME)) == unlocked(before)


@pytest.mark.slow
def test_without_an_accelerator_programs_share_the_cores(as_tests):
    """Two environments are two programs, each in a process of its own; what they leave
    is what one process leaves that runs one after the other."""
    two, said = small(envs=(LQR, BOTH)), []
    told = run_study(HOME, two, on="device", tell=said, processes=2)
    assert (told.exit_code, told.counts["finished"]) == (0, 8)
    assert len(said) == 9
    assert not any(line.startswith("#") for line in said)  # nobody's own words
    run_study(Path("alone"), two, on="device", processes=1)
    ended_alike(HOME, Path("alone"))


def test_a_program_whose_process_is_lost_is_tried_again(monkeypatch):
    here(monkeypatch)
    tried = []
    monkeypatch.setattr(
        executors,
        "train_group",
        lambda group, *_: tried.append(group.config.env) or 137,
    )
    two = small(envs=(LQR, BOTH))
    told = run_study(HOME, two, on="device", processes=2)
    assert (told.exit_code, len(told.failed)) == (9, 8)
    assert sorted(tried) == sorted([LQR, BOTH] * (1 + executors.RETRIES))


@pytest.mark.slow
def test_a_run_of_a_study_is_what_train_makes_of_that_arm_and_seed(whole):
    settings = SETTINGS | {"sigma": 0.1}
    plain = {k: v[0] if isinstance(v, list) else v for k, v in settings.items()}
    words = [f"--set={key}={value}" for key, value in plain.items()]
    words += ["-n", 300, "--eval-every=100", "--eval-episodes=2", "--seed=1"]
    result = command("train", f"--env={LQR}", *words, "--name=alone")
    assert (result.code, result.err) == (0, "")
    alone, ours = left(Path("runs/penfac/alone")), left(whole / GROUP / "narrow/seed-1")
    assert alone.keys() == ours.keys()
    for name in ("progress.csv", "evaluations.csv", "policy/policy.safetensors"):
        assert alone[name] == ours[name], name


@pytest.mark.slow
def test_more_seeds_on_a_device_leave_the_results_that_are_there():
    run_study(HOME, on="device")
    before = {path: left(path) for path in run_folders(HOME)}
    told = run_study(HOME, seeds=(0, 1, 2), on="device")
    assert told.counts["finished"] == 6
    assert {path: left(path) for path in before} == before
    updates_once(HOME)


# --- failing -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("on", ["local", "device"])
def test_a_run_that_diverges_fails_alone(on, whole, monkeypatch):
    here(monkeypatch)
    study = small(arms=(*small().arms, DIVERGES))
    said = []
    told = run_study(HOME, study, on=on, tell=said)
    assert told.exit_code == 9
    assert told.reason == "2 of 6 runs failed"
    names = [f"{LQR} diverges seed {seed}" for seed in (0, 1)]
    assert list(told.failed) == names
    assert {status(p)["exit_code"] for p in run_folders(HOME / GROUP / "diverges")} == {
        4
    }
    assert told.failed[names[0]] == status(HOME / GROUP / "diverges/seed-0")["error"]
    assert told.counts["finished"] == 4
    assert sum("failed: " in line for line in said) == 2
    for arm in ("wide", "narrow"):
        ended_alike(HOME / GROUP / arm, whole / GROUP / arm)
    before = snapshot(HOME)
    again = run_study(HOME, study, on=on)
    assert (again.exit_code, list(again.failed)) == (9, names)
    assert unlocked(snapshot(HOME)) == unlocked(before)


def test_an_environment_that_raises_fails_its_runs_and_no_other(monkeypatch):
    here(monkeypatch)
    study = small(arms=small().arms[:1], envs=(RAISES, LQR), claims=())
    told = run_study(HOME, study)
    assert told.exit_code == 9
    assert list(told.failed) == [f"{RAISES} wide seed {seed}" for seed in (0, 1)]
    assert "the motor burned" in told.failed[f"{RAISES} wide seed 0"]
    assert told.counts == {"finished": 2, "running": 0, "failed": 2, "missing": 0}


def test_a_failed_run_is_tried_again_only_if_asked_to(monkeypatch):
    here(monkeypatch)
    tried = []
    monkeypatch.setattr(
        executors, "train_silently", lambda run, *_: tried.append(run.path.name) or 3
    )
    study = small(arms=small().arms[:1], claims=())
    run_study(HOME, study)
    failed = HOME / GROUP / "wide" / "seed-1"
    told = {"state": "failed", "exit_code": 3, "error": "the motor burned"}
    (failed / "status.json").write_text(json.dumps(told))
    tried.clear()
    assert run_study(HOME, study).exit_code == 9
    assert tried == ["seed-0"]
    tried.clear()
    run_study(HOME, study, retry=True)
    assert tried == ["seed-0", "seed-1"]


@pytest.mark.slow
def test_only_the_arms_that_were_named_are_run(monkeypatch):
    here(monkeypatch)
    said = []
    told = run_study(HOME, arms=("narrow",), tell=said)
    assert told.counts == {"finished": 2, "running": 0, "failed": 0, "missing": 2}
    assert (told.exit_code, said[0]) == (0, "2 runs to go, 600 steps in all")
    run_study(HOME, arms=("narrow",), tell=said)
    assert said[-1] == "0 runs to go, 0 steps in all; 2 of 2 are complete or failed"
    assert run_study(HOME).counts["finished"] == 4


@pytest.mark.parametrize(
    ("on", "arms", "told"),
    [
        ("local", ("wide", "narow"), "--arms narow: small has no such arm; did you"),
        ("local", ("xyz",), "--arms xyz: small has no such arm: wide, narrow"),
        ("device", ("wide",), "--arms: wide, narrow share one program on a device"),
    ],
)
def test_arms_that_cannot_be_run_alone_are_refused_before_anything_is_made(
    on, arms, told
):
    with pytest.raises(ConfigError, match=told) as error:
        run_study(HOME, on=on, arms=arms)
    assert error.value.exit_code == 2
    assert not HOME.exists()


@pytest.mark.parametrize("code", [137, 1, 2, 6])
def test_a_run_that_was_lost_is_no_finished_study(code, monkeypatch):
    """Its process was killed again and again, or ended and left no word in the folder."""
    here(monkeypatch)
    tried = []
    monkeypatch.setattr(
        executors, "train_silently", lambda run, *_: tried.append(run.path) or code
    )
    told = run_study(HOME, small(arms=small().arms[:1], claims=()))
    assert told.exit_code == 9
    assert list(told.failed) == [f"{LQR} wide seed {seed}" for seed in (0, 1)]
    assert told.counts["missing"] == 2
    assert len(tried) == 2 * (1 + executors.RETRIES if code == 137 else 1)


@pytest.mark.slow
def test_a_run_that_another_process_has_is_waited_for(monkeypatch):
    """As those of a driver that was killed a moment ago: they save and leave."""
    here(monkeypatch)
    study = small(arms=small().arms[:1], claims=())
    with monkeypatch.context() as patch:
        run_nothing(patch)
        run_study(HOME, study)
    lock = Lock(HOME / GROUP / "wide" / "seed-0")
    monkeypatch.setattr(trial.time, "sleep", lambda _: lock.release())
    told = run_study(HOME, study)
    assert (told.exit_code, told.counts["finished"]) == (0, 2)


# --- stopping ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("on", ["local", "device"])
def test_a_stopped_study_goes_on_and_ends_the_same(on, whole, monkeypatch):
    here(monkeypatch)
    first = start(stop_after=0.0, how=How(on))
    assert (first.exit_code, first.reason) == (0, "stopped after the time given")
    assert first.counts["finished"] == 0
    second = start(stop_after=0.5, how=How(on))
    assert second.exit_code == 0
    last = start(how=How(on))
    assert (last.exit_code, last.counts["finished"]) == (0, 4)
    ended_alike(HOME, whole)
    updates_once(HOME)


@pytest.mark.slow
def test_stopped_processes_save_and_go_on(as_tests, whole):
    """Told while they work: what they had is saved, the study can go on."""

    def tell(line):
        if "return" in line:
            signal.raise_signal(signal.SIGTERM)

    limits = Limits(command="penfac study run small.toml")
    told = runner.start(small(), (0, 1), HOME, How(processes=2), limits, tell)
    assert (told.exit_code, told.reason) == (143, "stopped by SIGTERM")
    assert told.counts["failed"] == 0
    assert 1 <= told.counts["finished"] < 4
    assert start().counts["finished"] == 4
    ended_alike(HOME, whole)
    updates_once(HOME)


# --- what is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "seeds", "why"),
    [
        (How("cloud"), (0, 1), "--on cloud: must be one of local, ray, device"),
        (How(processes=0), (0, 1), "--processes 0"),
        (How(processes=-2), (0, 1), "--processes -2"),
        (How(), (0,), "--seeds 1: must be at least 2"),
        (How(), (1, 1), "1 is listed twice"),
        (How(), (-1, 1), "--seed -1"),
        (How(), (), "--seeds 0"),
    ],
)
def test_what_cannot_be_run_is_refused_and_leaves_no_folder(how, seeds, why):
    with pytest.raises(ConfigError, match=why):
        start(seeds=seeds, how=how)
    assert not HOME.exists()


def test_a_study_without_claims_may_have_one_seed(monkeypatch):
    here(monkeypatch)
    told = start(small(claims=(), arms=small().arms[:1]), seeds=(4,))
    assert (told.exit_code, told.counts["finished"]) == (0, 1)
    assert (HOME / GROUP / "wide" / "progress.csv").is_file()


def test_an_environment_that_is_no_jax_one_has_no_device():
    with pytest.raises(ConfigError, match=r"arm wide on .*Plain-v0: --on device"):
        start(small(envs=(PLAIN,)), how=How("device"))
    assert not HOME.exists()


@pytest.mark.slow
def test_two_drivers_of_one_study_are_one_too_many(monkeypatch):
    """The second hears of it from within the first's work."""
    heard = []

    def second(*_):
        with pytest.raises(RunFolderBusy, match="in use by process") as error:
            start(seeds=(0, 1, 2))
        heard.append(error.value.exit_code)
        return 0

    here(monkeypatch)
    monkeypatch.setattr(executors, "train_silently", second)
    start()
    assert heard == [6] * 4
    assert plan.read_plan(HOME).seeds == (0, 1)


def test_the_command_prints_one_document():
    Path("mine.toml").write_text(
        f'steps = 100\nseeds = 2\nenvs = ["{LQR}"]\n[arms.a]\n'
        + "\n".join(f"{k} = {json.dumps(v)}" for k, v in SETTINGS.items())
    )
    result = command("study", "run", "mine.toml", "--on=device", "--json")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    assert document["study"] == "studies/mine"
    assert document["state"] == "finished"
    assert document["runs"]["finished"] == 2
    assert document["failed"] == {}
