"""Terminals and pipes that close, processes that are stopped for a while."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.commands import BAD, TINY, command, environment, status

from penfac.training.interruption import Interruption, insists

RUN = Path("runs/penfac/test")
PENFAC = [sys.executable, "-m", "penfac"]
TRAIN = ["train", f"--env={BAD}Plain-v0", *TINY, "--name=test"]
LONG = [*TRAIN, "--steps=1000000", "--eval-every=1000", "--checkpoint-every=1h"]


def in_shell(line: str, *argv: object, **how) -> subprocess.CompletedProcess:
    """A command in a shell that closes or turns its streams first."""
    words = ["sh", "-c", f'exec "$0" "$@" {line}', *PENFAC, *map(str, argv)]
    return subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=False, **how
    )


# --- who insists ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "leaves"),
    [
        (signal.SIGINT, signal.SIGINT, True),
        (signal.SIGTERM, signal.SIGTERM, True),
        (signal.SIGHUP, signal.SIGINT, True),
        (signal.SIGHUP, signal.SIGHUP, False),
        (signal.SIGTERM, signal.SIGHUP, False),
        (signal.SIGHUP, signal.SIGTERM, False),
    ],
)
def test_only_a_person_insists(first, second, leaves):
    """A closed terminal sends SIGHUP several times; a service manager adds SIGTERM."""
    assert insists(first, second) is leaves


def test_nohup_is_kept():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption(None) as interruption:
            signal.raise_signal(signal.SIGHUP)
            interruption.poll()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


# --- Ctrl-Z ---------------------------------------------------------------------------------

STOPPED = """
import time
from penfac.envs.calls import Call, Watch
from penfac.training.interruption import Watchdog
watch = Watch()
with Watchdog(watch, 1.0, lambda: print("hung")), Call("Some-v0", "step", watch):
    print("in", flush=True)
    time.sleep(0.5)
print("out")
"""


def test_a_process_that_is_stopped_does_not_hang():
    """Ctrl-Z for longer than --env-timeout: the time before `fg` does not count."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == "out\n"
    assert process.returncode == 0


# --- streams that are closed or broken ------------------------------------------------------


@pytest.mark.parametrize("line", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_change_no_exit_code(line):
    assert in_shell(line, "--version").returncode == 0
    wrong = in_shell(line, "resume", "nothing-here")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_output_that_cannot_be_written_is_7():
    """Nobody has seen the answer, so it is no success."""
    result = in_shell(">/dev/full", "--version")
    assert result.returncode == 7
    assert result.stderr.splitlines() == [
        "penfac: standard output: No space left on device"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Plain", "RaisesStepping"])
@pytest.mark.parametrize("line", [">&-", "2>&-", ">&- 2>&-", "| true", "2>&1 | true"])
def test_training_without_streams(line, env):
    """No file gets what others print, and the exit code is that of the training."""
    script = f'"$0" "$@" {line}; exit ${{PIPESTATUS[0]}}'
    words = ["bash", "-c", script, *PENFAC, *TRAIN, f"--env={BAD}{env}-v0"]
    result = subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == (0 if env == "Plain" else 3)
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr
    assert status(RUN)["state"] == ("finished" if env == "Plain" else "failed")
    if env == "Plain":
        assert command("eval", RUN, "--episodes=1").code == 0


# --- a terminal that is closed --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "interrupted"])
def test_a_terminal(how):
    """Closed, or Ctrl-C is typed in it: everything is saved, and the exit code says why."""
    process, terminal = open_terminal(LONG)
    shown = ""
    while "return" not in shown:
        assert select.select([terminal], [], [], 120)[0], shown
        shown += os.read(terminal, 4096).decode(errors="replace")
    if how == "closed":
        os.close(terminal)
    else:
        os.write(terminal, b"\x03")
        drain(terminal)
    code = process.wait(timeout=60)
    number = signal.SIGHUP if how == "closed" else signal.SIGINT
    assert code == 128 + number
    assert status(RUN)["state"] == "stopped"
    assert status(RUN)["error"] == f"stopped by {number.name}"
    assert status(RUN)["last_checkpoint"] >= 1


@pytest.mark.slow
def test_a_signal_to_every_process():
    """As a service manager and a closing session send it: the run is saved."""
    argv = [*PENFAC, *LONG, "--env-workers=2"]
    process = subprocess.Popen(
        argv, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert any("step=1000 " in line for line in iter(process.stdout.readline, ""))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    assert children.split()
    for pid in (*children.split(), process.pid):
        for number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(int(pid), number)
    process.communicate(timeout=60)
    # of two signals that wait, either comes first
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert status(RUN)["error"] in ("stopped by SIGTERM", "stopped by SIGHUP")


def open_terminal(argv: list[str]) -> tuple[subprocess.Popen, int]:
    """A command that controls a terminal, and the other end of it."""
    ours, theirs = pty.openpty()
    script = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, *PENFAC, *map(str, argv)],
        stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, env=environment(TERM="xterm"),
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def drain(terminal: int) -> None:
    """Read what is shown until the process has left."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # its last process is gone
        pass
