"""Who is told how learning goes: a bar, and a function of the user's that may end it."""

import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from penfac.engines.base import Counters
from penfac.errors import Divergence, EnvironmentFault
from penfac.runs.learners import Learner
from penfac.training.events import Listener, Outcome
from penfac.training.interruption import StopRequested
from penfac.training.loop import Updated
from penfac.types import EvalPoint

FAULTS = {kind.exit_code: kind for kind in (EnvironmentFault, Divergence)}
# notes that are for the log, and a learner's fault, which is raised
ROUTINE = ("compiled", "first update", "seed ")


@dataclass(frozen=True)
class Event:
    """What a callback is told: an update, or an evaluation of mu without noise."""

    kind: Literal["update", "evaluation"]
    seed: int
    step: int
    update: int
    metrics: dict[str, float]  # as in progress.csv; an evaluation has none
    returns: list[float]  # of the evaluation; of the episodes that ended in training

    @property
    def mean(self) -> float | None:
        """Of the returns, where there are some."""
        return statistics.fmean(self.returns) if self.returns else None


Callback = Callable[[Event], Any]  # False ends the run


class Told(Listener):
    """Tells a bar, if there is one, and the callback."""

    def __init__(self, callback: Callback | None, bar: Listener | None):
        self.callback, self.bar = callback, bar or Listener()
        self.silent = bar is None
        self.folder: Path | None = None
        self.raised: BaseException | None = None

    def started(self, folder: Path, document: dict[str, Any], done: int) -> None:
        self.folder = folder
        self.bar.started(folder, document, done)

    def updated(self, who: Learner, counters: Counters, event: Updated) -> None:
        self.bar.updated(who, counters, event)
        progress = event.progress
        numbers = {"sigma": progress.sigma, **progress.metrics, **progress.stats.terms}
        where = (who.seed, counters.step, counters.update)
        self.call(Event("update", *where, numbers, list(progress.stats.returns)))

    def evaluated(self, who: Learner, counters: Counters, point: EvalPoint) -> None:
        self.bar.evaluated(who, counters, point)
        where = (who.seed, point.step, point.update)
        self.call(Event("evaluation", *where, {}, list(point.returns)))

    def noted(self, text: str) -> None:
        """Someone must hear that a checkpoint was damaged, say."""
        self.bar.noted(text)
        if self.silent and not text.startswith(ROUTINE):
            warnings.warn(text, stacklevel=2)

    def call(self, event: Event) -> None:
        """Counters and files agree here: to stop now loses nothing. What the callback
        raises is kept for whoever called it, the run just stops."""
        if self.callback is None:
            return
        try:
            goes_on = self.callback(event) is not False
        except BaseException as error:
            self.raised = error
            what = f"{type(error).__name__}: {error}"
            raise StopRequested(f"the callback raised {what}", 1) from error
        if not goes_on:
            raise StopRequested("stopped by the callback", 0)


def progress() -> Any:
    """The bar that fits where we run."""
    from penfac.api.notebook import bar

    return bar()


def raise_what_stopped(outcome: Outcome, told: Told) -> None:
    """A run that ended early has saved everything; its reason goes to the caller."""
    if told.raised is not None:
        raise told.raised
    if outcome.exit_code == 130:
        raise KeyboardInterrupt
    if outcome.exit_code == 143:
        raise SystemExit(143)
    if outcome.errors:
        raise FAULTS[outcome.exit_code](next(iter(outcome.errors.values())))
