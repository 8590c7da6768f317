"""Several engines as one: learners whose programs have different shapes."""

from collections.abc import Iterator
from typing import Any

from penfac.engines.base import Arrays, Counters, Engine, Progress
from penfac.errors import PenfacError
from penfac.policy import Policy

Due = list[tuple[int, Counters]]


class Several:
    """See penfac.engines.base.Engine. `parts` are engines with the learners, by their
    number here, that each was made with."""

    def __init__(self, parts: list[tuple[Engine, list[int]]]):
        self.parts = parts
        self.place = {i: (e, k) for e, own in parts for k, i in enumerate(own)}

    def advance(self, due: Due) -> Iterator[tuple[int, Progress | PenfacError]]:
        for engine, own, part in self._parts(due):
            for k, progress in engine.advance(part):
                yield own[k], progress

    def evaluate(
        self, due: Due, episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]:
        for engine, own, part in self._parts(due):
            for k, played in engine.evaluate(part, episodes, fixed):
                yield own[k], played

    def _parts(self, due: Due) -> Iterator[tuple[Engine, list[int], Due]]:
        counters = dict(due)
        for engine, own in self.parts:
            part = [(k, counters[i]) for k, i in enumerate(own) if i in counters]
            if part:
                yield engine, own, part

    def snapshot(self, i: int) -> Arrays:
        engine, k = self.place[i]
        return engine.snapshot(k)

    def restore(self, i: int, arrays: Arrays) -> None:
        engine, k = self.place[i]
        engine.restore(k, arrays)

    def policy(self, i: int) -> Policy:
        engine, k = self.place[i]
        return engine.policy(k)

    def close(self) -> None:
        for engine, _ in self.parts:
            engine.close()
