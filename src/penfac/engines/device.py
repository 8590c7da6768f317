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

from penfac.algos.base import Collecting, given
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
from penfac.envs.base import JaxEnv
from penfac.envs.builtin import jax_env
from penfac.errors import EnvironmentFault, PenfacError
from penfac.evaluate import MODES
from penfac.policy import ActionScale, Policy
from penfac.randomness import Stream
from penfac.rollout.device import (
    Finished,
    Noise,
    Worlds,
    averaged,
    collect_episodes,
    collect_steps,
    play_episodes,
    start_worlds,
)
from penfac.types import EpisodeStats


class DeviceEngine:
    """See penfac.engines.base.Engine."""

    def __init__(self, job: Job, seeds: list[int]):
        self.job, self.env, self.how = job, environment(job), job.collecting
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
        self.evaluate_program = jax.jit(self._evaluate, static_argnums=(5, 6))
        self.compiled = False

    # --- the programs -----------------------------------------------------------------

    def _advance(self, states, worlds, seeds, first, when, active):
        """Collect and update [L] learners, some rounds of it; those not active keep
        every bit."""
        how, before, home = self.how, states, worlds
        update, step, progress, sigma = when

        def one_round(carry, turn):
            states, worlds = carry
            steps = step + turn * (how.worlds * how.steps)
            noise = self._noise(states, sigma, steps < how.random_steps)
            worlds, batch, finished = self._collect(states, worlds, seeds, first, noise)
            if hasattr(states, "replay"):  # what is not learned from is not stored
                batch = batch._replace(mask=batch.mask & active[:, None])

            def learn(state, batch, seed, update, progress, sigma):
                now = moment(seed, update, turn, progress, sigma)
                return self.job.algo.update(state, batch, self.plan, self.numbers, now)

            at = (seeds, update, progress, sigma)
            states, metrics = jax.vmap(learn)(states, batch, *at)
            return (states, worlds), (metrics, jnp.sum(batch.mask, axis=1), finished)

        carry = (states, worlds)
        if how.rounds == 1:
            (states, worlds), (metrics, steps, finished) = one_round(carry, 0)
        else:
            turns = jnp.arange(how.rounds)
            (states, worlds), told = jax.lax.scan(one_round, carry, turns)
            metrics, steps, finished = over_rounds(*told)
        good = active & metrics.finite
        states, rows = without_rows(states)
        kept = keep(good, states, without_rows(before)[0])
        states = with_rows(kept, rows)
        return states, keep(good, worlds, home), metrics, steps, finished

    def _noise(self, states, sigma, random) -> Noise:
        spread = lambda state, sigma: self.job.algo.spread(  # noqa: E731
            state, sigma, self.plan, self.numbers
        )
        return Noise(self.how.exploration, jax.vmap(spread)(states, sigma), random)

    def _collect(self, states, worlds, seeds, first, noise):
        algo = self.job.algo
        acting = jax.vmap(algo.behaviour)(states)

        def mu(obs):
            one = lambda state, obs: algo.mu(state, obs, self.plan, self.numbers)  # noqa: E731
            return jax.vmap(one)(acting, obs)

        if self.how.episodes is None:
            return collect_steps(self.env, mu, noise, seeds, worlds, self.how.steps)
        count = episodes_for(self.how, self.env)
        batch, finished = collect_episodes(self.env, mu, noise, seeds, first, count)
        return worlds, batch, finished

    def _evaluate(self, states, seeds, evaluation, drawn, sigma, episodes, mode):
        """Episodes of each learner; `evaluation` names the initial states, `drawn` the
        noise of a mode that samples."""

        def mean(obs):
            one = lambda s, o: self.job.algo.mu(s, o, self.plan, self.numbers)  # noqa: E731
            return jax.vmap(one)(states, obs)

        noise = self._noise(states, sigma, jnp.zeros(len(seeds), bool))
        samples = 1 if mode == "mean" else MODES[mode]

        def act(obs, _, t):
            if mode == "mean":
                return mean(obs)
            mu, number = mean(obs), jnp.broadcast_to(t, obs.shape[:2])
            which = jnp.broadcast_to(drawn[:, None], number.shape)
            world = jnp.broadcast_to(jnp.arange(number.shape[1]), number.shape)
            return averaged(mu, noise, samples, (seeds, which, world, number))

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
        job, active = self.job, np.zeros(size, bool)
        first, update = np.zeros(size, np.uint32), np.zeros(size, np.uint32)
        step, progress = np.zeros(size, np.int32), np.zeros(size, np.float32)
        sigma = np.full(size, job.cfg.sigma, np.float32)
        for row, (_, counters) in rows.items():
            first[row] = counters.episode % 2**32  # keys are named by 32 bits
            update[row] = counters.update % 2**32
            step[row] = min(counters.step, 2**30)  # to know when random ones end
            progress[row] = job.progress(counters.step)
            sigma[row] = job.sigma(counters.step)
            active[row] = True
        when = (update, step, progress, sigma)
        group.states, group.worlds, metrics, steps, finished = self.advance_program(
            group.states, group.worlds, group.seeds, first, when, active
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
                states, _ = without_rows(group.states)
                state = jax.tree.map(lambda x, row=row: x[row], states)
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
                    self._told_sigma(group, row, float(sigma[row])),
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
            size = len(group.seeds)
            which, drawn = np.zeros(size, np.uint32), np.zeros(size, np.uint32)
            sigma = np.full(size, self.job.cfg.sigma, np.float32)
            for row, (_, counters) in rows.items():
                drawn[row] = counters.evaluations % 2**32
                which[row] = 0 if fixed else drawn[row]
                sigma[row] = self.job.sigma(counters.step)
            given = (group.states, group.seeds, which, drawn, sigma)
            played = {
                mode: jax.device_get(self.evaluate_program(*given, episodes, mode))
                for mode in self.job.algo.modes
            }
            for row, (i, _) in rows.items():
                found = {
                    mode: tuple(x[row].tolist() for x in out)
                    for mode, out in played.items()
                }
                if all(np.isfinite(out[0]).all() for out in found.values()):
                    yield i, found
                    continue
                what = "the physics blew up in an evaluation"
                yield i, EnvironmentFault(f"{self.job.env_id}: {what}")

    def _told_sigma(self, group: "Group", row: int, sigma: float) -> float:
        """How widely this learner explores."""
        if self.job.algo.spread is given:
            return sigma
        states, _ = without_rows(group.states)
        state = jax.tree.map(lambda x: x[row], states)
        spread = self.job.algo.spread(state, sigma, self.plan, self.numbers)
        return float(np.mean(spread))

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
        states, _ = without_rows(group.states)
        state = jax.tree.map(lambda x: x[row], states)
        spec = self.env.spec
        actions = ActionScale(spec.action_low, spec.action_high, (spec.action_dim,))
        return self.job.policy(state, self.plan, self.numbers, actions)

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
        self.worlds: Worlds | tuple[()] = ()
        if engine.how.episodes is None:
            count = engine.how.worlds
            start = jax.jit(lambda seeds: start_worlds(env, seeds, count))
            self.worlds = start(self.seeds)


def environment(job: Job) -> JaxEnv:
    """The environment as JAX functions, with the user's time limit if one was given."""
    env = jax_env(job.env_id, job.options.kwargs)
    limit = job.options.max_episode_steps
    return env if limit is None else env._replace(spec=env.spec._replace(horizon=limit))


def episodes_for(how: Collecting, env: JaxEnv) -> int:
    """Episodes an update: a program's shape cannot wait for a number of steps, so the
    floor in steps counts whole time limits."""
    return max(how.episodes or 0, -(-how.min_steps // env.spec.horizon))


def keep(good, new, old):
    """The new rows of learners that are well, the old ones of the others."""

    def choose(new, old):
        rows = good.reshape(good.shape + (1,) * (new.ndim - 1))
        return jnp.where(rows, new, old)

    return jax.tree.map(choose, new, old)


def over_rounds(metrics, steps, finished: Finished):
    """Means of metrics, all episodes in the order they ended, over [R] rounds."""
    means = jax.tree.map(lambda x: jnp.mean(x.astype(jnp.float32), axis=0), metrics)
    means = means._replace(finite=jnp.all(metrics.finite, axis=0))
    joined = jax.tree.map(  # [R, L, W, T] as [L, W, R * T]
        lambda x: jnp.moveaxis(x, 0, 2).reshape(*x.shape[1:3], -1), finished
    )
    return means, jnp.sum(steps, axis=0), joined


def ended_episodes(finished: Finished, row: int) -> EpisodeStats:
    ended = finished.ended[row]
    returns = finished.returned[row][ended].tolist()
    return EpisodeStats(returns, finished.length[row][ended].tolist(), {})
