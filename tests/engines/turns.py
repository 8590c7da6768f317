"""Update by update, without evaluations; engines that share programs; how far apart."""

import numpy as np

from penfac.engines.base import Arrays, Counters, Engine
from penfac.engines.device import DeviceEngine
from penfac.errors import PenfacError
from penfac.training.loop import count_update


def turn(engine: Engine, counters: list[Counters]) -> list:
    """One update of every learner; what each was told, counted."""
    told = dict(engine.advance(list(enumerate(counters))))
    for i, progress in told.items():
        if not isinstance(progress, PenfacError):
            count_update(counters[i], progress)
    return [told[i] for i in range(len(counters))]


def turns(engine: Engine, learners: int, count: int) -> Engine:
    """The engine after so many updates of every learner."""
    counters = [Counters() for _ in range(learners)]
    for _ in range(count):
        turn(engine, counters)
    return engine


def sharing(
    engine: DeviceEngine, seeds, configs=None, at_once: int | None = None, job=None
) -> DeviceEngine:
    """Other learners in the programs of `engine`, which have the same shape: compiling is
    most of these tests' time."""
    job = job or engine.job
    other = DeviceEngine(job, seeds, configs, at_once, compiled=engine.compiled)
    assert engine.programs[1:3] == other.programs[1:3]
    return other


def distance(one: Arrays, other: Arrays, without: str = "nothing") -> float:
    """The largest difference of two learners, each array in units of its own largest
    number; arrays named `without` are left out."""
    assert one.keys() == other.keys()
    return max(
        float(np.abs(one[k].astype(float) - other[k]).max())
        / max(float(np.abs(other[k]).max()), 1e-30)
        for k in one
        if without not in k
    )
