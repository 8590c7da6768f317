"""A warm start: networks and statistics of an earlier run, in a run that begins."""

from pathlib import Path
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.engines.base import Engine
from penfac.errors import ConfigError
from penfac.runs.folder import RunFolder
from penfac.runs.learners import Learner
from penfac.runs.recorder import Recorder
from penfac.runs.run import Run

REPLAY = "state.replay."  # what was replayed may be of another environment


def source_of(path: Path, seed: int) -> Learner:
    """The learner to start from: a run's only one, or the one of the same seed."""
    run = Run.open(path)
    run.refuse_arms()
    run.refuse_changed()
    return run.learner(None if len(run.config.seeds) == 1 else seed)


def start_warm(engine: Engine, recorders: list[Recorder]) -> None:
    """Give the learners without a checkpoint the weights of the run that they name."""
    for i, recorder in enumerate(recorders):
        path = recorder.config.start_from
        if path is not None and recorder.last_checkpoint is None:
            start_from(engine, i, Path(path), recorder.learner.seed)


def start_from(engine: Engine, i: int, path: Path, seed: int) -> None:
    """Give learner `i`, which has not learned yet, what another one has learned."""
    learner = source_of(path, seed)
    checkpoint = RunFolder(learner.path).load_checkpoint()
    if checkpoint is None:
        raise ConfigError(f"--from {path}: has no checkpoint yet; train it first")
    algo = Run.open(learner.path).config.algo
    there = dict(ALGORITHMS[algo].earlier_arrays) | checkpoint.arrays
    here = engine.snapshot(i)
    taken: dict[str, Any] = {name: there.get(name) for name in here if is_learned(name)}
    extra = [name for name in there if is_learned(name) and name not in here]
    for name, array in taken.items():
        wanted = here[name]
        if array is None or (array.shape, array.dtype) != (wanted.shape, wanted.dtype):
            has = "nothing" if array is None else f"{array.dtype}{array.shape}"
            raise ConfigError(
                f"--from {path}: {name} is {has}, must be {wanted.dtype}{wanted.shape}; "
                "algorithm, networks and sizes of the spaces must be the same"
            )
    if extra:
        raise ConfigError(
            f"--from {path}: has {extra[0]}, which this run has not; algorithm and "
            "networks must be the same"
        )
    engine.restore(i, here | taken)


def is_learned(name: str) -> bool:
    return name.startswith("state.") and not name.startswith(REPLAY)
