"""A kill at every point at which a command writes: a file opened, synced, renamed, gone."""

import os
import random
import signal
import sys
from functools import partial
from pathlib import Path

from tests.campaign.case import Case, must
from tests.campaign.commands import well
from tests.campaign.jobs import JOBS, RUNS, Arm, Job, ends_alike, train
from tests.campaign.kills import EXPECTED, undisturbed, whole_of

EVENTS = (
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link",
    "os.symlink", "shutil.rmtree",
)  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
POINTS: dict[str, Job] = {
    "train": train(RUNS["penfac"]),
    "train two seeds": train([*RUNS["penfac"], "--seeds=2", "-n50"]),
    "train with a replay": train(RUNS["td3"]),
    "into": JOBS["into"], "pack": JOBS["pack"], "unpack": JOBS["unpack"],
}  # fmt: skip


def watch(at: int, count: Path | None) -> Arm:
    """Kill this process before its `at`-th point of writing; or count all points."""

    def arm() -> None:
        home, seen = os.getcwd(), [0]
        note = None if count is None else os.open(count, os.O_WRONLY | os.O_CREAT)

        def point() -> None:
            seen[0] += 1
            if note is not None:
                os.pwrite(note, b"%d" % seen[0], 0)
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)

        def hook(event: str, given: tuple) -> None:
            if event == "open":
                path, flags = given[0], given[2]
                inside = isinstance(
                    path, str | bytes | os.PathLike
                ) and os.path.abspath(os.fsdecode(path)).startswith(home)
                if inside and isinstance(flags, int) and flags & WRITES:
                    point()
            elif event in EVENTS:
                point()

        sync = os.fsync

        def fsync(handle: int) -> None:
            point()
            sync(handle)

        os.fsync = fsync
        sys.addaudithook(hook)

    return arm


def prepare(home: Path) -> None:
    """Every job once: what it leaves, and at how many points it writes."""
    undisturbed(home, POINTS)
    for name, job in POINTS.items():
        here = home / "count" / name.replace(" ", "-")
        here.mkdir(parents=True)
        os.chdir(here)
        job.made()
        well(job.first(watch(0, here.with_suffix(".points"))))


def points_of(home: Path, name: str) -> int:
    return int((home / "count" / f"{name.replace(' ', '-')}.points").read_text())


def cases(home: Path, rng: random.Random) -> list[Case]:
    found = [
        Case(f"{name}, killed at write {k}", EXPECTED, partial(meet, home, name, k))
        for name in POINTS
        for k in range(1, points_of(home, name) + 1)
    ]
    rng.shuffle(found)
    return found


def meet(home: Path, name: str, k: int, here: Path) -> None:
    job = POINTS[name]
    job.made()
    ended = job.first(watch(k, None))
    must(ended.code == -signal.SIGKILL, f"exit {ended.code}, was not killed at {k}")
    ends_alike(job, whole_of(home, name)[0])
