"""Gymnasium environments: a collector in numpy and one compiled update, per learner.

Learners never meet in a product of matrices, so eight seeds together end with the bits
of eight runs alone.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos.base import policy_weights, use_own_actor
from penfac.engines.base import (
    Arrays,
    Counters,
    Job,
    Progress,
    as_row,
    diverged,
    flatten,
    moment,
    unflatten,
    with_rows,
    without_rows,
)
from penfac.engines.packed import Packed, on_device, on_host, packed, unpacked
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import Divergence, EnvironmentFault, PenfacError
from penfac.policy import Policy, PolicyWeights
from penfac.randomness import Stream, generator
from penfac.rollout.evaluate import Candidate, Evaluator, chooser
from penfac.rollout.host import (
    Collected,
    Explorer,
    HostWorlds,
    Played,
    RunningWorlds,
)
from penfac.rollout.lockstep import Player, play_together
from penfac.rollout.packing import pack
from penfac.types import EpisodeStats


def stops_one(error: PenfacError) -> PenfacError:
    """A broken environment or a divergence ends one learner; anything else ends all."""
    if not isinstance(error, EnvironmentFault | Divergence):
        raise error
    return error


@dataclass(frozen=True)
class Held:
    """A learner between two updates: the rows of its replay, and all the rest of it."""

    rows: Any
    rest: Packed

    @cached_property
    def state(self) -> Any:
        rest = jax.tree.map(jnp.asarray, on_host(self.rest))
        return with_rows(rest, self.rows)


def hold(state: Any) -> Held:
    rest, rows = without_rows(state)
    return Held(rows, on_device(rest))


@partial(jax.jit, static_argnums=(0, 1, 2))
def acting_of(
    acting: Any, behaviour: Any, plan: Any, rest: Packed, numbers: Packed
) -> Packed:
    """All that an algorithm's mu needs of a learner, or of whom it explores with."""
    return packed(acting(behaviour(unpacked(rest)), plan, unpacked(numbers)))


@dataclass
class Turn:
    """One learner on its way from one report to the next: nothing counts until the end."""

    counters: Counters
    learner: Held
    episode: int
    steps: int = 0
    done: int = 0  # rounds
    metrics: dict[str, float] = field(default_factory=dict)  # sums over rounds
    stats: EpisodeStats = field(default_factory=lambda: EpisodeStats([], [], {}))
    seconds: dict[str, float] = field(
        default_factory=lambda: {"collect": 0.0, "env": 0.0, "update": 0.0}
    )


class HostEngine:
    """See penfac.engines.base.Engine."""

    def __init__(self, job: Job, seeds: list[int]):
        self.job, self.seeds = job, seeds
        self.how = job.collecting
        algo, cfg, running = job.algo, job.cfg, self.how.episodes is None
        count = self.how.worlds if self.how.episodes is None else self.how.episodes
        self.worlds = self._open(count * len(seeds))
        self.spec, self.actions = self.worlds.spec(), self.worlds.actions
        self.plan, self.numbers = algo.plan(cfg, self.spec), job.numbers(self.spec)
        keys = [jax.random.fold_in(jax.random.key(s), int(Stream.INIT)) for s in seeds]
        self.learners = [hold(algo.init(k, self.plan, self.numbers)) for k in keys]
        # several rounds are one turn: it is stopped before or after, never inside
        poll = job.poll if self.how.rounds == 1 else lambda: None
        self.players = [
            HostWorlds(
                self.worlds, seed, count, first=i * count, restarts=job.restarts,
                poll=poll, clip=self.how.exploration.clip,
            )
            for i, seed in enumerate(seeds)
        ]  # fmt: skip
        self.evaluator = Evaluator(self._open, job.poll)
        self.standing = [p.snapshot() if running else None for p in self.players]
        self.compiled: dict[int, Any] = {}

    @cached_property
    def packed_numbers(self) -> Packed:
        return on_device(self.numbers)

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        """All collect in lock-step, then each learns from its own batch."""
        if not due:
            return
        turns = {i: Turn(c, self.learners[i], c.episode) for i, c in due}
        self.job.poll()
        for i, turn in turns.items():  # a resumed run has used up its restarts too
            self.players[i].faults = turn.counters.faults
        for _ in range(self.how.rounds):
            for i, error in self._round(turns):
                del turns[i]
                yield i, stops_one(error)
            if not turns:
                return
        for i, turn in turns.items():
            yield i, self._settle(i, turn)

    def _round(self, turns: dict[int, Turn]) -> Iterator[tuple[int, PenfacError]]:
        """Collect and learn once; who fails is told."""
        before, started = self.worlds.seconds, time.perf_counter()
        batches: dict[int, Collected] = {}
        failed: list[tuple[int, PenfacError]] = []
        players = {i: self._collect(i, turn) for i, turn in turns.items()}
        for i, got in play_together(self.worlds, players):
            if isinstance(got, PenfacError):
                failed.append((i, got))
            else:
                batches[i] = got
        share = len(turns)
        collect = (time.perf_counter() - started) / share
        env = (self.worlds.seconds - before) / share
        for i, batch in batches.items():
            turns[i].seconds["collect"] += collect
            turns[i].seconds["env"] += env
            try:
                self._learn(i, turns[i], batch)
            except PenfacError as error:
                failed.append((i, error))
        yield from failed

    def _collect(self, i: int, turn: Turn) -> Player[Collected]:
        player, step = self.players[i], turn.counters.step
        act = Explorer(
            self._weights(turn.learner, exploring=True),
            self.how.exploration,
            self._sigma(turn.learner, step),
            anywhere=step + turn.steps < self.how.random_steps,
        )
        if self.how.episodes is None:
            return player.collect_steps(act, turn.episode, self.how.steps)
        return player.collect_episodes(
            act, turn.episode, self.how.episodes, self.how.min_steps
        )

    def _weights(self, learner: Held, exploring: bool = False) -> PolicyWeights:
        """mu of the learner; or of whom it explores with."""
        algo = self.job.algo
        whose = algo.behaviour if exploring else use_own_actor
        acting = acting_of(
            algo.acting, whose, self.plan, learner.rest, self.packed_numbers
        )
        return policy_weights(on_host(acting), self.plan)

    def _sigma(self, learner: Held, step: int) -> float | np.ndarray:
        """How widely it explores: a number, or one for each dimension of the action."""
        sigma, algo = self.job.sigma(step), self.job.algo
        if not algo.learns_sigma:
            return sigma
        obs = jax.numpy.zeros(self.plan.obs_dim)
        deviation = algo.sigma(learner.state, obs, sigma, self.plan, self.numbers)
        return np.asarray(deviation, float)

    def _learn(self, i: int, turn: Turn, collected: Collected) -> None:
        steps, stats, turn.episode = collected
        started = time.perf_counter()
        whole = self.how.worlds * self.how.steps
        batch = pack(steps, whole if self.how.episodes is None else None)
        new, metrics = self._update(i, turn, batch)
        # the old rows are gone; what was added lies behind their end
        self.learners[i] = Held(new.rows, self.learners[i].rest)
        if not metrics.finite:
            raise diverged(on_host(new.rest), metrics, turn.counters.update + 1)
        turn.learner = new
        for name, number in as_row(metrics).items():
            turn.metrics[name] = turn.metrics.get(name, 0) + number
        turn.stats.returns.extend(stats.returns)
        turn.stats.lengths.extend(stats.lengths)
        played = len(steps.reward)
        for name, mean in stats.terms.items():
            turn.stats.terms[name] = turn.stats.terms.get(name, 0) + mean * played
        turn.steps, turn.done = turn.steps + played, turn.done + 1
        turn.seconds["update"] += time.perf_counter() - started

    def _settle(self, i: int, turn: Turn) -> Progress:
        """The turn counts now."""
        self.learners[i] = turn.learner
        if self.standing[i] is not None:
            self.standing[i] = self.players[i].snapshot()
        metrics, terms = turn.metrics, turn.stats.terms
        if turn.done > 1:
            metrics = {k: v / turn.done for k, v in metrics.items()}
        terms = {k: v / turn.steps for k, v in terms.items()}
        return Progress(
            metrics,
            turn.steps,
            turn.episode,
            turn.stats._replace(terms=terms),
            float(np.mean(self._sigma(turn.learner, turn.counters.step))),
            self.players[i].faults,
            turn.seconds,
        )

    def _update(self, i: int, turn: Turn, batch: Any) -> tuple[Held, Any]:
        """The update compiled for this batch length; each compilation is logged."""
        algo, length = self.job.algo, len(batch.reward)
        step = turn.counters.step
        when = (
            np.uint32(self.seeds[i]),
            np.uint32(turn.counters.update % 2**32),
            np.uint32(turn.done),
            np.float32(self.job.progress(step)),
            np.float32(self.job.sigma(step)),
        )

        def update(rows, rest, batch, when, numbers):
            state, numbers = with_rows(unpacked(rest), rows), unpacked(numbers)
            new, metrics = algo.update(state, batch, self.plan, numbers, moment(*when))
            rest, rows = without_rows(new)
            return rows, packed(rest), packed(metrics)

        learner = turn.learner
        args = (learner.rows, learner.rest, batch, when, self.packed_numbers)
        if length not in self.compiled:
            started = time.perf_counter()
            program = jax.jit(update, donate_argnums=0)
            self.compiled[length] = program.lower(*args).compile()
            seconds = time.perf_counter() - started
            said = f"compiled the update of {length} steps in {seconds:.1f} s"
            self.job.note(said + self.job.left_open(self.spec))
        rows, rest, metrics = self.compiled[length](*args)
        return Held(rows, rest), on_host(metrics)

    def evaluate(
        self, due: list[tuple[int, Counters]], episodes: int, fixed: bool
    ) -> Iterator[tuple[int, dict[str, Played] | PenfacError]]:
        """Every mode of every learner that is due, all in lock-step."""
        if not due:
            return
        algo, candidates = self.job.algo, {}
        for i, counters in due:
            learner, which = self.learners[i], 0 if fixed else counters.evaluations
            weights = self._weights(learner)
            sigma = np.asarray(self._sigma(learner, counters.step))
            act = Explorer(weights, self.how.exploration, sigma)
            for k, mode in enumerate(algo.modes):
                drawn = (counters.evaluations, k)
                noise = generator(self.seeds[i], Stream.EVAL_NOISE, *drawn)
                # the mean is judged as it is deployed, inside the bounds
                clip = self.how.exploration.clip or mode == "mean"
                candidates[i, mode] = Candidate(
                    self.seeds[i], chooser(mode, act, noise), which, clip
                )
        found: dict[int, dict[str, Played]] = {i: {} for i, _ in due}
        failed: set[int] = set()
        for (i, mode), played in self.evaluator.play(candidates, episodes):
            if isinstance(played, PenfacError):
                if i not in failed:
                    yield i, stops_one(played)
                failed.add(i)
                continue
            found[i][mode] = played
            if len(found[i]) == len(algo.modes) and i not in failed:
                yield i, {mode: found[i][mode] for mode in algo.modes}

    def snapshot(self, i: int) -> Arrays:
        arrays = flatten(self.learners[i].state, "state")
        standing = self.standing[i]
        if standing is not None:
            arrays |= flatten(standing, "worlds")
        return arrays

    def restore(self, i: int, arrays: Arrays) -> None:
        state = unflatten(self.learners[i].state, arrays, "state")
        self.learners[i] = hold(jax.tree.map(jnp.array, state))  # our own copy
        if self.standing[i] is not None:
            standing = RunningWorlds(
                *(arrays[f"worlds.{k}"] for k in RunningWorlds._fields)
            )
            self.players[i].restore(standing)
            self.standing[i] = standing

    def policy(self, i: int) -> Policy:
        learner = self.learners[i]
        weights, state = self._weights(learner), learner.state
        return self.job.policy(weights, state, self.plan, self.numbers, self.actions)

    def close(self) -> None:
        self.worlds.close()
        self.evaluator.close()

    def _open(self, count: int) -> Worlds:
        return open_worlds(self.job.env_id, self.job.options, count, self.job.watch)
