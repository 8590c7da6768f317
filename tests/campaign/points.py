"""A kill at every point at which a command writes: a file opened, synced, renamed, gone."""

import random
import signal
from functools import partial
from pathlib import Path

from tests.campaign.case import Case, must
from tests.campaign.jobs import JOBS, RUNS, Job, ends_alike, train
from tests.campaign.kills import EXPECTED, whole_of
from tests.campaign.watch import watch

POINTS: dict[str, Job] = {
    "train": train(RUNS["penfac"]),
    "train two seeds": train([*RUNS["penfac"], "--seeds=2", "-n50"]),
    "train with a replay": train(RUNS["td3"]),
    "into": JOBS["into"], "pack": JOBS["pack"], "unpack": JOBS["unpack"],
}  # fmt: skip


def prepare(home: Path) -> None:
    for name in POINTS:
        whole_of(home, name, POINTS)


def cases(home: Path, rng: random.Random) -> list[Case]:
    found = [
        Case(f"{name}, killed at write {k}", EXPECTED, partial(meet, home, name, k))
        for name in POINTS
        for k in range(1, whole_of(home, name).points + 1)
    ]
    rng.shuffle(found)
    return found


def meet(home: Path, name: str, k: int, here: Path) -> None:
    job = POINTS[name]
    job.made()
    ended = job.first(watch(k, None))
    must(ended.code == -signal.SIGKILL, f"exit {ended.code}, was not killed at {k}")
    ends_alike(job, whole_of(home, name).left)
