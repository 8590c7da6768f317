"""Restore a group of learners from their checkpoints: all of them or none."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Engine
from penfac.errors import CorruptFile
from penfac.runs import segments
from penfac.runs.checkpoints import FAULTS, Checkpoint
from penfac.runs.config import differences
from penfac.runs.folder import BEST
from penfac.runs.recorder import Recorder
from penfac.runs.sealed import refuse_other
from penfac.runs.versions import versions
from penfac.settings.registry import settings_of
from penfac.training.warm import start_warm

Note = Callable[[str], None]  # a line for whoever watches


def restore(
    engine: Engine, recorders: list[Recorder], note: Note, fresh: bool
) -> list[Counters]:
    """Restore every learner from its newest checkpoint that verifies.

    No file is touched before the checkpoints of all learners are known to be good.
    """
    found = [None if fresh else r.folder.load_checkpoint() for r in recorders]
    changed: dict[str, None] = {}
    for i, (recorder, checkpoint) in enumerate(zip(recorders, found, strict=True)):
        if checkpoint is None:
            recorder.refuse_loss()
        else:
            changed |= dict.fromkeys(
                restore_learner(engine, i, recorder, checkpoint, note)
            )
    if changed:
        note(
            f"versions differ from the checkpoint's ({'; '.join(changed)}): "
            "the run continues, but not bit for bit"
        )
    counters = []
    for recorder, checkpoint in zip(recorders, found, strict=True):
        meta = None if checkpoint is None else checkpoint.meta
        best = None if checkpoint is None else checkpoint.arrays.get(BEST)
        with refuse_foreign(recorder.folder.path):
            recorder.rewind(meta, None if best is None else best.tobytes())
        counters.append(Counters() if meta is None else Counters(**meta.counters))
    start_warm(engine, recorders)
    return counters


def restore_learner(
    engine: Engine, i: int, recorder: Recorder, checkpoint: Checkpoint, note: Note
) -> list[str]:
    """Restore one learner; return the packages whose version changed."""
    arrays, meta, complaints = checkpoint
    for complaint in complaints:
        note(f"skipped a damaged checkpoint: {complaint}")
    with refuse_foreign(recorder.folder.path):
        algo, saved = ALGORITHMS[recorder.config.algo], meta.identity
        refuse_other(recorder.folder.path, saved, recorder.config)
        if settings_of(algo.name).earlier.keys() - saved["config"].keys():
            arrays = dict(algo.earlier_arrays) | arrays
        _, ring = segments.split(arrays)
        if not ring and not arrays.get(segments.TOTAL, 1):  # nothing was collected yet
            arrays = segments.split(engine.snapshot(i))[1] | arrays
        engine.restore(i, arrays)
        counted = vars(Counters(**meta.counters))
        if counted != meta.counters or counted["update"] != meta.update:
            raise ValueError(f"counters {meta.counters} of update {meta.update}")
        return differences(meta.versions, versions())


@contextlib.contextmanager
def refuse_foreign(path: Path) -> Iterator[None]:
    """Refuse a checkpoint whose sha256 is right but whose content no run would write."""
    try:
        yield
    except FAULTS as error:
        raise CorruptFile(
            f"{path}: its checkpoint is not from penfac ({error!r})"
        ) from error
