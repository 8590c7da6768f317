"""A case of the campaign: something goes wrong for real, and what must come of it."""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PR_SET_CHILD_SUBREAPER = 36  # of Linux: orphans below become our children
LEAVE = 60.0  # seconds that the processes of a command may take to save and leave
KINDS = ("silent", "traceback", "hang", "outside", "stray", "lost", "wrong")


class Failed(Exception):
    """What was promised did not hold; `kind` is one of KINDS."""

    def __init__(self, kind: str, what: str):
        super().__init__(what)
        assert kind in KINDS, kind
        self.kind = kind


class Case(NamedTuple):
    """`provoke` works in an empty folder of its own and raises if the answer is wrong."""

    name: str
    expected: str
    provoke: Callable[[Path], None]
    limit: float = 1200  # seconds until the case itself counts as a hang
    size: int = 1  # faults that it provokes


class Answer(NamedTuple):
    """What became of a case; `kind` is held or one of KINDS."""

    case: str
    kind: str
    what: str
    seconds: float
    size: int = 1


def must(true: object, what: str, kind: str = "wrong") -> None:
    if not true:
        raise Failed(kind, what)


def answer(case: Case, home: Path) -> Answer:
    """Provoke a case in this process, which nobody needs afterwards."""
    adopt_orphans()
    began, kind, what = time.monotonic(), "held", ""
    try:
        home.mkdir(parents=True)
        os.chdir(home)
        case.provoke(home)
        left = descendants(os.getpid())
        must(not left, f"still running: {list(left.values())}", "stray")
    except Failed as failed:
        kind, what = failed.kind, str(failed)
    except BaseException as error:  # an error of the campaign is not to be overlooked
        kind = "wrong"
        what = f"{type(error).__name__}: {error} {traceback.format_exc()[-1500:]}"
    kill_all(descendants(os.getpid()))
    return Answer(case.name, kind, what, time.monotonic() - began, case.size)


def run_cases(
    cases: list[Case], home: Path, jobs: int, seconds: float
) -> Iterator[Answer]:
    """Answers as cases end, `jobs` at a time; none begins when the time is over."""
    alone = len(os.listdir("/proc/self/task")) == 1
    assert alone, "a thread would not survive the fork of a case"
    ends, waiting = time.monotonic() + seconds, list(enumerate(cases))
    running: dict[int, tuple[Case, Path, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs and time.monotonic() < ends:
            k, case = waiting.pop(0)
            place = home / f"case-{k:05d}"
            pid = os.fork()
            if pid == 0:
                os.setpgrp()
                given = answer(case, place)
                place.with_suffix(".json").write_text(json.dumps(given))
                os._exit(0)
            running[pid] = (case, place, time.monotonic() + case.limit)
        if time.monotonic() >= ends:
            waiting = []
        for pid, (case, place, limit) in list(running.items()):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() < limit:
                    continue
                kill_all(descendants(pid) | {pid: case.name})
                os.waitpid(pid, 0)
            del running[pid]
            file = place.with_suffix(".json")
            if file.exists():
                yield Answer(*json.loads(file.read_text()))
            else:
                what = f"the case itself did not end in {case.limit:g} s"
                yield Answer(case.name, "hang", what, case.limit, case.size)
        time.sleep(0.005)


@contextlib.contextmanager
def once(place: Path) -> Iterator[bool]:
    """Whether this process is to make what lies at `place`; others wait until it is there.
    The current folder is the same afterwards."""
    place.parent.mkdir(parents=True, exist_ok=True)
    here = os.getcwd()
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield not place.exists()
        finally:
            os.chdir(here)


# --- processes -----------------------------------------------------------------------------


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(of: int) -> dict[int, str]:
    """Every living process below this one, and its command line."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(path.name)] = int(parent)
    below = {of}
    while grown := {pid for pid, p in parents.items() if p in below} - below:
        below |= grown
    return {pid: words(pid) for pid in below - {of}}


def words(pid: int) -> str:
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return line.decode(errors="replace")[:100]
    return "?"


def kill_all(pids: dict[int, str]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def all_leave(seconds: float = LEAVE) -> None:
    """Wait until nothing runs below this process; what stays is a stray."""
    ends = time.monotonic() + seconds
    while left := descendants(os.getpid()):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        must(time.monotonic() < ends, f"still running: {list(left.values())}", "stray")
        time.sleep(0.02)


# --- what may not be touched ---------------------------------------------------------------


def tree(folder: Path, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Every file, link and folder with what it holds; a name in `without` is left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name in without:
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder" if path.is_dir() else "special"
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The names that are new, gone or changed."""
    names = sorted(before.keys() | after.keys())
    return ", ".join(repr(n) for n in names if before.get(n) != after.get(n))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
