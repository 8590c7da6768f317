"""A `penfac study run` in a process of its own, and everyone who was started by it."""

import contextlib
import json
import os
import signal
import time
import uuid
from pathlib import Path

from tests.faults.commands import environment, finish, start
from tests.studies.small_study import LQR, SETTINGS

MARK = "PENFAC_TEST_MARK"
HOME = Path("studies/mine")
BLOCK = "".join(f"{key} = {json.dumps(value)}\n" for key, value in SETTINGS.items())
TABLE = f"""\
envs = ["{LQR}"]
steps = 1500
seeds = 3
eval_every = 100
eval_episodes = 2

[arms.wide]
{BLOCK}sigma = 0.4

[arms.narrow]
{BLOCK}sigma = 0.1
"""


def wait_until(true, seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.005)


class Driven:
    """The study of `mine.toml`, which all who work on it carry a mark of."""

    def __init__(self, folder: Path, *words: object):
        self.folder, self.mark = folder, uuid.uuid4().hex
        (folder / "mine.toml").write_text(TABLE)
        argv = ("study", "run", "mine.toml", "--checkpoint-every=0s", *words)
        # else Ray's workers stand behind everyone else on the machine
        env = environment(**{MARK: self.mark, "RAY_worker_niceness": "0"})
        self.process = start(*argv, cwd=folder, env=env)

    def all(self) -> dict[int, str]:
        """Whoever carries the mark, and what it is."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(path.name)] = words.decode(errors="replace")
        return {pid: words for pid, words in found.items() if words}  # no zombies

    def workers(self) -> list[int]:
        """Those who hold the lock of a run."""
        pids = set()
        for lock in (self.folder / HOME).glob("*/*/*/seed-*/lock"):
            with contextlib.suppress(OSError):
                words = lock.read_text().split()
                if words[:1] == ["process"]:
                    pids.add(int(words[1]))
        return sorted(pids & self.all().keys())

    def all_leave(self) -> None:
        wait_until(lambda: not self.all())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ends(self):
        return finish(self.process, timeout=300)

    def clean(self) -> None:
        """Whatever a test that failed left behind."""
        for pid in self.all():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def rows(folder: Path) -> int:
    """Evaluations of all runs together."""
    return sum(
        file.read_bytes().count(b"\n")
        for file in folder.glob("*/*/*/*/evaluations.csv")
    )


def undisturbed(folder: Path) -> Path:
    """The whole study, in one go."""
    driven = Driven(folder, "--processes=2")
    result = driven.ends()
    assert (result.code, result.err) == (0, "")
    assert driven.all() == {}
    return folder / HOME
