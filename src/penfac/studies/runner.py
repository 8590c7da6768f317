"""Run a study: what is complete is left alone, what is not goes on.

The run folders say what has been done, so a driver may die at any moment.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from penfac.errors import ConfigError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import score
from penfac.runs.status import read_status
from penfac.runs.storage import Lock, make_folder
from penfac.studies import checks, executors, plan
from penfac.studies.plan import Plan, Shared, Unit
from penfac.studies.spec import Study, arms_named
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.workers import LOST, how_it_ended

EXECUTORS = ("local", "ray", "device")
SOME_FAILED = 9  # exit code
Tell = Callable[[str], None]
Advanced = Callable[[float, float | None], None]  # share of the steps, seconds left


def nobody(done: float, left: float | None) -> None:
    """Nobody wants to know how far a study is."""


@dataclass(frozen=True)
class How:
    """Who runs a study, and with what; none of it reaches a result."""

    on: str = "local"
    processes: int | None = None  # None: one per core
    address: str | None = None  # of a Ray cluster; None: one of this machine
    mixed: bool = False  # take runs that other versions made
    retry: bool = False  # try failed runs again
    arms: tuple[str, ...] = ()  # only these; empty: all


@dataclass
class StudyOutcome:
    """How a study stands when its driver leaves."""

    folder: Path
    exit_code: int
    reason: str
    seconds: float
    counts: dict[str, int]
    failed: dict[str, str] = field(default_factory=dict)  # run -> why


def start(
    study: Study, seeds: tuple[int, ...], folder: Path, how: How, limits: Limits,
    tell: Tell, advanced: Advanced = nobody, shared: Shared | None = None,
) -> StudyOutcome:  # fmt: skip
    """Begin a study in its folder, or go on with it; `shared` are the folders of arms
    whose runs another study makes."""
    check_how(study, seeds, how)
    named, folder = folder, folder.absolute()
    engine = "device" if how.on == "device" else "auto"
    planned = plan.make_plan(study, seeds, engine, limits.command)
    planned = replace(planned, shared=shared or {})
    if how.on != "device" and (folder / plan.FILE).exists():
        # begun on a device: the runs keep that engine, whoever runs them
        planned = replace(planned, on=plan.read_plan(folder).on)
    plan.join(folder, planned)  # reports errors before a folder or a lock is made
    make_folder(folder)
    with Lock(folder):  # nobody else can change the plan now
        planned = plan.join(folder, planned)
        outcome = run_plan(folder, planned, how, limits, tell, advanced)
    return dataclasses.replace(outcome, folder=named)


def check_how(study: Study, seeds: tuple[int, ...], how: How) -> None:
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
    arms_named(study, how.arms)
    if how.on != "device":
        return
    for algo in {arm.algo for arm in study.arms}:
        sharing = [arm.name for arm in study.arms if arm.algo == algo]
        if 0 < len(set(sharing) & set(how.arms)) < len(sharing):
            raise ConfigError(
                f"--arms: {', '.join(sharing)} share one program on a device; "
                "give all of them"
            )


def run_plan(
    folder: Path, planned: Plan, how: How, limits: Limits, tell: Tell,
    advanced: Advanced,
) -> StudyOutcome:  # fmt: skip
    """Run what is due, and report how the whole study stands."""
    began, reason, code = time.monotonic(), "finished", 0
    every = plan.units(folder, planned)
    checks.check_runs(every, how.mixed)
    every = [u for u in every if u.ours]
    asked = [u for u in every if not how.arms or u.arm in how.arms]
    todo = [u for u in asked if is_due(u, how.retry)]
    todo = checks.with_current_versions(todo, planned, how.mixed)
    plan.write_plan(folder, planned)
    tell(describe_work(asked, todo))
    lost: dict[str, str] = {}
    with Interruption(limits.stop_after) as interruption:
        within = dataclasses.replace(
            limits, stop_after=interruption.left(), pictures=False, home=folder
        )
        listener = GroupListener(tell, todo, advanced)
        poll = interruption.poll
        ends = execute(folder, planned, how, within, todo, poll, listener)
        try:
            lost = follow(ends, todo, interruption, tell, advanced)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
    counts, failed = count_states(every)
    failed = lost | failed
    if code == 0 and failed:
        code = SOME_FAILED
        some = f"{len(failed)} of {len(every)} runs failed"
        reason = some if reason == "finished" else f"{reason}, {some}"
    return StudyOutcome(folder, code, reason, time.monotonic() - began, counts, failed)


def is_due(unit: Unit, retry: bool) -> bool:
    """Whether to run it: one that diverged would do so again, a lost one would not."""
    status = read_status(unit.path)
    if status.state == "finished":
        return False
    return retry or status.lasting_failure is None


def follow(
    ends: executors.Ended, todo: list[Unit], interruption: Interruption, tell: Tell,
    advanced: Advanced,
) -> dict[str, str]:  # fmt: skip
    """Report each run as it ends; return those that left no end of their own, and why."""
    began, steps = time.monotonic(), sum(u.steps for u in todo)
    done, lost = 0, {}
    with contextlib.closing(ends):  # whatever happens, nobody is left running
        for k, (unit, code) in enumerate(ends, start=1):
            interruption.poll()
            done += unit.steps
            left = (time.monotonic() - began) * (steps - done) / done
            result = describe_result(unit, code)
            if plan.state_of(unit) != "finished":
                lost[str(unit)] = result.removeprefix("failed: ")
            tell(f"{unit}: {result} ({k}/{len(todo)}, {duration(left)} left)")
            advanced(done / steps, left)
    return lost


def execute(
    folder: Path, planned: Plan, how: How, limits: Limits, todo: list[Unit],
    poll: executors.Poll, listener: Listener,
) -> executors.Ended:  # fmt: skip
    """Hand the runs to an executor."""
    count = how.processes or len(usable_cores())
    if how.on == "device":
        groups = plan.groups(folder, planned)
        if len(groups) == 1 or count == 1 or runs_on_accelerator():
            return executors.run_on_device(groups, todo, limits, listener)
        return executors.run_groups_on_cores(groups, todo, count, limits, poll)
    if how.on == "ray":
        return executors.run_on_ray(todo, how.address, limits, poll)
    return executors.run_local(todo, count, limits, poll)


class GroupListener(Listener):
    """Reports the steps of a program of many runs, which all end at once."""

    def __init__(self, tell: Tell, todo: list[Unit], advanced: Advanced):
        self.tell, self.advanced, self.step = tell, advanced, 0
        self.began, self.total = time.monotonic(), sum(u.steps for u in todo)
        self.before = self.learners = self.size = 0  # steps of programs that ended

    def noted(self, text: str) -> None:
        self.tell(f"# {text}")

    def evaluated(self, who, counters, point) -> None:
        if point.step > self.step:  # once for all runs
            self.step = point.step
            self.tell(f"# step {point.step:,}")
            done = self.before + self.learners * min(point.step, self.size)
            share = min(1.0, done / max(self.total, 1))
            spent = time.monotonic() - self.began
            self.advanced(share, spent * (1 - share) / share if share else None)

    def started(self, folder: Path, config: RunConfig, done: int) -> None:
        self.before += self.learners * self.size
        runs = len(config.arms or (None,)) * len(config.seeds)
        self.step, self.learners, self.size = 0, runs, config.steps
        self.tell(f"# {config.algo} on {config.env}: {runs} runs at once")


# --- what is reported ----------------------------------------------------------------------


def describe_result(unit: Unit, code: int) -> str:
    """What became of a run, in a few words."""
    status = read_status(unit.path)
    if status.state == "finished":
        found = score(unit.path, unit.steps)
        return f"return {found:.1f}" if abs(found) >= 100 else f"return {found:.4g}"
    if code >= LOST:
        return f"lost: {how_it_ended(code)}"
    return f"failed: {status.error or f'exit code {code}'}"


def count_states(every: list[Unit]) -> tuple[dict[str, int], dict[str, str]]:
    """How many runs are in which state, and the errors of those that failed."""
    counts: dict[str, int] = dict.fromkeys(plan.STATES, 0)
    failed: dict[str, str] = {}
    for unit in every:
        state = plan.state_of(unit)
        counts[state] += 1
        if state == "failed":
            failed[str(unit)] = str(read_status(unit.path).error)
    return counts, failed


def describe_work(asked: list[Unit], todo: list[Unit]) -> str:
    steps, skipped = sum(u.steps for u in todo), len(asked) - len(todo)
    return (
        f"{len(todo)} runs to go, {steps:,} steps in all"
        + f"; {skipped} of {len(asked)} are complete or failed" * bool(skipped)
    )


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
