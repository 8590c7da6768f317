"""How a process may train, and how its training ended."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import Learner


@dataclass
class Limits:
    """How this process runs; none of it reaches the result."""

    stop_after: float | None = None  # seconds
    checkpoint_every: float = 15.0  # seconds
    env_timeout: float = 300.0  # seconds
    env_workers: int | None = 0  # processes for environments; None: as it pays
    command: str = ""
    trust: bool = False  # import the module that a run folder names
    at_once: int | None = None  # learners that share a program on a device
    until: int | None = None  # stop at this step of a run that is to be longer
    pictures: bool = True  # curves and TensorBoard
    track: tuple[str, ...] = ()  # trackers that hear the numbers too
    home: Path | None = None  # the study or search that the run is part of
    saved: Callable[[Path], None] | None = None  # called after every checkpoint of all


@dataclass
class Outcome:
    """How training ended."""

    folder: Path
    exit_code: int
    reason: str
    steps: int  # of all learners
    steps_now: int  # ... of them in this process
    seconds: float
    env: str
    finals: dict[Learner, Evaluation]  # the last evaluation
    scores: dict[Learner, float]  # mean minus std of the last tenth of evaluations
    errors: dict[Learner, str]

    @property
    def was_stopped(self) -> bool:
        """Whether someone asked the run to stop before its end."""
        return self.reason.startswith("stopped")
