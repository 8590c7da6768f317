"""The programs of a device engine: collect and learn, or evaluate, [L] learners at once.

Pure functions of arrays with a leading axis of learners. Learners may differ in their
seed and in every number of their config; they share everything that shapes the program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import (
    Algorithm,
    Collecting,
    Numbers,
    Plan,
    State,
    plan_of_centre,
)
from penfac.engines.base import join_replay, moment, split_replay
from penfac.envs.base import JaxEnv
from penfac.machine import runs_on_accelerator
from penfac.randomness import Stream
from penfac.rollout.device import (
    DeviceWorlds,
    Finished,
    collect_episodes,
    collect_steps,
    play_episodes,
    start_worlds,
)
from penfac.rollout.device_step import Noise, mean_of_samples
from penfac.rollout.evaluate import MODES

# Products of matrices in full float32. The default of an accelerator, 10 bits of
# mantissa, is an error of 1e-3 in V: enough to turn the sign of a small advantage.
PRECISION = "highest"


class Learners(NamedTuple):
    """Everything that learning changes, [L, ...] each."""

    state: State
    worlds: Any  # DeviceWorlds; () where every update plays whole episodes


class Inputs(NamedTuple):
    """Everything in which learners of one program may differ, [L, ...] each."""

    seed: Int[Array, " L"]
    numbers: Numbers


class Clock(NamedTuple):
    """The counters of each learner, and whether it takes part in this call."""

    first: Int[Array, " L"]  # the number of its next episode
    update: Int[Array, " L"]
    step: Int[Array, " L"]
    progress: Float[Array, " L"]
    sigma: Float[Array, " L"]
    active: Bool[Array, " L"]


class TurnResult(NamedTuple):
    """The result of one turn of [L] learners."""

    metrics: Any
    steps: Int[Array, " L"]
    finished: Finished
    sigma: Float[Array, " L"]  # the mean width of exploration after the turn


class Programs(NamedTuple):
    """What shapes the programs; its methods are compiled."""

    algo: Algorithm
    plan: Plan
    how: Collecting
    env: JaxEnv

    def begin(self, inputs: Inputs) -> Learners:
        """Fresh learners, and their running worlds."""
        worlds: DeviceWorlds | tuple[()] = ()
        if self.how.episodes is None:
            worlds = start_worlds(self.env, inputs.seed, self.how.worlds)
        # On a CPU one after the other: two batches of matrices that jaxlib factors at once
        # (orthogonal weights of two nets) may wait for each other forever
        if runs_on_accelerator():
            return Learners(jax.vmap(self._init)(inputs), worlds)
        return Learners(jax.lax.map(self._init, inputs), worlds)

    def _init(self, inputs: Inputs) -> State:
        key = jax.random.fold_in(jax.random.key(inputs.seed), int(Stream.INIT))
        return self.algo.init(key, self.plan, inputs.numbers)

    @jax.default_matmul_precision(PRECISION)
    def advance(
        self, learners: Learners, inputs: Inputs, clock: Clock
    ) -> tuple[Learners, TurnResult]:
        """Collect and update, in some rounds; inactive learners keep every bit."""

        def play_round(learners, turn):
            return self._round(learners, inputs, clock, turn)

        if self.how.rounds == 1:
            new, (metrics, steps, finished) = play_round(learners, 0)
        else:
            new, results = jax.lax.scan(
                play_round, learners, jnp.arange(self.how.rounds)
            )
            metrics, steps, finished = join_rounds(*results)
        good = clock.active & metrics.finite
        state, rows = split_replay(new.state)
        kept = keep_new(good, state, split_replay(learners.state)[0])
        state = join_replay(kept, rows)
        worlds = keep_new(good, new.worlds, learners.worlds)
        sigma = self._mean_sigma(state, inputs, clock.sigma)
        return Learners(state, worlds), TurnResult(metrics, steps, finished, sigma)

    def _round(self, learners: Learners, inputs: Inputs, clock: Clock, turn: Any):
        """Collect and update once."""
        worlds, batch, finished = self._collect(learners, inputs, clock, turn)
        if hasattr(learners.state, "replay"):  # inactive learners store nothing
            batch = batch._replace(mask=batch.mask & clock.active[:, None])

        def learn(state, batch, inputs, clock):
            now = moment(inputs.seed, clock.update, turn, clock.progress, clock.sigma)
            return self.algo.update(state, batch, self.plan, inputs.numbers, now)

        state, metrics = jax.vmap(learn)(learners.state, batch, inputs, clock)
        steps = jnp.sum(batch.mask, axis=1)
        return Learners(state, worlds), (metrics, steps, finished)

    def _collect(self, learners: Learners, inputs: Inputs, clock: Clock, turn: Any):
        how, (state, worlds) = self.how, learners
        steps = clock.step + turn * (how.worlds * how.steps)
        noise = self._noise(state, inputs, clock.sigma, steps < how.random_steps)
        mu = self._mu(jax.vmap(self.algo.behaviour)(state), inputs, exploring=True)
        if how.episodes is None:
            return collect_steps(self.env, mu, noise, inputs.seed, worlds, how.steps)
        count = episodes_for(how, self.env)
        args = (self.env, mu, noise, inputs.seed, clock.first, clock.active, count)
        return ((), *collect_episodes(*args))

    def _sigma(
        self, state: State, inputs: Inputs, sigma: Array
    ) -> Callable[[Array], Array]:
        """The width of exploration by observations; `sigma` is that of the configs."""

        def one(state, obs, numbers, sigma):
            return self.algo.sigma(state, obs, sigma, self.plan, numbers)

        return lambda obs: jax.vmap(one)(state, obs, inputs.numbers, sigma)

    def _mean_sigma(self, state: State, inputs: Inputs, sigma: Array) -> Array:
        """For the report: the mean width over all dimensions, at an observation of zeros."""
        obs = jnp.zeros((len(sigma), 1, self.env.spec.obs_dim))
        width = self._sigma(state, inputs, sigma)(obs)
        return jnp.mean(width.reshape(len(sigma), -1), axis=1)

    def _noise(
        self, state: State, inputs: Inputs, sigma: Array, anywhere: Array
    ) -> Noise:
        learned = self.algo.learns_sigma
        width = self._sigma(state, inputs, sigma) if learned else sigma
        return Noise(self.how.exploration, width, anywhere)

    def _mu(
        self, state: State, inputs: Inputs, exploring: bool = False
    ) -> Callable[[Array], Array]:
        """mu by observations, or what the law of exploration is centred at."""
        plan = self.plan
        if exploring:
            plan = plan_of_centre(plan, self.how.exploration)

        def one(state, obs, numbers):
            return self.algo.mu(state, obs, plan, numbers)

        return lambda obs: jax.vmap(one)(state, obs, inputs.numbers)

    @jax.default_matmul_precision(PRECISION)
    def evaluate(
        self,
        state: State,
        inputs: Inputs,
        evaluation: Int[Array, " L"],
        drawn: Int[Array, " L"],
        sigma: Float[Array, " L"],
        active: Bool[Array, " L"],
        episodes: int,
        mode: str,
    ):
        """Episodes of each active learner; `evaluation` names the initial states, `drawn`
        the noise of a mode that samples."""
        seeds, sampled = inputs.seed, mode != "mean"
        mean = self._mu(state, inputs, exploring=sampled)
        never = jnp.zeros(len(seeds), bool)
        noise = self._noise(state, inputs, sigma, never)
        samples = MODES[mode] if sampled else 1

        def act(obs, _, t):
            if not sampled:
                return mean(obs)
            mu, number = mean(obs), jnp.broadcast_to(t, obs.shape[:2])
            which = jnp.broadcast_to(drawn[:, None], number.shape)
            world = jnp.broadcast_to(jnp.arange(number.shape[1]), number.shape)
            name = (seeds, which, world, number)
            return mean_of_samples(mu, noise.at(obs), samples, name)

        # the mean is clipped to the bounds, as when it is deployed
        clip = self.how.exploration.clip or not sampled
        where = (Stream.EVAL_RESET, evaluation, active)
        return play_episodes(self.env, act, seeds, *where, episodes, clip)


def episodes_for(how: Collecting, env: JaxEnv) -> int:
    """Episodes an update. The shape of a program is fixed, so the minimum of steps is met
    by counting full time limits."""
    return max(how.episodes or 0, -(-how.min_steps // env.spec.horizon))


def keep_new(good, new, old):
    """The new arrays of the learners that are good, the old ones of the others."""

    def choose(new, old):
        rows = good.reshape(good.shape + (1,) * (new.ndim - 1))
        return jnp.where(rows, new, old)

    return jax.tree.map(choose, new, old)


def join_rounds(metrics, steps, finished: Finished):
    """Means of metrics, and all episodes in the order they ended, over [R] rounds."""
    means = jax.tree.map(lambda x: jnp.mean(x.astype(jnp.float32), axis=0), metrics)
    means = means._replace(finite=jnp.all(metrics.finite, axis=0))
    joined = jax.tree.map(  # [R, L, W, T] as [L, W, R * T]
        lambda x: jnp.moveaxis(x, 0, 2).reshape(*x.shape[1:3], -1), finished
    )
    return means, jnp.sum(steps, axis=0), joined
