"""The training loop: evaluate when due, advance every learner, record, save.

`train` drives an engine and writes nothing. `Loop` keeps what it yields.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from penfac.engines.base import Counters, Engine, Progress
from penfac.errors import PenfacError
from penfac.policy import Policy
from penfac.runs.checkpoints import Meta
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run
from penfac.runs.versions import versions
from penfac.scores import authors_score
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits, Outcome
from penfac.training.listener import Listener


class Schedule(NamedTuple):
    """How long to train, and how often to evaluate."""

    steps: int
    eval_every: int
    eval_episodes: int
    eval_unit: Literal["steps", "episodes"] = "steps"  # episodes: the authors', D17


class Evaluated(NamedTuple):
    learner: int
    point: Evaluation


class Updated(NamedTuple):
    learner: int
    progress: Progress


class Failed(NamedTuple):
    learner: int
    error: PenfacError


class Settled(NamedTuple):
    """Every learner's state, counters and files agree: the moment for a checkpoint."""


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
            point = Evaluation(*when, returns, lengths, ended, others)
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
    if c.step >= schedule.steps:  # a search may ask for fewer steps than are done
        return c.evaluated_at < schedule.steps
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


# --- keeping what the loop yields ----------------------------------------------------------


def schedule_of(config: RunConfig, until: int | None) -> Schedule:
    """The schedule of a run, which may stop before its end."""
    steps = config.steps if until is None else min(config.steps, until)
    return Schedule(steps, config.eval_every, config.eval_episodes, config.eval_unit)


class Loop:
    """Train the learners of a run: rows and checkpoints to the disk, news to a listener."""

    def __init__(
        self,
        run: Run,
        limits: Limits,
        listener: Listener,
        recorders: list[Recorder],
        engine: Engine,
        counters: list[Counters],
    ):
        self.run, self.limits, self.listener = run, limits, listener
        self.recorders, self.engine, self.counters = recorders, engine, counters
        self.errors: dict[int, PenfacError] = {}
        self.began = time.monotonic()
        # the first checkpoint comes soon: a run that was killed early has something too
        self.saved_at = self.began - 0.9 * limits.checkpoint_every
        self.steps_before = sum(c.step for c in counters)

    def train(self, interruption: Interruption) -> Outcome:
        """Train to the end, or until someone asks to stop."""
        for recorder in self.recorders:
            recorder.write_status("running", None, "")
        self.save_beginning()
        schedule = schedule_of(self.run.config, self.limits.until)
        short = schedule.steps < self.run.config.steps
        reason, code = f"reached step {schedule.steps}" if short else "finished", 0
        events = train(self.engine, self.counters, schedule)
        try:
            while (event := self.next_event(events)) is not None:
                if isinstance(event, Settled):
                    self.save_if_due()
                    interruption.poll()
                else:
                    self.record(event)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
        self.finish(reason, code)
        if code == 0 and self.errors:
            code = next(iter(self.errors.values())).exit_code
            what = "seeds" if self.run.config.arms is None else "learners"
            reason = f"{len(self.errors)} of {len(self.recorders)} {what} failed"
        return self.outcome(reason, code)

    def next_event(self, events: Iterator[Event]) -> Event | None:
        """The next event. An error finds counters and files in agreement, so every
        learner is saved before it is passed on."""
        try:
            return next(events, None)
        except StopRequested:
            raise
        except Exception:
            for i in range(len(self.recorders)):
                with contextlib.suppress(Exception):
                    self.save(i)
            raise

    def record(self, event: Evaluated | Updated | Failed) -> None:
        i = event.learner
        recorder, counters = self.recorders[i], self.counters[i]
        who = recorder.learner
        if isinstance(event, Updated):
            recorder.add_update(counters, event.progress)
            self.listener.updated(who, counters, event.progress)
        elif isinstance(event, Evaluated):
            recorder.add_evaluation(event.point)
            if recorder.is_best(event.point):
                recorder.keep_best(counters, self.engine.policy(i), event.point)
            recorder.draw(self.run.path, self.recorders)
            self.listener.evaluated(who, counters, event.point)
        else:
            self.errors[i] = event.error
            recorder.write_fault(event.error)
            self.save(i)
            recorder.write_status("failed", event.error.exit_code, str(event.error))
            self.listener.noted(f"{who}: {event.error}")

    def policy(self, i: int) -> Policy:
        """The policy of a learner as it stands."""
        recorder = self.recorders[i]
        return recorder.described(self.counters[i], self.engine.policy(i))

    # --- saving ------------------------------------------------------------------------

    def save_beginning(self) -> None:
        """Save learners that have no checkpoint yet, before their first row: a run can be
        resumed from its first second, and rows without a checkpoint mean a loss."""
        new = [i for i, r in enumerate(self.recorders) if r.last_checkpoint is None]
        for i in new:
            self.save(i)
        if new:
            self.announce_save()

    def save_if_due(self) -> None:
        if time.monotonic() - self.saved_at >= self.limits.checkpoint_every:
            self.save_all()
            self.announce_save()
            self.saved_at = time.monotonic()

    def announce_save(self) -> None:
        if self.limits.saved is not None:
            self.limits.saved(self.run.path)

    def save_all(self) -> None:
        for i in range(len(self.recorders)):
            if i not in self.errors:
                self.save(i)

    def save(self, i: int) -> None:
        recorder, counters = self.recorders[i], self.counters[i]
        meta = Meta(recorder.identity, dataclasses.asdict(counters), versions())
        recorder.save(counters, self.engine.snapshot(i), meta, self.policy(i))

    def finish(self, reason: str, code: int) -> None:
        """Save everything and write how each learner stands."""
        self.save_all()
        self.recorders[0].draw(self.run.path, self.recorders, now=True)
        state = "finished" if reason == "finished" else "stopped"
        for i, recorder in enumerate(self.recorders):
            if i not in self.errors:
                recorder.write_status(state, code, reason if state == "stopped" else "")
        self.announce_save()
        with contextlib.suppress(PenfacError):
            self.engine.close()

    def outcome(self, reason: str, code: int) -> Outcome:
        steps = sum(c.step for c in self.counters)
        return Outcome(
            folder=self.run.path,
            env=self.run.config.env,
            exit_code=code,
            reason=reason,
            steps=steps,
            steps_now=steps - self.steps_before,
            seconds=time.monotonic() - self.began,
            finals={r.learner: r.last_point for r in self.recorders if r.last_point},
            scores={r.learner: authors_score(r.curve.returns) for r in self.recorders},
            errors={self.recorders[i].learner: str(e) for i, e in self.errors.items()},
        )
