"""What runs on a device: collect and learn, or evaluate, [L] learners at once.

Pure functions of arrays with a leading axis of learners. Learners may differ in their
seed and in every number of their config; what shapes the program they share.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import Algorithm, Collecting, Numbers, Plan, State
from penfac.engines.base import moment, with_rows, without_rows
from penfac.envs.base import JaxEnv
from penfac.machine import runs_on_accelerator
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
from penfac.rollout.evaluate import MODES

# Products of matrices in whole float32. What an accelerator does by itself, 10 bits of
# mantissa, is an error of 1e-3 in V: enough to turn the sign of a small advantage.
PRECISION = "highest"


class Learners(NamedTuple):
    """Everything that learning changes, [L, ...] each."""

    state: State
    worlds: Any  # Worlds; none where every update plays whole episodes


class Who(NamedTuple):
    """Everything in which learners of one program may differ, [L, ...] each."""

    seed: Int[Array, " L"]
    numbers: Numbers


class When(NamedTuple):
    """Where each learner stands, and whether it takes part."""

    first: Int[Array, " L"]  # the number of its next episode
    update: Int[Array, " L"]
    step: Int[Array, " L"]
    progress: Float[Array, " L"]
    sigma: Float[Array, " L"]
    active: Bool[Array, " L"]


class Told(NamedTuple):
    """What one turn of [L] learners gave."""

    metrics: Any
    steps: Int[Array, " L"]
    finished: Finished
    sigma: Float[Array, " L"]  # how widely each explores now


class Programs(NamedTuple):
    """What shapes a program; its methods are what is compiled."""

    algo: Algorithm
    plan: Plan
    how: Collecting
    env: JaxEnv

    def begin(self, who: Who) -> Learners:
        """Fresh learners, and the worlds they will not leave."""
        worlds: Worlds | tuple[()] = ()
        if self.how.episodes is None:
            worlds = start_worlds(self.env, who.seed, self.how.worlds)
        # On a CPU one after the other: two batches of matrices that jaxlib factors at once
        # (orthogonal weights of two nets) may wait for each other forever
        if not runs_on_accelerator():
            return Learners(jax.lax.map(self._init, who), worlds)
        return Learners(jax.vmap(self._init)(who), worlds)

    def _init(self, who: Who) -> State:
        key = jax.random.fold_in(jax.random.key(who.seed), int(Stream.INIT))
        return self.algo.init(key, self.plan, who.numbers)

    @jax.default_matmul_precision(PRECISION)
    def advance(
        self, learners: Learners, who: Who, when: When
    ) -> tuple[Learners, Told]:
        """Collect and update, some rounds of it; those not active keep every bit."""

        def one_round(learners, turn):
            worlds, batch, finished = self._collect(learners, who, when, turn)
            if hasattr(learners.state, "replay"):  # what is not learned is not stored
                batch = batch._replace(mask=batch.mask & when.active[:, None])

            def learn(state, batch, who, when):
                now = moment(who.seed, when.update, turn, when.progress, when.sigma)
                return self.algo.update(state, batch, self.plan, who.numbers, now)

            state, metrics = jax.vmap(learn)(learners.state, batch, who, when)
            steps = jnp.sum(batch.mask, axis=1)
            return Learners(state, worlds), (metrics, steps, finished)

        if self.how.rounds == 1:
            new, (metrics, steps, finished) = one_round(learners, 0)
        else:
            turns = jnp.arange(self.how.rounds)
            new, told = jax.lax.scan(one_round, learners, turns)
            metrics, steps, finished = over_rounds(*told)
        good = when.active & metrics.finite
        state, rows = without_rows(new.state)
        kept = keep(good, state, without_rows(learners.state)[0])
        state = with_rows(kept, rows)
        worlds = keep(good, new.worlds, learners.worlds)
        sigma = self._spread(state, who, when.sigma)
        sigma = jnp.mean(sigma.reshape(len(sigma), -1), axis=1)
        return Learners(state, worlds), Told(metrics, steps, finished, sigma)

    def _spread(self, state: State, who: Who, sigma: Array) -> Array:
        obs = jnp.zeros(self.plan.obs_dim)

        def one(state, numbers, sigma):
            return self.algo.sigma(state, obs, sigma, self.plan, numbers)

        return jax.vmap(one)(state, who.numbers, sigma)

    def _mu(self, state: State, who: Who) -> Callable[[Array], Array]:
        def one(state, obs, numbers):
            return self.algo.mu(state, obs, self.plan, numbers)

        return lambda obs: jax.vmap(one)(state, obs, who.numbers)

    def _collect(self, learners: Learners, who: Who, when: When, turn: Any):
        how, (state, worlds) = self.how, learners
        steps = when.step + turn * (how.worlds * how.steps)
        sigma = self._spread(state, who, when.sigma)
        noise = Noise(how.exploration, sigma, steps < how.random_steps)
        mu = self._mu(jax.vmap(self.algo.behaviour)(state), who)
        if how.episodes is None:
            return collect_steps(self.env, mu, noise, who.seed, worlds, how.steps)
        count = episodes_for(how, self.env)
        given = (self.env, mu, noise, who.seed, when.first, when.active, count)
        return ((), *collect_episodes(*given))

    @jax.default_matmul_precision(PRECISION)
    def evaluate(
        self,
        state: State,
        who: Who,
        evaluation: Int[Array, " L"],
        drawn: Int[Array, " L"],
        sigma: Float[Array, " L"],
        active: Bool[Array, " L"],
        episodes: int,
        mode: str,
    ):
        """Episodes of each learner that is active; `evaluation` names the initial states,
        `drawn` the noise of a mode that samples."""
        seeds, mean = who.seed, self._mu(state, who)
        still = jnp.zeros(len(seeds), bool)
        noise = Noise(self.how.exploration, self._spread(state, who, sigma), still)
        samples = 1 if mode == "mean" else MODES[mode]

        def act(obs, _, t):
            if mode == "mean":
                return mean(obs)
            mu, number = mean(obs), jnp.broadcast_to(t, obs.shape[:2])
            which = jnp.broadcast_to(drawn[:, None], number.shape)
            world = jnp.broadcast_to(jnp.arange(number.shape[1]), number.shape)
            return averaged(mu, noise, samples, (seeds, which, world, number))

        which = (Stream.EVAL_RESET, evaluation, active)
        # the mean is judged as it is deployed, inside the bounds
        clip = self.how.exploration.clip or mode == "mean"
        return play_episodes(self.env, act, seeds, *which, episodes, clip)


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
