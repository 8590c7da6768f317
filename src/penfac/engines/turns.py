"""A learner of the host engine, between two updates and during a turn."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp

from penfac.engines.base import Counters, Progress, join_replay, split_replay
from penfac.engines.packing import (
    Packed,
    pack,
    pack_for_device,
    unpack,
    unpack_on_host,
)
from penfac.errors import Divergence, EnvironmentFault, PenfacError
from penfac.machine import usable_cores
from penfac.types import EpisodeStats


@dataclass(frozen=True)
class PackedLearner:
    """A learner's state: the rows of its replay, and everything else packed."""

    rows: Any
    rest: Packed

    @staticmethod
    def of(state: Any) -> "PackedLearner":
        rest, rows = split_replay(state)
        return PackedLearner(rows, pack_for_device(rest))

    @cached_property
    def state(self) -> Any:
        rest = jax.tree.map(jnp.asarray, unpack_on_host(self.rest))
        return join_replay(rest, self.rows)


@partial(jax.jit, static_argnums=(0, 1, 2))
def pack_actor(
    acting: Any, behaviour: Any, plan: Any, rest: Packed, numbers: Packed
) -> Packed:
    """Everything that mu needs: the actor's weights, or those of the actor that explores."""
    return pack(acting(behaviour(unpack(rest)), plan, unpack(numbers)))


def learn_all(
    learn: Callable[[int], None], learners: list[int]
) -> list[tuple[int, PenfacError]]:
    """Let learners learn, as many at the same time as there are cores: none sees another.
    Returns the errors of those that failed."""

    def attempt(i: int) -> PenfacError | None:
        try:
            return learn(i)
        except PenfacError as error:
            return error

    if len(learners) < 2:
        errors = [attempt(i) for i in learners]
    else:
        with ThreadPoolExecutor(len(usable_cores())) as threads:
            errors = list(threads.map(attempt, learners))
    return [(i, e) for i, e in zip(learners, errors, strict=True) if e is not None]


def raise_unless_one_learner(error: PenfacError) -> PenfacError:
    """A broken environment or a divergence ends one learner; other errors end the run."""
    if not isinstance(error, EnvironmentFault | Divergence):
        raise error
    return error


@dataclass
class Turn:
    """The rounds of one learner until its next report. The engine keeps the learner it
    had before if a round fails."""

    counters: Counters
    learner: PackedLearner
    episode: int
    steps: int = 0
    rounds: int = 0
    metrics: dict[str, float] = field(default_factory=dict)  # sums over rounds
    stats: EpisodeStats = field(default_factory=lambda: EpisodeStats([], [], {}))
    seconds: dict[str, float] = field(
        default_factory=lambda: {"collect": 0.0, "env": 0.0, "update": 0.0}
    )

    def add_round(
        self, metrics: dict[str, float], stats: EpisodeStats, steps: int
    ) -> None:
        for name, number in metrics.items():
            self.metrics[name] = self.metrics.get(name, 0) + number
        self.stats.returns.extend(stats.returns)
        self.stats.lengths.extend(stats.lengths)
        for name, mean in stats.terms.items():
            self.stats.terms[name] = self.stats.terms.get(name, 0) + mean * steps
        self.steps, self.rounds = self.steps + steps, self.rounds + 1

    def progress(self, sigma: float, faults: int) -> Progress:
        """The report of the whole turn."""
        metrics, terms = self.metrics, self.stats.terms
        if self.rounds > 1:
            metrics = {k: v / self.rounds for k, v in metrics.items()}
        terms = {k: v / self.steps for k, v in terms.items()}
        stats = self.stats._replace(terms=terms)
        return Progress(
            metrics, self.steps, self.episode, stats, sigma, faults, self.seconds
        )
