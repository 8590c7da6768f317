"""A run that trackers hear."""

import contextlib
from collections.abc import Callable, Iterator

from penfac.runs import tracking
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run
from penfac.runs.status import read_status
from penfac.training.limits import Limits


@contextlib.contextmanager
def tracked(
    run: Run, limits: Limits, recorders: list[Recorder], tell: Callable[[str], None]
) -> Iterator[None]:
    """Let trackers hear what the recorders write, to the end of the run."""
    for recorder in recorders if limits.track else ():
        about = (recorder.learner, recorder.config, recorder.folder.hparams, run.path)
        recorder.trackers = tracking.open_all(limits.track, *about, tell)
    try:
        yield
    finally:
        for recorder in recorders:
            for tracker in recorder.trackers:
                tracker.close(read_status(recorder.folder.path).state)
