"""One step of [L, W] worlds in JAX: learners and worlds have an axis each.

Every world has random keys of its own, so no learner can influence another.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.core.noise import Exploration, anywhere, explore
from penfac.envs.base import JaxEnv
from penfac.randomness import Stream
from penfac.types import Transitions

Mu = Callable[[Float[Array, "L W n"]], Float[Array, "L W m"]]
# (observations, keys, drift, time) -> actions in [-1, 1] and the drift after them
Act = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class Noise(NamedTuple):
    """How the learners explore during one batch."""

    how: Exploration
    # the width: [L], [L, m], or a function of the observations that gives [L, W, m]
    sigma: Float[Array, "L ..."] | Callable[[Array], Array]
    anywhere: Bool[Array, " L"]  # uniform actions at the start of a run

    def at(self, obs: Float[Array, "L W n"]) -> "Noise":
        """The noise with its width at these observations."""
        if callable(self.sigma):
            return self._replace(sigma=self.sigma(obs))
        return self


class Step(NamedTuple):
    """The result of one step of all worlds."""

    state: Any  # [L, W, ...] of the worlds, after the step
    drift: Float[Array, "L W m"]
    row: Transitions  # [L, W, ...]; `mask` is False where a world broke
    broken: Bool[Array, "L W"]


def stream_keys(seeds: Int[Array, " L"], stream: Stream, *counters: Array) -> Array:
    """Keys named by (seed, stream, counters); counters [L, W] give keys [L, W]."""

    def one(seed, *counters):
        key = jax.random.fold_in(jax.random.key(seed), int(stream))
        for counter in counters:
            key = jax.random.fold_in(key, counter)
        return key

    over_worlds = jax.vmap(one, in_axes=(None, *(0 for _ in counters)))
    return jax.vmap(over_worlds)(seeds, *counters)


def world_numbers(seeds: Array, count: int) -> Int[Array, "L W"]:
    return jnp.broadcast_to(jnp.arange(count), (len(seeds), count))


def of_all(f: Callable) -> Callable:
    """f of one world, applied to [L, W] of them along one joint axis: two nested axes
    take half as long again to trace."""

    def apply(*args):
        L, W = jax.tree.leaves(args)[0].shape[:2]
        flat = jax.tree.map(lambda x: x.reshape(L * W, *x.shape[2:]), args)
        out = jax.vmap(f)(*flat)
        return jax.tree.map(lambda x: x.reshape(L, W, *x.shape[1:]), out)

    return apply


def fold_time(keys: Array, t: Array) -> Array:
    """A fresh key for step t of every world, t a scalar or [L, W]."""
    t = jnp.broadcast_to(t, keys.shape)
    return of_all(jax.random.fold_in)(keys, t)


def to_units(
    env: JaxEnv, action: Float[Array, "*b m"], clip: bool = True
) -> Float[Array, "*b m"]:
    """From [-1, 1] to the environment's own units."""
    low, high = jnp.asarray(env.spec.action_low), jnp.asarray(env.spec.action_high)
    if not clip:
        return (low * (1 - action) + high * (1 + action)) / 2
    a = jnp.clip(action, -1, 1)
    return jnp.clip((low * (1 - a) + high * (1 + a)) / 2, low, high)


def exploring(mu: Mu, noise: Noise) -> Act:
    """Actions that explore around mu."""

    def act(obs, keys, drift, t):
        return add_noise(mu(obs), noise.at(obs), keys, drift)

    return act


def add_noise(mu: Float[Array, "L W m"], noise: Noise, keys, drift):
    """Explored actions around mu, and the drift of correlated noise after them."""
    shape = mu.shape[-1:]
    # an exact 0, one draw in 2^23, would be a sample infinitely far away
    draw = lambda key: jax.random.uniform(key, shape, minval=2.0**-24)  # noqa: E731
    uniform = of_all(draw)(keys)
    one = lambda mu, sigma, u, drift: explore(noise.how, mu, sigma, u, drift)  # noqa: E731
    action, drift = jax.vmap(one)(mu, noise.sigma, uniform, drift)
    return jnp.where(noise.anywhere[:, None, None], anywhere(uniform), action), drift


def mean_of_samples(
    mu: Float[Array, "L W m"],
    noise: Noise,
    samples: int,
    name: tuple[Array, Array, Array, Array],
) -> Float[Array, "L W m"]:
    """The mean of some samples around mu; `name` is (seeds, evaluation, world, step)."""
    seeds, *counters = name
    keys = stream_keys(seeds, Stream.EVAL_NOISE, *counters)
    still = jnp.zeros_like(mu)
    one = lambda k: add_noise(mu, noise, fold_time(keys, k), still)[0]  # noqa: E731
    return jnp.mean(jax.vmap(one)(samples * 100 + jnp.arange(samples)), axis=0)


def step_worlds(env: JaxEnv, act: Act, worlds: Any, keys: Array, clip: bool) -> Step:
    """Act once in every world; `worlds` has a state, a time and a drift, and `keys` name
    the episode of each."""
    obs = of_all(env.observe)(worlds.state)
    now = of_all(jax.random.split)(fold_time(keys, worlds.t))
    action, drift = act(obs, now[..., 0], worlds.drift, worlds.t)
    units = to_units(env, action, clip)
    outcome = of_all(env.step)(worlds.state, units, now[..., 1])
    terminated = outcome.terminated
    truncated = ~terminated & (worlds.t + 1 == env.spec.horizon)
    broken = jnp.broadcast_to(outcome.broken, terminated.shape)
    row = Transitions(
        mask=~broken,
        obs=obs,
        next_obs=of_all(env.observe)(outcome.state),
        action=action,
        reward=outcome.reward,
        terminated=terminated,
        truncated=truncated,
        last=terminated | truncated,
    )
    return Step(outcome.state, drift, row, broken)


def expand_like(flags: Bool[Array, "L W"], x: Array) -> Array:
    """[L, W] with as many trailing axes as x."""
    return flags.reshape(flags.shape + (1,) * (x.ndim - flags.ndim))


def zero_padding(rows: Transitions) -> Transitions:
    """Steps that were not played become zeros: padding must be finite and change nothing."""
    return jax.tree.map(
        lambda x: jnp.where(expand_like(rows.mask, x), x, 0).astype(x.dtype), rows
    )
