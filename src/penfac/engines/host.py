"""Gymnasium environments: a collector in numpy and one compiled update, per learner.

Learners never meet in a product of matrices, so eight seeds together end with the bits
of eight runs alone.
"""

import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from penfac.engines.base import (
    Arrays,
    Counters,
    Job,
    Progress,
    as_row,
    diverged,
    flatten,
    unflatten,
)
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import Divergence, EnvironmentFault, PenfacError
from penfac.evaluate import Candidate, Evaluator, deterministic
from penfac.policy import Policy
from penfac.randomness import Stream
from penfac.rollout.host import (
    Collected,
    Explorer,
    HostWorlds,
    Played,
    RunningWorlds,
)
from penfac.rollout.lockstep import Player, play_together
from penfac.rollout.packing import pack


def stops_one(error: PenfacError) -> PenfacError:
    """A broken environment or a divergence ends one learner; anything else ends all."""
    if not isinstance(error, EnvironmentFault | Divergence):
        raise error
    return error


class HostEngine:
    """See penfac.engines.base.Engine."""

    def __init__(self, job: Job, seeds: list[int]):
        self.job, self.seeds = job, seeds
        algo, cfg = job.algo, job.cfg
        running = cfg.collect == "steps"
        count = cfg.worlds if running else cfg.episodes_per_update
        self.worlds = self._open(count * len(seeds))
        self.spec, self.actions = self.worlds.spec(), self.worlds.actions
        self.plan, self.numbers = algo.plan(cfg, self.spec), algo.numbers(cfg)
        self.states = [
            algo.init(
                jax.random.fold_in(jax.random.key(seed), int(Stream.INIT)),
                self.plan,
                self.numbers,
            )
            for seed in seeds
        ]
        self.players = [
            HostWorlds(
                self.worlds, seed, count, first=i * count, restarts=job.restarts,
                poll=job.poll,
            )
            for i, seed in enumerate(seeds)
        ]  # fmt: skip
        self.evaluator = Evaluator(self._open, job.poll)
        self.standing = [p.snapshot() if running else None for p in self.players]
        self.compiled: dict[int, object] = {}

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        """All collect in lock-step, then each learns from its own batch."""
        if not due:
            return
        counters = dict(due)
        before = self.worlds.seconds
        started = time.perf_counter()
        batches: dict[int, Collected] = {}
        for i, got in play_together(
            self.worlds, {i: self._collect(i, c) for i, c in due}
        ):
            if isinstance(got, PenfacError):
                yield i, stops_one(got)
            else:
                batches[i] = got
        share = len(due)
        seconds = {
            "collect": (time.perf_counter() - started) / share,
            "env": (self.worlds.seconds - before) / share,
        }
        for i, batch in batches.items():
            try:
                yield i, self._learn(i, counters[i], batch, seconds)
            except PenfacError as error:
                yield i, stops_one(error)

    def _collect(self, i: int, counters: Counters) -> Player[Collected]:
        cfg, player = self.job.cfg, self.players[i]
        player.faults = counters.faults  # a resumed run has used up its restarts too
        weights = self.job.algo.policy(self.states[i], self.plan, self.numbers)
        act = Explorer(weights, cfg.exploration, self.job.sigma(counters.step))
        if cfg.collect == "episodes":
            return player.collect_episodes(
                act, counters.episode, cfg.episodes_per_update, cfg.min_steps_per_update
            )
        return player.collect_steps(act, counters.episode, cfg.steps_per_world)

    def _learn(
        self,
        i: int,
        counters: Counters,
        collected: Collected,
        seconds: dict[str, float],
    ) -> Progress:
        steps, stats, episode = collected
        started = time.perf_counter()
        new, metrics = self._update(self.states[i], pack(steps))
        if not metrics.finite:
            raise diverged(new, metrics, counters.update + 1)
        self.states[i] = new
        if self.standing[i] is not None:
            self.standing[i] = self.players[i].snapshot()
        spent = seconds | {"update": time.perf_counter() - started}
        sigma, faults = self.job.sigma(counters.step), self.players[i].faults
        return Progress(
            as_row(metrics), len(steps.reward), episode, stats, sigma, faults, spent
        )

    def _update(self, state, batch):
        """The update compiled for this batch length; each compilation is logged."""
        length = len(batch.reward)
        if length not in self.compiled:
            started = time.perf_counter()
            update = jax.jit(self.job.algo.update, static_argnums=2)
            lowered = update.lower(state, batch, self.plan, self.numbers)
            self.compiled[length] = lowered.compile()
            seconds = time.perf_counter() - started
            self.job.note(f"compiled the update of {length} steps in {seconds:.1f} s")
        new, metrics = self.compiled[length](state, batch, self.numbers)  # type: ignore[operator]
        return new, jax.device_get(metrics)

    def evaluate(
        self, due: list[tuple[int, Counters]], episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Played | PenfacError]]:
        if not due:
            return
        candidates = {}
        for i, counters in due:
            weights = self.job.algo.policy(self.states[i], self.plan, self.numbers)
            which = 0 if fixed else counters.evaluations
            candidates[i] = Candidate(self.seeds[i], deterministic(weights), which)
        for i, played in self.evaluator.play(candidates, episodes):
            yield i, stops_one(played) if isinstance(played, PenfacError) else played

    def snapshot(self, i: int) -> Arrays:
        arrays = flatten(self.states[i], "state")
        standing = self.standing[i]
        if standing is not None:
            arrays |= flatten(standing, "worlds")
        return arrays

    def restore(self, i: int, arrays: Arrays) -> None:
        state = unflatten(self.states[i], arrays, "state")
        self.states[i] = jax.tree.map(jnp.asarray, state)
        if self.standing[i] is not None:
            standing = RunningWorlds(
                *(arrays[f"worlds.{k}"] for k in RunningWorlds._fields)
            )
            self.players[i].restore(standing)
            self.standing[i] = standing

    def policy(self, i: int) -> Policy:
        weights = self.job.algo.policy(self.states[i], self.plan, self.numbers)
        return Policy(weights, self.actions, {})

    def close(self) -> None:
        self.worlds.close()
        self.evaluator.close()

    def _open(self, count: int) -> Worlds:
        return open_worlds(self.job.env_id, self.job.options, count, self.job.watch)
