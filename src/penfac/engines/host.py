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
from penfac.envs.gym import open_world
from penfac.errors import Divergence, EnvironmentFault, PenfacError
from penfac.evaluate import Evaluator, Played
from penfac.policy import Policy
from penfac.randomness import Stream
from penfac.rollout.host import Explorer, HostWorlds, RunningWorlds
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
        first = self._open()
        self.spec, self.actions = first.spec(), first.actions
        first.close()
        self.plan, self.numbers = algo.plan(cfg, self.spec), algo.numbers(cfg)
        self.states = [
            algo.init(
                jax.random.fold_in(jax.random.key(seed), int(Stream.INIT)),
                self.plan,
                self.numbers,
            )
            for seed in seeds
        ]
        running = cfg.collect == "steps"
        count = cfg.worlds if running else cfg.episodes_per_update
        self.worlds = [
            HostWorlds(self._open, s, count, restarts=job.restarts, poll=job.poll)
            for s in seeds
        ]
        self.evaluators = [Evaluator(self._open, s, job.poll) for s in seeds]
        self.standing = [w.snapshot() if running else None for w in self.worlds]
        self.compiled: dict[int, object] = {}

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        for i, counters in due:
            try:
                yield i, self._advance(i, counters)
            except PenfacError as error:
                yield i, stops_one(error)

    def _advance(self, i: int, counters: Counters) -> Progress:
        cfg, worlds, algo = self.job.cfg, self.worlds[i], self.job.algo
        started, env_before = time.perf_counter(), worlds.env_seconds
        worlds.faults = counters.faults  # a resumed run has used up its restarts too
        sigma = self.job.sigma(counters.step)
        weights = algo.policy(self.states[i], self.plan, self.numbers)
        act = Explorer(weights, cfg.exploration, sigma)
        if cfg.collect == "episodes":
            steps, stats, episode = worlds.collect_episodes(
                act, counters.episode, cfg.episodes_per_update, cfg.min_steps_per_update
            )
        else:
            steps, stats, episode = worlds.collect_steps(
                act, counters.episode, cfg.steps_per_world
            )
        collected = time.perf_counter()
        new, metrics = self._update(self.states[i], pack(steps))
        if not metrics.finite:
            raise diverged(new, metrics, counters.update + 1)
        self.states[i] = new
        if cfg.collect == "steps":
            self.standing[i] = worlds.snapshot()
        done = time.perf_counter()
        seconds = {
            "collect": collected - started,
            "env": worlds.env_seconds - env_before,
            "update": done - collected,
        }
        row = as_row(metrics)
        return Progress(
            row, len(steps.reward), episode, stats, sigma, worlds.faults, seconds
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
        for i, counters in due:
            weights = self.job.algo.policy(self.states[i], self.plan, self.numbers)
            which = 0 if fixed else counters.evaluations
            try:
                yield i, self.evaluators[i].deterministic(weights, episodes, which)
            except PenfacError as error:
                yield i, stops_one(error)

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
            self.worlds[i].restore(standing)
            self.standing[i] = standing

    def policy(self, i: int) -> Policy:
        weights = self.job.algo.policy(self.states[i], self.plan, self.numbers)
        return Policy(weights, self.actions, {})

    def close(self) -> None:
        for holder in (*self.worlds, *self.evaluators):
            holder.close()

    def _open(self):
        return open_world(self.job.env_id, self.job.options, self.job.watch)
