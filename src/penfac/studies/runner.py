"""Running a study: what is complete is left alone, what is not goes on.

The run folders say what has been done, so a driver may die at any moment.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.folder import Lock, storage
from penfac.runs.standing import failure, score, status
from penfac.studies import executors, plan
from penfac.studies.plan import Unit
from penfac.studies.spec import Study, arms_named
from penfac.training.events import Limits, Listener
from penfac.training.interruption import Interruption, StopRequested

EXECUTORS = ("local", "ray", "device")
SOME_FAILED = 9  # exit code


@dataclass(frozen=True)
class How:
    """Who runs it, and with what; none of it reaches a result."""

    on: str = "local"
    processes: int | None = None  # none: one a core
    address: str | None = None  # of a Ray cluster; none: one of this machine
    mixed: bool = False  # take runs that other versions made
    retry: bool = False  # try those again that failed
    arms: tuple[str, ...] = ()  # these alone; none named: all


@dataclass
class Told:
    """How a study stands when its driver leaves."""

    folder: Path
    exit_code: int
    reason: str
    seconds: float
    counts: dict[str, int]
    failed: dict[str, str] = field(default_factory=dict)  # run -> why


Tell = Callable[[str], None]


def start(
    study: Study, seeds: tuple[int, ...], folder: Path, how: How, limits: Limits, tell: Tell
) -> Told:  # fmt: skip
    """Begin a study in its folder, or go on with it."""
    if how.on not in EXECUTORS:
        raise ConfigError(f"--on {how.on}: must be one of {', '.join(EXECUTORS)}")
    if how.on == "ray":
        executors.check_ray()
    if how.processes is not None and how.processes < 1:
        raise ConfigError(f"--processes {how.processes}: must be at least 1")
    if study.claims and len(seeds) < 2:
        raise ConfigError(
            f"--seeds {len(seeds)}: must be at least 2, as the study tests claims"
        )
    check_arms(study, how)
    engine = "device" if how.on == "device" else "auto"
    document = plan.make_document(study, seeds, engine, limits.command)
    if how.on != "device" and (folder / plan.FILE).exists():
        # begun on a device: the runs keep that engine, whoever runs them
        document["on"] = plan.read_document(folder)["on"]
    plan.agreed(folder, document)  # before a folder or a lock is made
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder)
    try:  # once more: now nobody else can change it
        return go(folder, plan.agreed(folder, document), how, limits, tell)
    finally:
        lock.release()


def check_arms(study: Study, how: How) -> None:
    arms_named(study, how.arms)
    if how.on != "device":
        return
    for algo in {arm.algo for arm in study.arms}:
        own = [arm.name for arm in study.arms if arm.algo == algo]
        if 0 < len(set(own) & set(how.arms)) < len(own):
            raise ConfigError(
                f"--arms: {', '.join(own)} share one program on a device; give all of them"
            )


def go(
    folder: Path, document: dict[str, Any], how: How, limits: Limits, tell: Tell
) -> Told:
    began, reason, code = time.monotonic(), "finished", 0
    every = plan.units(folder, document)
    plan.check_runs(every, how.mixed)
    asked = [u for u in every if not how.arms or u.arm in how.arms]
    todo = [u for u in asked if due(u, how.retry)]
    todo = plan.by_these_versions(todo, document, how.mixed)
    plan.write(folder, document)
    tell(told_plan(asked, todo))
    lost: dict[str, str] = {}
    with Interruption(limits.stop_after) as interruption:
        try:
            lost = follow(folder, document, how, limits, todo, tell, interruption)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
    counts, failed = standing(every)
    failed = lost | failed
    if code == 0 and failed:
        code = SOME_FAILED
        told = f"{len(failed)} of {len(every)} runs failed"
        reason = told if reason == "finished" else f"{reason}, {told}"
    return Told(folder, code, reason, time.monotonic() - began, counts, failed)


def due(unit: Unit, retry: bool) -> bool:
    """A run that diverged does so again; one that was lost is worth another try."""
    state = plan.state_of(unit)
    if state == "finished":
        return False
    return retry or failure(unit.path) is None


def follow(
    folder: Path,
    document: dict[str, Any],
    how: How,
    limits: Limits,
    todo: list[Unit],
    tell: Tell,
    interruption: Interruption,
) -> dict[str, str]:
    """To the end of all; what was left without an end of its own, and why."""
    limits = dataclasses.replace(limits, stop_after=interruption.left(), pictures=False)
    ends = execute(folder, document, how, limits, todo, interruption, tell)
    began, steps = time.monotonic(), sum(u.document["steps"] for u in todo)
    done, lost = 0, {}
    with contextlib.closing(ends):  # whatever happens, nobody is left running
        for k, (unit, code) in enumerate(ends):
            interruption.poll()
            done += unit.document["steps"]
            left = (time.monotonic() - began) * (steps - done) / done
            told = outcome(unit, code)
            if plan.state_of(unit) != "finished":
                lost[str(unit)] = told.removeprefix("failed: ")
            tell(f"{unit}: {told} ({k + 1}/{len(todo)}, {span(left)} left)")
    return lost


def execute(
    folder: Path,
    document: dict[str, Any],
    how: How,
    limits: Limits,
    todo: list[Unit],
    interruption: Interruption,
    tell: Tell,
) -> executors.Ended:
    count = how.processes or len(usable_cores())
    if how.on == "device":
        found = plan.groups(folder, document)
        if len(found) == 1 or count == 1 or runs_on_accelerator():
            return executors.on_device(found, todo, limits, Telling(tell))
        return executors.on_cores(found, todo, count, limits, interruption.poll)
    if how.on == "ray":
        return executors.on_ray(todo, how.address, limits, interruption.poll)
    return executors.local(todo, count, limits, interruption.poll)


class Telling(Listener):
    """A program of many runs ends all of them at once: what it tells on its way is how
    far it is."""

    def __init__(self, tell: Tell):
        self.tell, self.judged = tell, 0

    def noted(self, text: str) -> None:
        self.tell(f"# {text}")

    def evaluated(self, who, counters, point) -> None:
        if point.step > self.judged:  # once for all of them
            self.judged = point.step
            self.tell(f"# step {point.step:,}")

    def started(self, folder, document, done) -> None:
        self.judged = 0
        runs = len(document["arms"]) * len(document["seeds"])
        self.tell(f"# {document['algo']} on {document['env']}: {runs} runs at once")


def outcome(unit: Unit, code: int) -> str:
    """What became of a run, in a few words."""
    if plan.state_of(unit) == "finished":
        found = score(unit.path, unit.document["steps"])
        return f"return {found:.1f}" if abs(found) >= 100 else f"return {found:.4g}"
    if code >= executors.LOST:
        return "lost: its process was killed"
    return f"failed: {status(unit.path).get('error') or f'exit code {code}'}"


def standing(every: list[Unit]) -> tuple[dict[str, int], dict[str, str]]:
    """How many runs are in which state, and why those failed that did."""
    counts: dict[str, int] = dict.fromkeys(plan.STATES, 0)
    failed: dict[str, str] = {}
    for unit in every:
        state = plan.state_of(unit)
        counts[state] += 1
        if state == "failed":
            failed[str(unit)] = str(status(unit.path).get("error"))
    return counts, failed


def told_plan(asked: list[Unit], todo: list[Unit]) -> str:
    steps = sum(u.document["steps"] for u in todo)
    skipped = len(asked) - len(todo)
    return (
        f"{len(todo)} runs to go, {steps:,} steps in all"
        + f"; {skipped} of {len(asked)} are complete or failed" * bool(skipped)
    )


def span(seconds: float) -> str:
    """`40 s`, `12 min`, `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
