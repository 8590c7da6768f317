"""Kills at random moments: what comes of a run that was killed again and again."""

import os
import pickle
import random
import resource
import signal
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
from tests.campaign.case import Case, must, once
from tests.campaign.commands import well
from tests.campaign.jobs import JOBS, Job, ends_alike
from tests.campaign.watch import watch

KILLS = 200
CHAIN = 8  # kills, one after another
EXPECTED = "resumed, it ends with the bytes of one that nobody killed"
KILLED = (-signal.SIGPROF, -signal.SIGXFSZ, -signal.SIGKILL)


class Whole(NamedTuple):
    """What a job leaves that nobody disturbed, and what it took."""

    left: dict
    cpu: float  # seconds
    points: int  # at which it writes


def whole_of(home: Path, name: str, jobs: dict[str, Job] = JOBS) -> Whole:
    """Run a job undisturbed, the first time that someone asks."""
    file = home / "whole" / f"{name.replace(' ', '-')}.whole"
    with once(file) as mine:
        if mine:
            job, here = jobs[name], file.with_suffix("")
            here.mkdir(parents=True)
            os.chdir(here)
            job.made()
            counted = file.with_suffix(".points")
            cpu = well(job.first(watch(0, counted))).cpu
            found = Whole(job.left(), cpu, int(counted.read_text()))
            file.write_bytes(pickle.dumps(tuple(found)))
    return Whole(*pickle.loads(file.read_bytes()))  # noqa: S301  our own


def cases(home: Path, rng: random.Random) -> list[Case]:
    """Chains over all jobs in turn, with as many kills together as are wanted."""
    names, found = list(JOBS), []
    rng.shuffle(names)
    for k in range(-(-KILLS // CHAIN)):
        name = names[k % len(names)]
        moments = [rng.random() for _ in range(CHAIN)]
        how = rng.choice((die_at, die_at, die_writing))
        provoke = partial(chain, home, name, moments, how)
        title = f"{name}, {CHAIN} kills ({k}{'' if how is die_at else ', half a file'})"
        found.append(Case(title, EXPECTED, provoke, 3600, CHAIN))
    return found


def chain(home: Path, name: str, moments: list[float], how, here: Path) -> None:
    job: Job = JOBS[name]
    whole = whole_of(home, name)
    job.made()
    go, done = job.first, False
    for moment in moments:
        ended = go(partial(how, moment * whole.cpu, moment))
        must(
            ended.code in (0, *KILLED), f"exit {ended.code}: {ended.err[-500:]}", "lost"
        )
        go = job.again
        if done := ended.code == 0 and job.once:
            break
    ends_alike(job, whole.left, done)


def die_at(seconds: float, _: float) -> None:
    """The kernel ends this process after so many seconds of its processor time."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001))


def die_writing(_: float, moment: float) -> None:
    """The kernel ends this process as a file grows beyond a size, with that much of it."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    most = int(1500 * 100**moment)  # what is printed fits; 1.5 kB to 150 kB
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
