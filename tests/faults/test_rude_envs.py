"""What environments may do to the process that they run in."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.commands import (
    TINY,
    command,
    command_alone,
    finish,
    newest_state,
    start,
    status,
)

import penfac
from penfac.envs.calls import Call, Watch
from penfac.errors import EnvironmentFault
from penfac.process import CtrlC, is_ctrl_c, recognise_ctrl_c
from penfac.runs.storage import Lock

RUDE = "tests.faults.rude_envs:"
RUN = Path("runs/penfac/test")
WAYS = {
    "exit": "SystemExit: 0",
    "interrupt": "KeyboardInterrupt:",
    "generator": "GeneratorExit:",
    "cancelled": "CancelledError:",
}


def words(env: str, *more: object) -> tuple:
    return ("train", "--env", f"{RUDE}{env}-v0", *TINY, "--name", "test", *more)


def leaving(way: str, call: str) -> tuple:
    return "--env-arg", f"way={way}", "--env-arg", f"call={call}"


# --- leaving ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_no_environment_ends_a_run(way):
    """SystemExit and its like are faults of the environment."""
    result = command(*words("Leaves", *leaving(way, "step")))
    assert result.code == 3
    assert f"step raised {WAYS[way]}" in result.line
    assert (status(RUN)["state"], status(RUN)["exit_code"]) == ("failed", 3)
    assert status(RUN)["last_checkpoint"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nor_from_a_process_of_its_own(way):
    result = command(*words("Leaves", *leaving(way, "step"), "--env-workers=2"))
    assert result.code == 3
    assert f"step raised {WAYS[way]}" in result.line


@pytest.mark.parametrize("call", ["make", "reset", "close"])
def test_nor_in_another_call(call):
    result = command(*words("Leaves", *leaving("exit", call)))
    if call == "close":  # all is learned and saved by then
        assert (result.code, result.err) == (0, "")
        return
    what = "making it" if call == "make" else call
    assert result.code == 3
    assert f"{what} raised SystemExit: 0" in result.line


def test_a_world_that_leaves_is_replaced():
    """As after any other fault: an episode of it is discarded."""
    more = ("--env-arg", "at=40", "--env-restarts", 5)
    assert command(*words("Leaves", *leaving("exit", "step"), *more)).code == 0
    assert status(RUN)["state"] == "finished"


def test_a_policy_played_where_the_environment_leaves():
    """`eval` and `play` end with 3 as well."""
    now = Path("now").absolute()
    more = (*leaving("exit", "reset"), "--env-arg", f"path={now}")
    assert command(*words("Leaves", *more)).code == 0
    now.touch()
    for argv in (["play", RUN, "--strip=strip.png"], ["eval", RUN]):
        result = command(*argv)
        assert result.code == 3
        assert "raised SystemExit: 0" in result.line


def test_a_module_that_leaves():
    Path("leaving.py").write_text("import sys\nsys.exit(0)\n")
    result = command_alone(
        "train", "--env=leaving:X-v0", cwd=Path.cwd(), env=with_here()
    )
    assert result.code == 3
    assert "importing leaving raised SystemExit: 0" in result.line


def with_here() -> dict[str, str]:
    from tests.faults.commands import environment

    env = environment()
    return env | {"PYTHONPATH": f"{Path.cwd()}{os.pathsep}{env['PYTHONPATH']}"}


def test_a_person_is_told_from_an_environment():
    """Ctrl-C in a call stays Ctrl-C; an error that looks the same does not."""
    call = Call("Some-v0", "step", Watch())
    # a process of parallel tests ignores Ctrl-C
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with recognise_ctrl_c():
            with pytest.raises(CtrlC), call:
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(EnvironmentFault), call:
                raise KeyboardInterrupt
        assert is_ctrl_c(KeyboardInterrupt())  # nobody can tell: it was a person
        assert not is_ctrl_c(SystemExit())
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_a_real_ctrl_c_is_no_fault():
    """In an environment's call of `eval`: 130, and not the environment's 3."""
    now = Path("now").absolute()
    assert command(*words("Waits", "--env-arg", f"path={now}")).code == 0
    now.touch()
    process = start("eval", RUN, "--trust", cwd=Path.cwd())
    while not now.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.code == 130
    assert "Traceback" not in result.err


# --- what it returns and raises -------------------------------------------------------------

ODD = {
    "UnreadableError": "step raised Odd",
    "InfoTurnsText": "info of type str; it must be a dict, as it was when it held",
    "PartTurnsText": "could not convert string to float: 'well'",
    "OddTruth": "step raised SystemExit: 0",
}


@pytest.mark.parametrize("env", ODD)
def test_odd_results_are_faults(env):
    result = command(*words(env))
    assert result.code == 3
    assert ODD[env] in result.line


def test_arrays_written_over():
    """What the environment does to the arrays it gave and was given reaches nothing."""
    states = []
    for env in ("Plain", "Writes"):
        module = "tests.faults.bad_envs:" if env == "Plain" else RUDE
        result = command("train", f"--env={module}{env}-v0", *TINY, f"--name={env}")
        assert (result.code, result.err) == (0, "")
        states.append(newest_state(RUN.parent / env))
        states[-1].pop("policy-best")  # it names the environment
    plain, written = ({k: v.tobytes() for k, v in s.items()} for s in states)
    assert plain == written


# --- forks --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Forks", "ForkExits"])
def test_a_fork_does_not_train(env):
    """The other half of it ends; the run is as if it had never been."""
    for name in (env, "Plain"):
        module = RUDE if name == env else "tests.faults.bad_envs:"
        argv = ("train", f"--env={module}{name}-v0", *TINY, f"--name={name}")
        result = command_alone(*argv, cwd=Path.cwd())
        assert result.code == 0
        assert "penfac:" not in result.err  # JAX warns of forks
        assert result.out.count("finished:") == 1
    for table in ("progress.csv", "evaluations.csv"):
        forked, plain = (RUN.parent / x / table for x in (env, "Plain"))
        assert forked.read_bytes() == plain.read_bytes()


def test_the_other_half_of_a_fork_ends():
    script = """if True:
        import os
        from penfac.envs.calls import Call, Watch
        with Call("Some-v0", "step", Watch()):
            child = os.fork()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\n"


def test_a_helper_process_does_not_hold_the_run(tmp_path):
    """One that an environment forked may live on; the run is free when its process ends."""
    script = """if True:
        import os, pathlib, time
        from penfac.runs.storage import Lock
        lock = Lock(pathlib.Path("."))
        child = os.fork()
        if child == 0:
            os.close(1)
            time.sleep(60)
        os.write(1, str(child).encode())
        os._exit(0)
        """
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True
    )
    try:
        Lock(tmp_path).release()
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)


# --- folders and output -------------------------------------------------------------------


def test_an_environment_that_changes_the_folder():
    """All goes where the run began: rows, policy, a bundle, a strip, evaluations."""
    here = Path.cwd()
    result = command(*words("Moves"))
    assert (result.code, result.err) == (0, "")
    assert f"run={RUN} " in result.out
    assert f"penfac eval {RUN}" in result.out
    for argv in (
        ["resume", RUN, "-n", 150],
        ["eval", RUN, "--episodes=1"],
        ["eval", RUN, RUN, "--compare", "--episodes=2"],
        [*words("Moves"), "--into=packed"],
        ["resume", "packed", "-n", 150],
    ):
        os.chdir(here)
        result = command(*argv)
        assert (result.code, result.err) == (0, ""), argv
    os.chdir(here)
    assert status(RUN)["state"] == "finished"
    assert sorted(p.name for p in here.iterdir()) == [
        "packed.csv", "packed.safetensors", "runs",
    ]  # fmt: skip


def test_the_same_from_python():
    """`learn` finds what it left, and goes on there."""
    small = {"actor_hidden": (4,), "critic_hidden": (4,), "minibatches": 2}
    id_ = f"{RUDE}Moves-v0"
    here = Path.cwd()
    model = penfac.PeNFAC(id_, **small, collect="episodes", episodes_per_update=1)
    for steps in (20, 40):
        model.learn(20, eval_every=20, eval_episodes=1)
        assert model.num_timesteps >= steps
        assert model.run.is_relative_to(here)


@pytest.mark.slow
def test_what_is_printed_stays_out_of_json():
    """From Python and from C, during the run and as the process ends."""
    judged = ["eval", RUN, "--trust", "--episodes=1", "--json"]
    for argv in ([*words("Prints"), "--json"], judged):
        result = command_alone(*argv, cwd=Path.cwd())
        assert result.code == 0
        assert json.loads(result.out)
        assert result.err.count("how very nice") > 0
        assert "good bye" in result.err


def test_a_mended_fault_is_forgotten():
    """fault.json stays until the run has gone past it."""
    more = (*leaving("exit", "step"), "--env-arg", f"path={Path('now').absolute()}")
    Path("now").touch()
    assert command(*words("Leaves", *more)).code == 3
    assert (RUN / "fault.json").exists()
    assert command("resume", RUN, "--stop-after=0s").code == 0
    assert (RUN / "fault.json").exists()
    Path("now").unlink()
    assert command("resume", RUN).code == 0
    assert not (RUN / "fault.json").exists()


def test_temporary_folders_of_killed_processes_are_swept_up():
    """Those that a living process has locked stay, and so do young and foreign ones."""
    homes = {name: Path(f"penfac-into-{name}") for name in ("dead", "alive", "young")}
    homes["other"] = Path("penfac-other")
    for home in homes.values():
        (home / "penfac").mkdir(parents=True)
        (home / "owner.lock").touch()
        if home != homes["young"]:
            os.utime(home, (0, 0))
    Path("penfac-into-link").symlink_to(homes["other"])
    with Lock(homes["alive"], "owner.lock"):
        os.utime(homes["alive"], (0, 0))
        assert (
            command(*words("Leaves", *leaving("exit", "render")), "--into=a").code == 0
        )
    left = {name for name, home in homes.items() if home.exists()}
    assert left == {"alive", "young", "other"}
    assert Path("penfac-into-link").is_symlink()
    assert len(list(Path().glob("penfac-*"))) == 4  # ours has ended too
