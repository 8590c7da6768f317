"""Built-in environments: collecting and learning are one compiled program.

The program has a learner axis L always. On an accelerator all learners share one program;
on a CPU each runs its own with L = 1, so that `--seeds 8` ends with the bits of eight
single runs.
"""

import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
from penfac.envs.base import JaxEnv
from penfac.envs.builtin import jax_env
from penfac.errors import EnvironmentFault, PenfacError
from penfac.policy import ActionScale, Policy
from penfac.randomness import Stream
from penfac.rollout.device import (
    Finished,
    Worlds,
    collect_episodes,
    collect_steps,
    play_episodes,
    start_worlds,
)
from penfac.types import EpisodeStats


class DeviceEngine:
    """See penfac.engines.base.Engine."""

    def __init__(self, job: Job, seeds: list[int]):
        self.job, self.env = job, environment(job)
        self.plan = job.algo.plan(job.cfg, self.env.spec)
        self.numbers = job.algo.numbers(job.cfg)
        together = jax.default_backend() != "cpu"
        size = len(seeds) if together else 1
        self.groups = [
            Group(self, seeds[k : k + size]) for k in range(0, len(seeds), size)
        ]
        self.place = [
            divmod(i, size) for i in range(len(seeds))
        ]  # learner -> (group, row)
        self.advance_program = jax.jit(self._advance, donate_argnums=(0, 1))
        self.evaluate_program = jax.jit(self._evaluate, static_argnums=3)
        self.compiled = False

    # --- the programs -----------------------------------------------------------------

    def _advance(self, states, worlds, seeds, first, sigma, active):
        """Collect and update [L] learners; those not active keep every bit."""
        cfg, algo = self.job.cfg, self.job.algo

        def mu(obs):
            one = lambda state, obs: algo.mu(state, obs, self.plan, self.numbers)  # noqa: E731
            return jax.vmap(one)(states, obs)

        if cfg.collect == "episodes":
            count = episodes_for(cfg, self.env)
            batch, finished = collect_episodes(
                self.env, mu, cfg.exploration, sigma, seeds, first, count
            )
            moved = worlds
        else:
            moved, batch, finished = collect_steps(
                self.env, mu, cfg.exploration, sigma, seeds, worlds, cfg.steps_per_world
            )
        update = lambda state, batch: algo.update(state, batch, self.plan, self.numbers)  # noqa: E731
        new, metrics = jax.vmap(update)(states, batch)
        good = active & metrics.finite

        def keep(new, old):
            rows = good.reshape(good.shape + (1,) * (new.ndim - 1))
            return jnp.where(rows, new, old)

        states = jax.tree.map(keep, new, states)
        worlds = jax.tree.map(keep, moved, worlds)
        return states, worlds, metrics, jnp.sum(batch.mask, axis=1), finished

    def _evaluate(self, states, seeds, evaluation, episodes: int):
        def act(obs, keys, t):
            one = lambda s, o: self.job.algo.mu(s, o, self.plan, self.numbers)  # noqa: E731
            return jax.vmap(one)(states, obs)

        stream = Stream.EVAL_RESET
        return play_episodes(self.env, act, seeds, stream, evaluation, episodes)

    # --- the engine -------------------------------------------------------------------

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        for g, group in enumerate(self.groups):
            rows = {self.place[i][1]: (i, c) for i, c in due if self.place[i][0] == g}
            if not rows:
                continue
            self.job.poll()
            yield from self._advance_group(group, rows)

    def _advance_group(self, group: "Group", rows: dict[int, tuple[int, Counters]]):
        started = time.perf_counter()
        size = len(group.seeds)
        sigma, first = np.zeros(size, np.float32), np.zeros(size, np.uint32)
        active = np.zeros(size, bool)
        for row, (_, counters) in rows.items():
            sigma[row] = self.job.sigma(counters.step)
            first[row] = counters.episode % 2**32  # keys are named by 32 bits
            active[row] = True
        sigma = np.where(active, sigma, np.float32(self.job.cfg.sigma))
        group.states, group.worlds, metrics, steps, finished = self.advance_program(
            group.states, group.worlds, group.seeds, first, sigma, active
        )
        metrics, steps, finished = jax.device_get((metrics, steps, finished))
        seconds = time.perf_counter() - started
        if not self.compiled:
            self.compiled = True
            self.job.note(f"first update in {seconds:.1f} s, compilation included")
        timing = {"collect": 0.0, "env": 0.0, "update": seconds / len(rows)}
        for row, (i, counters) in rows.items():
            own = jax.tree.map(lambda x, row=row: x[row], metrics)
            if not own.finite:
                state = jax.tree.map(lambda x, row=row: x[row], group.states)
                yield i, diverged(state, own, counters.update + 1)
                continue
            stats = ended_episodes(finished, row)
            broken = int(finished.broken[row].sum())
            faults = counters.faults + broken
            if faults > self.job.restarts:
                world = int(np.flatnonzero(finished.broken[row].any(-1))[0])
                yield (
                    i,
                    EnvironmentFault(
                        f"{self.job.env_id}: the physics of world {world} blew up",
                        {"seed": int(group.seeds[row]), "world": world},
                    ),
                )
                continue
            episode = counters.episode + len(stats.returns) + broken
            yield (
                i,
                Progress(
                    as_row(own),
                    int(steps[row]),
                    episode,
                    stats,
                    float(sigma[row]),
                    faults,
                    timing,
                ),
            )

    def evaluate(
        self, due: list[tuple[int, Counters]], episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]:
        for g, group in enumerate(self.groups):
            rows = {self.place[i][1]: (i, c) for i, c in due if self.place[i][0] == g}
            if not rows:
                continue
            self.job.poll()
            which = np.zeros(len(group.seeds), np.uint32)
            for row, (_, counters) in rows.items():
                which[row] = 0 if fixed else counters.evaluations % 2**32
            played = self.evaluate_program(group.states, group.seeds, which, episodes)
            returns, lengths, terminated = jax.device_get(played)
            for row, (i, _) in rows.items():
                if not np.isfinite(returns[row]).all():
                    yield (
                        i,
                        EnvironmentFault(
                            f"{self.job.env_id}: the physics blew up in an evaluation"
                        ),
                    )
                    continue
                out = (returns[row], lengths[row], terminated[row])
                yield i, tuple(x.tolist() for x in out)

    def snapshot(self, i: int) -> Arrays:
        group, row = self._at(i)
        own = jax.tree.map(lambda x: x[row], (group.states, group.worlds))
        return flatten(own[0], "state") | flatten(own[1], "worlds")

    def restore(self, i: int, arrays: Arrays) -> None:
        group, row = self._at(i)

        def place(whole, prefix):
            own = jax.tree.map(lambda x: x[row], whole)
            back = unflatten(own, arrays, prefix)
            return jax.tree.map(lambda w, b: w.at[row].set(b), whole, back)

        group.states = place(group.states, "state")
        group.worlds = place(group.worlds, "worlds")

    def policy(self, i: int) -> Policy:
        group, row = self._at(i)
        state = jax.tree.map(lambda x: x[row], group.states)
        weights = self.job.algo.policy(state, self.plan, self.numbers)
        spec = self.env.spec
        shape = (spec.action_dim,)
        return Policy(
            weights, ActionScale(spec.action_low, spec.action_high, shape), {}
        )

    def close(self) -> None:
        pass

    def _at(self, i: int) -> tuple["Group", int]:
        g, row = self.place[i]
        return self.groups[g], row


class Group:
    """The learners of one program: their states and worlds with a leading axis L."""

    def __init__(self, engine: DeviceEngine, seeds: list[int]):
        job, env = engine.job, engine.env
        self.seeds = jnp.asarray(np.asarray(seeds, np.uint32))
        keys = [jax.random.fold_in(jax.random.key(s), int(Stream.INIT)) for s in seeds]
        states = [job.algo.init(key, engine.plan, engine.numbers) for key in keys]
        self.states = jax.tree.map(lambda *x: jnp.stack(x), *states)
        running = job.cfg.collect == "steps"
        self.worlds: Worlds | tuple[()] = (
            jax.jit(lambda seeds: start_worlds(env, seeds, job.cfg.worlds))(self.seeds)
            if running
            else ()
        )


def environment(job: Job) -> JaxEnv:
    """The environment as JAX functions, with the user's time limit if one was given."""
    env = jax_env(job.env_id, job.options.kwargs)
    limit = job.options.max_episode_steps
    return env if limit is None else env._replace(spec=env.spec._replace(horizon=limit))


def episodes_for(cfg: Any, env: JaxEnv) -> int:
    """Episodes an update: a program's shape cannot wait for a number of steps, so the
    floor in steps counts whole time limits."""
    return max(
        cfg.episodes_per_update, -(-cfg.min_steps_per_update // env.spec.horizon)
    )


def ended_episodes(finished: Finished, row: int) -> EpisodeStats:
    ended = finished.ended[row]
    returns = finished.returned[row][ended].tolist()
    return EpisodeStats(returns, finished.length[row][ended].tolist(), {})
