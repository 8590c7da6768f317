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


def sharing(engine: DeviceEngine, other: DeviceEngine) -> DeviceEngine:
    """`other` with the programs of `engine`: they have the same shape, and compiling is
    most of these tests' time."""
    assert (engine.plan, engine.how) == (other.plan, other.how)
    assert engine.groups[0].size == other.groups[0].size
    for name in ("begin_program", "advance_program", "evaluate_program"):
        setattr(other, name, getattr(engine, name))
    for group in other.groups:
        group.begin = engine.begin_program
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
