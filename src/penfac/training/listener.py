"""What a run tells while it trains."""

from __future__ import annotations  # or the names of engines would import JAX

from pathlib import Path
from typing import TYPE_CHECKING

from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import Learner

if TYPE_CHECKING:
    from penfac.engines.base import Counters, Progress
    from penfac.training.loop import Loop


class Listener:
    """Hears how training goes. Does nothing; the command line overrides."""

    def attached(self, loop: Loop) -> None:
        """Before the first step: what learns, for those who look at it or save it."""

    def started(self, folder: Path, config: RunConfig, done: int) -> None: ...

    def updated(self, who: Learner, counters: Counters, progress: Progress) -> None: ...

    def evaluated(
        self, who: Learner, counters: Counters, point: Evaluation
    ) -> None: ...

    def noted(self, text: str) -> None: ...
