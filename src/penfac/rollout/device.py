"""Collecting and evaluating inside a compiled program, in environments that are JAX functions.

No loop over time is vmapped: one scalar condition stops a loop when no world of any
learner goes on. Running worlds play a fixed number of steps, which needs no condition.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.envs.base import JaxEnv
from penfac.randomness import Stream
from penfac.rollout.device_step import (
    Act,
    Mu,
    Noise,
    Step,
    expand_like,
    exploring,
    of_all,
    step_worlds,
    stream_keys,
    world_numbers,
    zero_padding,
)
from penfac.types import Transitions


class DeviceWorlds(NamedTuple):
    """Worlds in mid-episode: part of a checkpoint when collecting steps."""

    state: Any  # [L, W, ...]
    episode: Int[Array, "L W"]  # how many episodes this world has begun
    t: Int[Array, "L W"]
    returned: Float[Array, "L W"]
    drift: Float[Array, "L W m"]  # of temporally correlated noise


class Finished(NamedTuple):
    """Episodes by the step and world where they ended."""

    ended: Bool[Array, "L W T"]
    returned: Float[Array, "L W T"]
    length: Int[Array, "L W T"]
    broken: Bool[Array, "L W T"]  # the world broke: the episode is no data


# --- whole episodes ----------------------------------------------------------------------


class Episodes(NamedTuple):
    """Worlds that play one episode each, all at the same time step."""

    state: Any  # [L, W, ...]
    t: Int[Array, ""]
    alive: Bool[Array, "L W"]
    drift: Float[Array, "L W m"]


def play_to_the_end(
    env: JaxEnv,
    act: Act,
    start: Any,
    keys: Array,
    active: Bool[Array, " L"],
    clip: bool,
    records: Any,
    record: Callable[[Any, Episodes, Step], Any],
) -> Any:
    """Play one episode in every world of the active learners, and return what
    `record(records, episodes, step)` made of the steps."""

    def goes_on(carry):
        episodes, _ = carry
        return (episodes.t < env.spec.horizon) & jnp.any(episodes.alive)

    def step(carry):
        episodes, records = carry
        now = step_worlds(env, act, episodes, keys, clip)
        alive = episodes.alive & ~now.row.terminated & ~now.broken
        after = Episodes(now.state, episodes.t + 1, alive, now.drift)
        return after, record(records, episodes, now)

    alive = jnp.broadcast_to(active[:, None], keys.shape)
    drift = jnp.zeros((*keys.shape, env.spec.action_dim))
    episodes = Episodes(start, jnp.int32(0), alive, drift)
    return jax.lax.while_loop(goes_on, step, (episodes, records))[1]


def collect_episodes(
    env: JaxEnv,
    mu: Mu,
    noise: Noise,
    seeds: Int[Array, " L"],
    first: Int[Array, " L"],
    active: Bool[Array, " L"],
    episodes: int,
) -> tuple[Transitions, Finished]:
    """Whole episodes number first, first + 1, ... of every learner, as [L, W * T] steps.
    Inactive learners collect nothing."""
    number = first[:, None] + jnp.arange(episodes, dtype=first.dtype)[None, :]
    start = of_all(env.reset)(stream_keys(seeds, Stream.TRAIN_RESET, number))
    keys = stream_keys(seeds, Stream.NOISE, number)
    shape = env.spec.horizon, *number.shape
    n, m = env.spec.obs_dim, env.spec.action_dim
    flags, numbers = jnp.zeros(shape, bool), jnp.zeros(shape)
    buffers = Transitions(
        flags, jnp.zeros((*shape, n)), jnp.zeros((*shape, n)), jnp.zeros((*shape, m)),
        numbers, flags, flags, flags,
    ), flags  # fmt: skip

    def record(buffers, episodes, now):
        broken = episodes.alive & now.broken
        row = now.row._replace(mask=episodes.alive & ~broken)
        new = zero_padding(row), broken
        return jax.tree.map(lambda old, x: old.at[episodes.t].set(x), buffers, new)

    act, clip = exploring(mu, noise), noise.how.clip
    buffers = play_to_the_end(env, act, start, keys, active, clip, buffers, record)
    rows, broken = jax.tree.map(time_last, buffers)
    rows = cut_before_broken(rows, broken)
    total = jnp.sum(rows.reward, axis=-1, keepdims=True)
    length = jnp.sum(rows.mask, axis=-1, keepdims=True)
    finished = Finished(
        rows.mask & (rows.terminated | rows.truncated),
        jnp.broadcast_to(total, rows.last.shape),
        jnp.broadcast_to(length, rows.last.shape).astype(jnp.int32),
        broken,
    )
    return one_time_axis(rows), finished


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
    """Returns, lengths and terminations of whole episodes of the active learners; the
    return is NaN where the world broke. `act(obs, keys, t)` chooses the actions."""
    number = world_numbers(seeds, episodes)
    which = jnp.broadcast_to(evaluation[:, None], number.shape)
    keys = of_all(jax.random.split)(stream_keys(seeds, stream, which, number))
    start = of_all(env.reset)(keys[..., 0])

    def choose(obs, keys, drift, t):
        return act(obs, keys, t), drift

    def record(totals, episodes, now):
        returned, length, ended = totals
        reward = jnp.where(now.broken, jnp.nan, now.row.reward)
        return (
            returned + jnp.where(episodes.alive, reward, 0),
            length + episodes.alive,
            ended | (episodes.alive & now.row.terminated),
        )

    shape = number.shape
    totals = jnp.zeros(shape), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
    played = (env, choose, start, keys[..., 1], active, clip)
    return play_to_the_end(*played, totals, record)


# --- worlds that run across batches --------------------------------------------------------


def start_worlds(env: JaxEnv, seeds: Int[Array, " L"], count: int) -> DeviceWorlds:
    """Fresh worlds for collecting steps."""
    number = world_numbers(seeds, count)
    zero = jnp.zeros(number.shape, jnp.int32)
    state = of_all(env.reset)(stream_keys(seeds, Stream.TRAIN_RESET, number, zero))
    drift = jnp.zeros((*zero.shape, env.spec.action_dim))
    return DeviceWorlds(state, zero, zero, zero.astype(jnp.float32), drift)


def collect_steps(
    env: JaxEnv,
    mu: Mu,
    noise: Noise,
    seeds: Int[Array, " L"],
    worlds: DeviceWorlds,
    steps: int,
) -> tuple[DeviceWorlds, Transitions, Finished]:
    """`steps` steps of worlds that go on; an episode that ends is followed by another."""
    number, act = world_numbers(seeds, worlds.t.shape[1]), exploring(mu, noise)

    def step(worlds, _):
        keys = stream_keys(seeds, Stream.NOISE, number, worlds.episode)
        now = step_worlds(env, act, worlds, keys, noise.how.clip)
        returned, length = worlds.returned + now.row.reward, worlds.t + 1
        finished = Finished(now.row.last & ~now.broken, returned, length, now.broken)
        ended = now.row.last | now.broken
        again = stream_keys(seeds, Stream.TRAIN_RESET, number, worlds.episode + 1)
        fresh = of_all(env.reset)(again)
        worlds = DeviceWorlds(
            choose_rows(ended, fresh, now.state),
            worlds.episode + ended,
            jnp.where(ended, 0, length),
            jnp.where(ended, 0.0, returned),
            jnp.where(ended[..., None], 0.0, now.drift),
        )
        return worlds, (zero_padding(now.row), finished)

    worlds, played = jax.lax.scan(step, worlds, length=steps)
    rows, finished = jax.tree.map(time_last, played)
    rows = cut_before_broken(rows, finished.broken)
    rows = rows._replace(last=rows.last.at[:, :, -1].set(True))
    return worlds, one_time_axis(rows), finished


def choose_rows(which: Bool[Array, "L W"], new: Any, old: Any) -> Any:
    """The new states of some worlds, the old ones of the others."""
    return jax.tree.map(
        lambda new, old: jnp.where(expand_like(which, new), new, old), new, old
    )


# --- rows ----------------------------------------------------------------------------------


def time_last(x: Array) -> Array:
    """[T, L, W, ...] as [L, W, T, ...]."""
    return jnp.moveaxis(x, 0, 2)


def cut_before_broken(rows: Transitions, broken: Bool[Array, "L W T"]) -> Transitions:
    """The step before one that broke is the last of its row: no value may cross it."""
    before = jnp.roll(broken, -1, axis=2).at[:, :, -1].set(False)
    return rows._replace(last=rows.last | (before & rows.mask))


def one_time_axis(rows: Transitions) -> Transitions:
    """[L, W, T, ...] as [L, W * T, ...]: the worlds one after another."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]), rows)
