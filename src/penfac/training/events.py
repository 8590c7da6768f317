"""The loop's events on their way to the disk and to whoever listens."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penfac.engines.base import Counters, Engine
from penfac.errors import PenfacError
from penfac.runs.learners import Learner
from penfac.runs.recorder import Recorder
from penfac.scores import authors_score
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.loop import (
    Evaluated,
    Event,
    Failed,
    Schedule,
    Settled,
    Updated,
    train,
)
from penfac.training.request import identity, versions
from penfac.types import EvalPoint


@dataclass
class Limits:
    """How this process runs; none of it reaches the result."""

    stop_after: float | None = None
    checkpoint_every: float = 15.0  # seconds
    env_timeout: float = 300.0
    command: str = ""
    at_once: int | None = None  # learners that share a program on a device
    until: int | None = None  # stop at this step, of a run that is to be longer
    pictures: bool = True  # curves and TensorBoard
    saved: Callable[[Path], None] | None = None  # called after every checkpoint of all


@dataclass
class Outcome:
    """How a trial ended."""

    folder: Path
    exit_code: int
    reason: str
    steps: int  # of all seeds
    steps_now: int  # ... of them since this process took over
    seconds: float
    finals: dict[Learner, EvalPoint]  # the last evaluation
    scores: dict[Learner, float]  # mean minus std of the last tenth of evaluations
    errors: dict[Learner, str]


class Listener:
    """Who wants to hear how it goes. Does nothing; the command line overrides."""

    def started(self, folder: Path, document: dict[str, Any], done: int) -> None: ...

    def updated(self, who: Learner, counters: Counters, event: Updated) -> None: ...

    def evaluated(self, who: Learner, counters: Counters, point: EvalPoint) -> None: ...

    def noted(self, text: str) -> None: ...


class Trial:
    """The loop's events on their way to disk and to whoever listens."""

    def __init__(
        self,
        folder: Path,
        document: dict[str, Any],
        limits: Limits,
        listener: Listener,
        recorders: list[Recorder],
        engine: Engine,
        counters: list[Counters],
    ):
        self.folder, self.document, self.limits = folder, document, limits
        self.listener, self.recorders = listener, recorders
        self.engine, self.counters = engine, counters
        self.errors: dict[int, PenfacError] = {}
        self.began = self.checkpointed = time.monotonic()
        self.steps_before = sum(c.step for c in counters)

    def go(self, interruption: Interruption) -> Outcome:
        for recorder in self.recorders:
            recorder.status("running", None, "")
        document = self.document
        until = self.limits.until or document["steps"]
        schedule = Schedule(
            min(document["steps"], until),
            document["eval_every"],
            document["eval_episodes"],
            document["eval_unit"],
        )
        short = schedule.steps < document["steps"]
        reason, code = f"reached step {until}" if short else "finished", 0
        events = train(self.engine, self.counters, schedule)
        try:
            while (event := self.next_event(events)) is not None:
                if isinstance(event, Settled):
                    self.checkpoint_if_due()
                    interruption.poll()
                else:
                    self.handle(event)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
        self.leave(reason, code)
        if code == 0 and self.errors:
            code = next(iter(self.errors.values())).exit_code
            what = "learners" if "arms" in document else "seeds"
            reason = f"{len(self.errors)} of {len(self.recorders)} {what} failed"
        return self.outcome(reason, code)

    def next_event(self, events: Iterator[Event]) -> Event | None:
        """The next event; what stops us here finds counters and files in agreement, so
        whatever is whole is saved before it goes on its way."""
        try:
            return next(events, None)
        except StopRequested:
            raise
        except Exception:
            for i in range(len(self.recorders)):
                with contextlib.suppress(Exception):
                    self.save(i)
            raise

    def handle(self, event: Evaluated | Updated | Failed) -> None:
        i = event.learner
        recorder, counters = self.recorders[i], self.counters[i]
        who = recorder.learner
        if isinstance(event, Updated):
            recorder.updated(counters, event.progress)
            self.listener.updated(who, counters, event)
        elif isinstance(event, Evaluated):
            recorder.evaluated(event.point)
            recorder.draw(self.folder, self.recorders)
            self.listener.evaluated(who, counters, event.point)
        else:
            self.errors[i] = event.error
            recorder.fault(event.error)
            self.save(i)
            recorder.status("failed", event.error.exit_code, str(event.error))
            self.listener.noted(f"{who}: {event.error}")

    def checkpoint_if_due(self) -> None:
        if time.monotonic() - self.checkpointed >= self.limits.checkpoint_every:
            self.save_all()
            self.tell_saved()
            self.checkpointed = time.monotonic()

    def tell_saved(self) -> None:
        if self.limits.saved is not None:
            self.limits.saved(self.folder)

    def save_all(self) -> None:
        for i in range(len(self.recorders)):
            if i not in self.errors:
                self.save(i)

    def save(self, i: int) -> None:
        recorder, counters = self.recorders[i], self.counters[i]
        meta = {
            "identity": identity(recorder.document),
            "counters": dataclasses.asdict(counters),
            "versions": versions(),
        }
        recorder.checkpoint(
            counters, self.engine.snapshot(i), meta, self.engine.policy(i)
        )

    def leave(self, reason: str, code: int) -> None:
        """Save everything and say how it stands."""
        self.save_all()
        self.recorders[0].draw(self.folder, self.recorders, now=True)
        state = "finished" if reason == "finished" else "stopped"
        for i, recorder in enumerate(self.recorders):
            if i not in self.errors:
                recorder.status(state, code, reason if state == "stopped" else "")
        self.tell_saved()
        with contextlib.suppress(PenfacError):
            self.engine.close()

    def outcome(self, reason: str, code: int) -> Outcome:
        finals = {r.learner: r.last_point for r in self.recorders if r.last_point}
        return Outcome(
            folder=self.folder,
            exit_code=code,
            reason=reason,
            steps=sum(c.step for c in self.counters),
            steps_now=sum(c.step for c in self.counters) - self.steps_before,
            seconds=time.monotonic() - self.began,
            finals=finals,
            scores={r.learner: authors_score(r.curve.returns) for r in self.recorders},
            errors={self.recorders[i].learner: str(e) for i, e in self.errors.items()},
        )
