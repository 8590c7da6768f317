"""Built-in JAX environments inside the program: [L, W] learners and worlds, explicit.

No loop over time is ever vmapped: one scalar condition stops a collector when no world
of any learner goes on. Every world has keys of its own, so what one learner does cannot
reach another's.
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


class Worlds(NamedTuple):
    """Worlds in mid-episode: part of a checkpoint when collecting steps."""

    state: Any  # [L, W, ...]
    episode: Int[Array, "L W"]  # how many this world has begun
    t: Int[Array, "L W"]
    returned: Float[Array, "L W"]
    drift: Float[Array, "L W m"]  # where noise that remembers stands


class Noise(NamedTuple):
    """How the learners explore now."""

    how: Exploration
    sigma: Float[Array, "L ..."]  # a number, or one for each dimension of the action
    anywhere: Bool[Array, " L"]  # uniform actions, to begin with


class Finished(NamedTuple):
    """Episodes by the step and world where they ended."""

    ended: Bool[Array, "L W T"]
    returned: Float[Array, "L W T"]
    length: Int[Array, "L W T"]
    broken: Bool[Array, "L W T"]  # ... or broke, and are no data


def stream_keys(seeds: Int[Array, " L"], stream: Stream, *counters: Array) -> Array:
    """Keys named by (seed, stream, counters); counters [L, W] give keys [L, W]."""

    def one(seed, *counters):
        key = jax.random.fold_in(jax.random.key(seed), int(stream))
        for counter in counters:
            key = jax.random.fold_in(key, counter)
        return key

    over_worlds = jax.vmap(one, in_axes=(None, *(0 for _ in counters)))
    return jax.vmap(over_worlds)(seeds, *counters)


def to_units(
    env: JaxEnv, action: Float[Array, "*b m"], clip: bool = True
) -> Float[Array, "*b m"]:
    """From [-1, 1] to the environment's own units."""
    low, high = jnp.asarray(env.spec.action_low), jnp.asarray(env.spec.action_high)
    if not clip:
        return (low * (1 - action) + high * (1 + action)) / 2
    a = jnp.clip(action, -1, 1)
    return jnp.clip((low * (1 - a) + high * (1 + a)) / 2, low, high)


def each(f: Callable) -> Callable:
    """f of one world, for [L, W] of them: along one axis, since two take half as long
    again to trace."""

    def of_all(*args):
        L, W = jax.tree.leaves(args)[0].shape[:2]
        flat = jax.tree.map(lambda x: x.reshape(L * W, *x.shape[2:]), args)
        out = jax.vmap(f)(*flat)
        return jax.tree.map(lambda x: x.reshape(L, W, *x.shape[1:]), out)

    return of_all


def _advance(env: JaxEnv, state, action, keys, clip: bool = True):
    """One step of [L, W] worlds: the next states, observations, rewards, ends."""
    outcome = each(env.step)(state, to_units(env, action, clip), keys)
    return outcome, each(env.observe)(outcome.state)


def _explore(mu: Float[Array, "L W m"], noise: Noise, keys, drift):
    """The actions that are played, and where the noise stands then."""
    shape = mu.shape[-1:]
    # an exact 0, one draw in 2^23, would be a sample infinitely far away
    draw = lambda key: jax.random.uniform(key, shape, minval=2.0**-24)  # noqa: E731
    uniform = each(draw)(keys)
    one = lambda mu, sigma, u, drift: explore(noise.how, mu, sigma, u, drift)  # noqa: E731
    action, drift = jax.vmap(one)(mu, noise.sigma, uniform, drift)
    return jnp.where(noise.anywhere[:, None, None], anywhere(uniform), action), drift


def _fold(keys: Array, t: Array) -> Array:
    """A fresh key for step t of every world, t a scalar or [L, W]."""
    t = jnp.broadcast_to(t, keys.shape)
    return each(jax.random.fold_in)(keys, t)


def averaged(
    mu: Float[Array, "L W m"],
    noise: Noise,
    samples: int,
    name: tuple[Array, Array, Array, Array],
) -> Float[Array, "L W m"]:
    """The mean of so many samples around mu; `name` is (seeds, evaluation, world, step)."""
    seeds, *counters = name
    keys = stream_keys(seeds, Stream.EVAL_NOISE, *counters)
    still = jnp.zeros_like(mu)
    one = lambda k: _explore(mu, noise, _fold(keys, k), still)[0]  # noqa: E731
    return jnp.mean(jax.vmap(one)(samples * 100 + jnp.arange(samples)), axis=0)


def collect_episodes(
    env: JaxEnv,
    mu: Mu,
    noise: Noise,
    seeds: Int[Array, " L"],
    first: Int[Array, " L"],
    active: Bool[Array, " L"],
    episodes: int,
) -> tuple[Transitions, Finished]:
    """Whole episodes number first, first + 1, ... of every learner, as [L, W * T] steps;
    none of those that are not active, which nobody is to wait for."""
    horizon = env.spec.horizon
    number = first[:, None] + jnp.arange(episodes, dtype=first.dtype)[None, :]
    state = each(env.reset)(stream_keys(seeds, Stream.TRAIN_RESET, number))
    draws = stream_keys(seeds, Stream.NOISE, number)
    size, n, m = number.shape, env.spec.obs_dim, env.spec.action_dim

    def empty(*shape, dtype=jnp.float32):
        return jnp.zeros((horizon, *size, *shape), dtype)

    rows = Transitions(
        mask=empty(dtype=bool), obs=empty(n), next_obs=empty(n), action=empty(m),
        reward=empty(), terminated=empty(dtype=bool), truncated=empty(dtype=bool),
        last=empty(dtype=bool),
    ), empty(dtype=bool)  # fmt: skip

    def goes_on(carry):
        t, _, alive, *_ = carry
        return (t < horizon) & jnp.any(alive)

    def step(carry):
        t, state, alive, drift, rows = carry
        obs = each(env.observe)(state)
        keys = each(jax.random.split)(_fold(draws, t))
        action, drift = _explore(mu(obs), noise, keys[..., 0], drift)
        outcome, next_obs = _advance(env, state, action, keys[..., 1], noise.how.clip)
        terminated, broken = outcome.terminated, alive & outcome.broken
        truncated = ~terminated & (t + 1 == horizon)
        now = Transitions(
            alive & ~broken, obs, next_obs, action, outcome.reward, terminated, truncated,
            terminated | truncated,
        )  # fmt: skip
        now = _inert(now), broken
        rows = jax.tree.map(lambda buffer, x: buffer.at[t].set(x), rows, now)
        return t + 1, outcome.state, alive & ~terminated & ~broken, drift, rows

    drift = jnp.zeros((*size, m))
    alive = jnp.broadcast_to(active[:, None], size)
    start = (jnp.int32(0), state, alive, drift, rows)
    *_, rows = jax.lax.while_loop(goes_on, step, start)
    rows, broken = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 2), rows)  # [L, W, T, ...]
    rows = _cut(rows, broken)
    total = jnp.sum(rows.reward, axis=-1, keepdims=True)
    length = jnp.sum(rows.mask, axis=-1, keepdims=True)
    finished = Finished(
        rows.mask & (rows.terminated | rows.truncated),
        jnp.broadcast_to(total, rows.last.shape),
        jnp.broadcast_to(length, rows.last.shape).astype(jnp.int32),
        broken,
    )
    return _flat(rows), finished


def start_worlds(env: JaxEnv, seeds: Int[Array, " L"], count: int) -> Worlds:
    """Fresh worlds for collecting steps."""
    world, zero = (
        _world_numbers(seeds, count),
        jnp.zeros((len(seeds), count), jnp.int32),
    )
    keys = stream_keys(seeds, Stream.TRAIN_RESET, world, zero)
    drift = jnp.zeros((*zero.shape, env.spec.action_dim))
    state = each(env.reset)(keys)
    return Worlds(state, zero, zero, zero.astype(jnp.float32), drift)


def collect_steps(
    env: JaxEnv,
    mu: Mu,
    noise: Noise,
    seeds: Int[Array, " L"],
    worlds: Worlds,
    steps: int,
) -> tuple[Worlds, Transitions, Finished]:
    """`steps` steps of worlds that go on; an episode that ends begins another at once."""
    number = _world_numbers(seeds, worlds.t.shape[1])

    def step(worlds, _):
        draws = stream_keys(seeds, Stream.NOISE, number, worlds.episode)
        keys = each(jax.random.split)(_fold(draws, worlds.t))
        obs = each(env.observe)(worlds.state)
        action, drift = _explore(mu(obs), noise, keys[..., 0], worlds.drift)
        outcome, next_obs = _advance(
            env, worlds.state, action, keys[..., 1], noise.how.clip
        )
        terminated = outcome.terminated
        truncated = ~terminated & (worlds.t + 1 == env.spec.horizon)
        broken = jnp.broadcast_to(outcome.broken, terminated.shape)
        over = terminated | truncated
        returned, length = worlds.returned + outcome.reward, worlds.t + 1
        row = Transitions(
            ~broken, obs, next_obs, action, outcome.reward, terminated, truncated, over
        )
        ended = over | broken
        again = stream_keys(seeds, Stream.TRAIN_RESET, number, worlds.episode + 1)
        fresh = each(env.reset)(again)
        state = jax.tree.map(
            lambda new, old: jnp.where(_like(ended, new), new, old),
            fresh,
            outcome.state,
        )
        worlds = Worlds(
            state,
            worlds.episode + ended,
            jnp.where(ended, 0, length),
            jnp.where(ended, 0.0, returned),
            jnp.where(ended[..., None], 0.0, drift),
        )
        finished = Finished(over & ~broken, returned, length, broken)
        return worlds, (_inert(row), finished)

    worlds, (rows, finished) = jax.lax.scan(step, worlds, length=steps)
    rows, finished = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 2), (rows, finished))
    rows = _cut(rows, finished.broken)
    rows = rows._replace(last=rows.last.at[:, :, -1].set(True))
    return worlds, _flat(rows), finished


def play_episodes(
    env: JaxEnv,
    act: Callable[[Array, Array, Array], Array],
    seeds: Int[Array, " L"],
    stream: Stream,
    evaluation: Int[Array, " L"],
    active: Bool[Array, " L"],
    episodes: int,
    clip: bool = True,
) -> tuple[Float[Array, "L K"], Int[Array, "L K"], Bool[Array, "L K"]]:
    """Returns, lengths and terminations of whole episodes of those that are active; keeps
    no steps. The return of a world that broke is NaN.

    `act(obs, keys, t)` chooses; its keys are apart from those of the environment.
    """
    number = jnp.broadcast_to(jnp.arange(episodes), (len(seeds), episodes))
    which = jnp.broadcast_to(evaluation[:, None], number.shape)
    root = stream_keys(seeds, stream, which, number)
    pair = each(jax.random.split)(root)
    state = each(env.reset)(pair[..., 0])
    zero = jnp.zeros(number.shape)

    def goes_on(carry):
        t, _, alive, *_ = carry
        return (t < env.spec.horizon) & jnp.any(alive)

    def step(carry):
        t, state, alive, returned, length, ended = carry
        keys = each(jax.random.split)(_fold(pair[..., 1], t))
        obs = each(env.observe)(state)
        action = act(obs, keys[..., 0], t)
        outcome, _ = _advance(env, state, action, keys[..., 1], clip)
        paid = jnp.where(outcome.broken, jnp.nan, outcome.reward)
        returned = returned + jnp.where(alive, paid, 0)
        ended = ended | (alive & outcome.terminated)
        length = length + alive
        return (
            t + 1,
            outcome.state,
            alive & ~outcome.terminated,
            returned,
            length,
            ended,
        )

    alive = jnp.broadcast_to(active[:, None], number.shape)
    start = (
        jnp.int32(0), state, alive, zero, zero.astype(jnp.int32), zero.astype(bool),
    )  # fmt: skip
    _, _, _, returned, length, ended = jax.lax.while_loop(goes_on, step, start)
    return returned, length, ended


def _world_numbers(seeds: Array, count: int) -> Int[Array, "L W"]:
    return jnp.broadcast_to(jnp.arange(count), (len(seeds), count))


def _like(flags: Bool[Array, "L W"], x: Array) -> Array:
    """[L, W] with as many trailing axes as x."""
    return flags.reshape(flags.shape + (1,) * (x.ndim - flags.ndim))


def _inert(rows: Transitions) -> Transitions:
    """What was not really played becomes zeros: padding is inert and finite."""
    return jax.tree.map(
        lambda x: jnp.where(_like(rows.mask, x), x, 0).astype(x.dtype), rows
    )


def _cut(rows: Transitions, broken: Bool[Array, "L W T"]) -> Transitions:
    """The step before one that broke is the last of its row: nothing may leak across."""
    before = jnp.roll(broken, -1, axis=2).at[:, :, -1].set(False)
    return rows._replace(last=rows.last | (before & rows.mask))


def _flat(rows: Transitions) -> Transitions:
    """[L, W, T, ...] as [L, W * T, ...]: worlds one after another on one time axis."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]), rows)
