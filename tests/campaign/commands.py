"""Commands as users start them: in a fork of this process, or in a process of its own."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from tests.campaign import preload  # noqa: F401
from tests.campaign.case import Failed, descendants, kill_all, must
from tests.faults.commands import environment

import penfac.cli

DOCUMENTED = (0, 2, 3, 4, 5, 6, 7, 8, 9, 130, 143)  # docs/faults.md
MEMORY = 6 << 30  # bytes of address space: /dev/zero must not fill the machine


class Ended(NamedTuple):
    code: int  # minus a signal
    out: str
    err: str
    cpu: float = 0.0  # seconds


def work(argv: tuple[str, ...]) -> int:
    """What `python -m penfac` does; the code it exits with."""
    sys.argv = ["penfac", *argv]
    try:
        penfac.cli.main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    raise AssertionError("main returned")


def command(
    *argv: object, limit: float = 90, arm: Callable[[], None] | None = None
) -> Ended:
    """A command in a fork; `arm` prepares what goes wrong in it."""
    given = tuple(map(str, argv))
    return in_fork(lambda: work(given), limit, arm, f"penfac {' '.join(given)}")


def in_fork(
    job: Callable[[], int], limit: float, arm: Callable[[], None] | None, what: str
) -> Ended:
    return Running(job, arm, what).wait(limit)


def begin(*argv: object, arm: Callable[[], None] | None = None) -> "Running":
    """A command in a fork, not waited for."""
    given = tuple(map(str, argv))
    return Running(lambda: work(given), arm, f"penfac {' '.join(given)}")


class Running:
    """A function in a fork of this process, which must have no threads."""

    def __init__(
        self, job: Callable[[], int], arm: Callable[[], None] | None, what: str
    ):
        self.what = what
        self.files = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                for number, file in enumerate(self.files, start=1):
                    os.dup2(file.fileno(), number)
                if arm is not None:
                    arm()
                code = job()
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                code = 1
                os.write(2, traceback.format_exc().encode(errors="replace"))
            finally:
                os._exit(code)

    def wait(self, limit: float = 90) -> Ended:
        ends = time.monotonic() + limit * slowness()
        while True:
            done, code, used = os.wait4(self.pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > ends:
                kill_all(descendants(self.pid) | {self.pid: ""})
                os.waitpid(self.pid, 0)
                raise Failed("hang", f"{self.what}: did not end in {limit:g} s")
            time.sleep(0.003)
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="surrogateescape"))
            file.close()
        cpu = used.ru_utime + used.ru_stime
        return Ended(os.waitstatus_to_exitcode(code), texts[0], texts[1], cpu)


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def start(*argv: object, **how) -> subprocess.Popen:
    """A command in a process of its own, as from a shell."""
    return subprocess.Popen(
        [sys.executable, "-m", "penfac", *map(str, argv)],
        env=how.pop("env", None) or environment(),
        stdin=how.pop("stdin", subprocess.DEVNULL),
        stdout=how.pop("stdout", subprocess.PIPE),
        stderr=how.pop("stderr", subprocess.PIPE),
        text=True, errors="surrogateescape", **how,
    )  # fmt: skip


def slowness() -> float:
    """How much longer everything takes while others use the machine."""
    return min(5.0, max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0))))


def finish(process: subprocess.Popen, limit: float = 240) -> Ended:
    try:
        out, err = process.communicate(timeout=limit * slowness())
    except subprocess.TimeoutExpired:
        kill_all(descendants(process.pid) | {process.pid: ""})
        process.communicate()
        raise Failed("hang", f"{process.args}: did not end in {limit:g} s") from None
    return Ended(process.returncode, out or "", err or "")


# --- what an end must look like ------------------------------------------------------------


def answered(ended: Ended, codes: tuple[int, ...] = DOCUMENTED) -> None:
    """A documented exit code; where it is not 0, one line of stderr says why."""
    both = ended.out + ended.err
    trace = "Traceback (most" in both or ended.code == 1 or ended.code < 0
    must(not trace, f"exit {ended.code}: {both[-600:]}", "traceback")
    must(ended.code in codes, f"exit {ended.code}, not {codes}: {both[-400:]}")
    must("\x1b" not in both, f"escape sequences in {both[-400:]!r}")
    lines = ended.err.splitlines()
    if ended.code in (0, signal.SIGINT + 128, signal.SIGTERM + 128):
        must(not lines, f"exit {ended.code}, but stderr has {ended.err[-400:]!r}")
        return
    one = len(lines) == 1 and lines[0].startswith("penfac: ") and len(lines[0]) < 2000
    must(one, f"exit {ended.code}, not one line: {ended.err[-600:]!r}", "traceback")


def well(ended: Ended) -> Ended:
    """It came to a good end."""
    answered(ended)
    must(ended.code == 0, f"exit {ended.code}: {ended.err[-400:]}")
    return ended
