"""A run that trackers hear."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from penfac.errors import StorageError
from penfac.runs import tracking
from penfac.runs.config import RunConfig
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run
from penfac.runs.status import read_status
from penfac.training.limits import Limits


@contextlib.contextmanager
def tracked(
    run: Run, limits: Limits, recorders: list[Recorder], tell: Callable[[str], None]
) -> Iterator[None]:
    """Let trackers hear what the recorders write, to the end of the run."""
    home = limits.home or run.path
    group = group_of(run.config, home, limits.home is None)

    def note(text: str) -> None:
        with contextlib.suppress(StorageError):
            recorders[0].folder.log(text)  # nobody hears a process of a study
        tell(text)

    for recorder in recorders if limits.track else ():
        path, own = recorder.learner.path, ""
        if path != home:
            own = path.relative_to(home) if path.is_relative_to(home) else path.name
        name = f"{group}/{own}".rstrip("/")
        settings = recorder.folder.hparams
        recorder.trackers = tracking.open_all(
            limits.track, path, name, group, settings, note
        )
    try:
        yield
    finally:
        for recorder in recorders:
            for tracker in recorder.trackers:
                tracker.close(read_status(recorder.folder.path).state)


def group_of(config: RunConfig, home: Path, alone: bool) -> str:
    """The name under which the runs of one folder stand together."""
    if alone:
        return f"{config.algo}/{home.name}"
    return home.name if config.study else f"tune/{config.algo}/{home.name}"
