"""Every signal, closed pipes and terminals: saved, answered, resumed to the same bits."""

import os
import pty
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.campaign.bases import left
from tests.campaign.case import Case, changed, must
from tests.campaign.commands import Ended, Running, begin, command, slowness, well
from tests.campaign.own_env import ENV
from tests.faults.commands import TINY

RUN = Path("runs/penfac/run")
LONG = [*TINY, "--steps=2000", "--eval-every=500"]
TRAIN = ["train", "--env", ENV, *LONG, "--name=run"]
RARELY = "--checkpoint-every=1h"  # only the signal makes it save
SAVING = {"SIGINT": (130,), "SIGTERM": (143,), "SIGHUP": (129, 143)}
# of the others some end a process, some are ignored, some stop it until SIGCONT
OTHERS = (
    "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGCONT", "SIGWINCH", "SIGXCPU",
    "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGURG", "SIGCHLD", "SIGTTIN",
    "SIGTTOU", "SIGTSTP", "SIGSTOP", "SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL",
)  # fmt: skip
SAME = "resumed, it ends with the bits of an undisturbed run"


def prepare(home: Path) -> None:
    os.chdir(home)
    well(command(*TRAIN))


def same(home: Path) -> None:
    other = changed(left(home / RUN), left(RUN))
    must(not other, f"other bits: {other}", "lost")


def rows(run: Path = RUN) -> int:
    file = run / "progress.csv"
    return file.read_bytes().count(b"\n") - 1 if file.exists() else -1


def until(n: int, seconds: float = 120) -> None:
    """Wait until so many updates are on the disk."""
    ends = time.monotonic() + seconds * slowness()
    while rows() < n:
        must(time.monotonic() < ends, f"not at update {n} in {seconds:g} s", "hang")
        time.sleep(0.002)


def resumed(home: Path) -> None:
    well(command("resume", RUN))
    same(home)


def saving(home: Path, name: str, n: int, here: Path) -> None:
    """Whatever was learned before the signal is on the disk after it."""
    running = begin(*TRAIN, RARELY)
    until(n)
    os.kill(running.pid, getattr(signal, name))
    ended = running.wait()
    answered_to(name, ended)
    done = rows()
    must(done >= n, f"{done} rows of {n} are left", "lost")
    if done * 50 < 2000:
        saved = max(
            (p.name for p in (RUN / "checkpoints").glob("update-*")), default=""
        )
        must(
            saved.startswith(f"update-{done:06d}"),
            f"{saved} after {done} updates",
            "lost",
        )
    resumed(home)


def answered_to(name: str, ended: Ended) -> None:
    codes = (0, *SAVING[name])
    must(ended.code in codes, f"exit {ended.code}, not {codes}: {ended.err[-300:]}")
    must("Traceback" not in ended.err, ended.err[-400:], "traceback")


def twice(home: Path, name: str, here: Path) -> None:
    running = begin(*TRAIN, "--checkpoint-every=0s")
    until(5)
    for _ in range(2):
        os.kill(running.pid, getattr(signal, name))
    answered_to(name, running.wait(20))
    resumed(home)


def other(home: Path, name: str, here: Path) -> None:
    running = begin(*TRAIN, "--checkpoint-every=0s")
    until(5)
    os.kill(running.pid, getattr(signal, name))
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGCONT) if not gone(running) else None
    ended = running.wait()
    must("Traceback" not in ended.err, ended.err[-400:], "traceback")
    must(
        ended.code <= 0 or ended.code in (130, 143),
        f"exit {ended.code}: {ended.err[-300:]}",
    )
    resumed(home)


def gone(running: Running) -> bool:
    state = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "Z"


def paused(home: Path, here: Path) -> None:
    """Ctrl-Z for longer than --env-timeout, then fg: the environment did not hang."""
    running = begin(*TRAIN, RARELY, "--env-timeout=1s")
    for n in (3, 8, 13):
        until(n)
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(running.pid, signal.SIGCONT)
    well(running.wait())
    same(home)


# --- pipes and terminals -------------------------------------------------------------------


def without(home: Path, handles: tuple[int, ...], here: Path) -> None:
    """As `>&-` of a shell: the file is not even open."""

    def close() -> None:
        for handle in handles:
            os.close(handle)

    ended = command(*TRAIN, arm=close)
    must(ended.code == 0, f"exit {ended.code}: {ended.err[-400:]}")
    same(home)


def nobody_reads(home: Path, handle: int, here: Path) -> None:
    def arm() -> None:
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, handle)

    ended = command(*TRAIN, arm=arm)
    must(ended.code == 0, f"exit {ended.code}: {ended.err[-400:]}")
    same(home)


def full_output(home: Path, here: Path) -> None:
    arm = lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1)  # noqa: E731
    ended = command(*TRAIN, arm=arm)
    must(ended.code == 0, f"exit {ended.code}: {ended.err[-400:]}")
    same(home)


def terminal_closed(home: Path, here: Path) -> None:
    """A window is closed: the terminal is gone, and SIGHUP comes."""
    pid, master = pty.fork()
    if pid == 0:
        import penfac.cli

        code = 70
        try:
            import sys

            sys.argv = ["penfac", *TRAIN, RARELY]
            penfac.cli.main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            os._exit(code)
    os.set_blocking(master, False)
    ends = time.monotonic() + 120 * slowness()
    while rows() < 8 and time.monotonic() < ends:
        read_some(master)
        time.sleep(0.005)
    done = rows()
    os.close(master)
    code = wait_for(pid, 60)
    must(code in (0, 129, 143), f"exit {code}")
    must(rows() >= done, f"{rows()} rows of {done} are left", "lost")
    resumed(home)


def read_some(master: int) -> None:
    try:
        os.read(master, 65536)
    except (BlockingIOError, OSError):
        return


def wait_for(pid: int, seconds: float) -> int:
    ends = time.monotonic() + seconds
    while True:
        done, code = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(code)
        must(time.monotonic() < ends, f"did not end in {seconds:g} s", "hang")
        time.sleep(0.01)


def cases(home: Path, rng: random.Random) -> list[Case]:
    made: list[tuple[str, str, Callable[[Path], None]]] = []
    for name in SAVING:
        made += [
            (
                f"{name} after update {n}",
                f"everything saved; {SAME}",
                partial(saving, home, name, n),
            )
            for n in (0, 3, 12)
        ]
        made += [(f"{name} twice", SAME, partial(twice, home, name))]
    made += [(name, SAME, partial(other, home, name)) for name in OTHERS]
    made += [("Ctrl-Z beyond --env-timeout", "it goes on", partial(paused, home))]
    made += [
        (f"{what} closed", "exit 0, the same bits", partial(without, home, handles))
        for what, handles in {
            "stdin": (0,),
            "stdout": (1,),
            "stderr": (2,),
            "all": (0, 1, 2),
        }.items()
    ]
    made += [
        (
            f"nobody reads {what}",
            "exit 0, the same bits",
            partial(nobody_reads, home, handle),
        )
        for what, handle in {"stdout": 1, "stderr": 2}.items()
    ]
    made += [
        ("stdout on a full disk", "exit 0, the same bits", partial(full_output, home))
    ]
    made += [("the terminal is closed", SAME, partial(terminal_closed, home))]
    found = [Case(*each) for each in made]
    rng.shuffle(found)
    return found
