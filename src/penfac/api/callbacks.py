"""Listen to a run from Python: a progress bar, and the user's callback."""

import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penfac.engines.base import Counters, Progress
from penfac.errors import ConfigError, Divergence, EnvironmentFault
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import Learner
from penfac.training.interruption import StopRequested
from penfac.training.limits import Outcome
from penfac.training.listener import Listener

if TYPE_CHECKING:
    from penfac.api.model import Model
    from penfac.training.loop import Loop

FAULTS = {kind.exit_code: kind for kind in (EnvironmentFault, Divergence)}
# notes for the log only, and a learner's fault, which is raised later
ROUTINE = ("compiled", "first update", "seed ")


@dataclass(frozen=True)
class Event:
    """What a callback receives: an update, or an evaluation of mu without noise."""

    kind: Literal["update", "evaluation"]
    seed: int
    step: int
    update: int
    metrics: dict[str, float]  # as in progress.csv; empty for an evaluation
    returns: list[float]  # of the evaluation, or of the training episodes that ended
    model: "Model"  # predicts, saves and evaluates as the learner stands now

    @property
    def mean(self) -> float | None:
        """The mean of the returns, if there are any."""
        return statistics.fmean(self.returns) if self.returns else None


Callback = Callable[[Event], Any]  # False ends the run


def listed(callback: Callback | Sequence[Callback] | None) -> list[Callback]:
    """Return callbacks as a list; refuse what cannot be called."""
    if callback is None:
        return []
    several = isinstance(callback, Sequence)
    found = list(callback) if several else [callback]
    for one in found:
        if not callable(one):
            raise ConfigError(
                f"callback is a {type(one).__name__}: must be a function of an event, "
                "or a list of them (penfac.EvalCallback and others are ready to use)"
            )
    return found


def as_seen_from(here: Path, path: Path) -> Path:
    """The same file for a process that may have left the folder `here`."""
    return path if Path.cwd() == here else here / path


class CallbackListener(Listener):
    """Passes news to a bar, if there is one, and to the callbacks."""

    def __init__(self, model: "Model", callbacks: list[Callback], bar: Listener | None):
        self.model, self.callbacks, self.bar = model, callbacks, bar or Listener()
        self.silent = bar is None
        self.folder: Path | None = None
        self.loop: Loop | None = None
        self.here = Path.cwd()
        self.raised: BaseException | None = None

    def attached(self, loop: "Loop") -> None:
        self.loop = loop

    def started(self, folder: Path, config: RunConfig, done: int) -> None:
        self.folder = folder
        self.bar.started(folder, config, done)

    @property
    def place(self) -> Path | None:
        """The run folder, also if an environment changed the folder of the process."""
        return self.folder and as_seen_from(self.here, self.folder)

    def updated(self, who: Learner, counters: Counters, progress: Progress) -> None:
        self.bar.updated(who, counters, progress)
        numbers = {"sigma": progress.sigma, **progress.metrics, **progress.stats.terms}
        where = (who.seed, counters.step, counters.update)
        returns = list(progress.stats.returns)
        self.call(Event("update", *where, numbers, returns, self.model))

    def evaluated(self, who: Learner, counters: Counters, point: Evaluation) -> None:
        self.bar.evaluated(who, counters, point)
        where = (who.seed, point.step, point.update)
        self.call(Event("evaluation", *where, {}, list(point.returns), self.model))

    def noted(self, text: str) -> None:
        """Warn about unusual notes, for example a damaged checkpoint."""
        self.bar.noted(text)
        if self.silent and not text.startswith(ROUTINE):
            warnings.warn(text, stacklevel=2)

    def call(self, event: Event) -> None:
        """Call the callbacks. Counters and files agree here, so a stop loses nothing.
        An exception stops the run and is kept for the caller."""
        if not self.callbacks:
            return
        assert self.loop is not None  # noqa: S101  attached before the first event
        try:
            with self.model._standing(self.loop):
                goes_on = [callback(event) is not False for callback in self.callbacks]
        except BaseException as error:
            self.raised = error
            what = f"{type(error).__name__}: {error}"
            raise StopRequested(f"the callback raised {what}", 1) from error
        if not all(goes_on):
            raise StopRequested("stopped by the callback", 0)


def progress_bar_here() -> Any:
    """Return the progress bar for a notebook, a terminal or a pipe."""
    from penfac.api.notebook import bar

    return bar()


def raise_reason(outcome: Outcome, listener: CallbackListener) -> None:
    """Raise the reason for which a run ended early; everything is saved by then."""
    if listener.raised is not None:
        raise listener.raised
    if outcome.exit_code == 130:
        raise KeyboardInterrupt
    if outcome.exit_code in (129, 143):
        raise SystemExit(outcome.exit_code)
    if outcome.errors:
        raise FAULTS[outcome.exit_code](next(iter(outcome.errors.values())))
