"""What a run tells while it trains."""

from pathlib import Path

from penfac.engines.base import Counters, Progress
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import Learner


class Listener:
    """Hears how training goes. Does nothing; the command line overrides."""

    def started(self, folder: Path, config: RunConfig, done: int) -> None: ...

    def updated(self, who: Learner, counters: Counters, progress: Progress) -> None: ...

    def evaluated(
        self, who: Learner, counters: Counters, point: Evaluation
    ) -> None: ...

    def noted(self, text: str) -> None: ...
