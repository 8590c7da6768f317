"""Bringing a group of learners back to their checkpoints, all of them or none."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Engine
from penfac.errors import ConfigError, CorruptFile
from penfac.runs.recorder import Recorder
from penfac.settings.registry import SETTINGS
from penfac.training.request import completed, differences, identity, versions

Note = Callable[[str], None]  # a line for whoever watches


def restore(
    engine: Engine, recorders: list[Recorder], note: Note, fresh: bool
) -> list[Counters]:
    """Bring every learner back to its newest checkpoint that verifies.

    No file is touched before the checkpoints of all seeds are known to be good.
    """
    found = [None if fresh else r.folder.load_checkpoint() for r in recorders]
    moved: dict[str, None] = {}
    for i, (recorder, saved) in enumerate(zip(recorders, found, strict=True)):
        if saved is not None:
            moved |= dict.fromkeys(place(engine, i, recorder, saved, note))
    if moved:
        note(
            f"versions differ from the checkpoint's ({'; '.join(moved)}): "
            "the run continues, but not bit for bit"
        )
    counters = []
    for recorder, saved in zip(recorders, found, strict=True):
        meta = None if saved is None else saved[1]
        with ours(recorder.folder.path):
            recorder.rewind(meta)
        counters.append(Counters() if meta is None else Counters(**meta["counters"]))
    return counters


def place(
    engine: Engine,
    i: int,
    recorder: Recorder,
    saved: tuple[dict[str, Any], dict[str, Any], list[str]],
    note: Note,
) -> list[str]:
    """One learner back where a checkpoint has it, if that is this run's and ours; what
    has another version than then."""
    arrays, meta, complaints = saved
    for complaint in complaints:
        note(f"skipped a damaged checkpoint: {complaint}")
    with ours(recorder.folder.path):
        algo, then = ALGORITHMS[recorder.document["algo"]], meta["identity"]
        if SETTINGS[algo.name].earlier.keys() - then["config"].keys():
            then = then | {"config": completed(algo, then["config"])}
            arrays = dict(algo.earlier_arrays) | arrays
        changed = differences(then, identity(recorder.document))
        if changed:
            raise ConfigError(
                f"{recorder.folder.path}: config.json was changed since the checkpoint: "
                + "; ".join(changed)
            )
        engine.restore(i, arrays)
        Counters(**meta["counters"])
        return differences(meta["versions"], versions())


@contextlib.contextmanager
def ours(path: Path):
    """A checkpoint whose sha256 is right but whose content no run of ours would write."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(
            f"{path}: its checkpoint is not from penfac ({error!r})"
        ) from error
