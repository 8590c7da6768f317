"""The training loop, written once: evaluate when due, advance, tell.

It prints nothing and writes nothing; whoever iterates decides what to keep.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from penfac.engines.base import Counters, Engine, Progress
from penfac.errors import PenfacError
from penfac.types import EvalPoint


class Schedule(NamedTuple):
    """How long, and how often mu is judged."""

    steps: int
    eval_every: int
    eval_episodes: int
    eval_unit: Literal["steps", "episodes"] = "steps"  # episodes: the authors', D17


class Evaluated(NamedTuple):
    learner: int
    point: EvalPoint


class Updated(NamedTuple):
    learner: int
    progress: Progress


class Failed(NamedTuple):
    learner: int
    error: PenfacError


class Settled(NamedTuple):
    """Every learner's state, counters and events agree: the moment for a checkpoint."""


Event = Evaluated | Updated | Failed | Settled


def train(
    engine: Engine, counters: list[Counters], schedule: Schedule
) -> Iterator[Event]:
    """Advance every learner until its budget is spent; a learner that fails stops alone."""
    going = set(range(len(counters)))
    while going:
        due = [(i, counters[i]) for i in sorted(going) if is_due(counters[i], schedule)]
        fixed = schedule.eval_unit == "steps"
        for i, played in engine.evaluate(due, schedule.eval_episodes, fixed):
            if isinstance(played, PenfacError):
                going.discard(i)
                yield Failed(i, played)
                continue
            others = {mode: played[mode] for mode in played if mode != "mean"}
            returns, lengths, ended = played["mean"]
            when = (counters[i].step, counters[i].update)
            point = EvalPoint(*when, returns, lengths, ended, others)
            count_evaluation(counters[i], schedule)
            yield Evaluated(i, point)
        yield Settled()
        going = {i for i in going if counters[i].step < schedule.steps}
        due = [(i, counters[i]) for i in sorted(going)]
        for i, progress in engine.advance(due):
            if isinstance(progress, PenfacError):
                going.discard(i)
                yield Failed(i, progress)
                continue
            count_update(counters[i], progress)
            yield Updated(i, progress)
        yield Settled()


def is_due(c: Counters, schedule: Schedule) -> bool:
    """At the start, at a constant interval, and once more when the budget is spent."""
    if c.step >= schedule.steps and c.evaluated_at != c.step:
        return True
    reached = c.step if schedule.eval_unit == "steps" else c.episode
    return reached >= c.next_eval and c.evaluated_at != c.step


def count_evaluation(c: Counters, schedule: Schedule) -> None:
    reached = c.step if schedule.eval_unit == "steps" else c.episode
    c.next_eval = (reached // schedule.eval_every + 1) * schedule.eval_every
    c.evaluations += 1
    c.evaluated_at = c.step


def count_update(c: Counters, progress: Progress) -> None:
    c.update += 1
    c.step += progress.steps
    c.episode = progress.next_episode
    c.faults = progress.faults
