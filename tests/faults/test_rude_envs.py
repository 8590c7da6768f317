"""What environments may do to the process that they run in."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.commands import (
    TINY,
    command,
    command_alone,
    newest_state,
    status,
)

from penfac.envs.calls import Call, Watch
from penfac.errors import EnvironmentFault
from penfac.process import CtrlC, is_ctrl_c, recognise_ctrl_c

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
    with recognise_ctrl_c():
        with pytest.raises(CtrlC), call:
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(EnvironmentFault), call:
            raise KeyboardInterrupt
    assert is_ctrl_c(KeyboardInterrupt())  # nobody can tell: it was a person
    assert not is_ctrl_c(SystemExit())


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
