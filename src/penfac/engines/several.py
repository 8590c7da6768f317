"""Several engines as one: learners whose programs have different shapes."""

from collections.abc import Iterator
from typing import Any

from penfac.engines.base import Arrays, Due, Engine, Progress
from penfac.errors import PenfacError
from penfac.policy import Policy


class Several:
    """See penfac.engines.base.Engine. `parts` are engines, each with the numbers that its
    learners have here."""

    def __init__(self, parts: list[tuple[Engine, list[int]]]):
        self.parts = parts
        self.place = {i: (e, k) for e, members in parts for k, i in enumerate(members)}

    def advance(self, due: Due) -> Iterator[tuple[int, Progress | PenfacError]]:
        for engine, members, part in self._parts(due):
            for k, progress in engine.advance(part):
                yield members[k], progress

    def evaluate(
        self, due: Due, episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]:
        for engine, members, part in self._parts(due):
            for k, played in engine.evaluate(part, episodes, fixed):
                yield members[k], played

    def _parts(self, due: Due) -> Iterator[tuple[Engine, list[int], Due]]:
        counters = dict(due)
        for engine, members in self.parts:
            part = [(k, counters[i]) for k, i in enumerate(members) if i in counters]
            if part:
                yield engine, members, part

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
