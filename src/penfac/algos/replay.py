"""A replay as a ring of transitions in the learner's state, sampled inside the
program."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.core.returns import discounts
from penfac.types import Transitions

SAME = 1e-4  # two computations of one observation differ by less


class ReplayRows(NamedTuple):
    """[C, ...] one row a step."""

    obs: Float[Array, "C n"]
    next_obs: Float[Array, "C n"]
    action: Float[Array, "C m"]
    reward: Float[Array, " C"]
    terminated: Bool[Array, " C"]
    truncated: Bool[Array, " C"]
    follows: Bool[Array, " C"]  # the next row of the ring is the next step


class Replay(NamedTuple):
    """The newest C of `total` steps; step k is in row k modulo C.

    `end` and `ended` repeat the newest row: reading it from the ring before it is
    overwritten would copy the ring.
    """

    rows: ReplayRows
    total: Int[Array, ""]
    end: Float[Array, " n"]  # the state after the newest step
    ended: Bool[Array, ""]  # ... and whether its episode ended there


class Windows(NamedTuple):
    """Sampled steps, with the rewards and discounts of the next n steps."""

    obs: Float[Array, "B n"]
    action: Float[Array, "B m"]
    reward: Float[Array, "B w"]
    discount: Float[Array, "B w"]
    follows: Bool[Array, "B w"]
    at: Int[Array, " B"]  # which rows


def replay_init(capacity: int, obs_dim: int, action_dim: int) -> Replay:
    def flags():  # separate buffers, because they are overwritten in place
        return jnp.zeros(capacity, bool)

    rows = ReplayRows(
        jnp.zeros((capacity, obs_dim)), jnp.zeros((capacity, obs_dim)),
        jnp.zeros((capacity, action_dim)), jnp.zeros(capacity), flags(), flags(), flags(),
    )  # fmt: skip
    return Replay(rows, jnp.int32(0), jnp.zeros(obs_dim), jnp.bool_(True))


def append(replay: Replay, batch: Transitions, one_world: bool) -> Replay:
    """Store the real steps of a batch in place of the oldest.

    Inside a batch `last` ends a row of steps. With one world the next batch continues
    the row, unless its first state differs.
    """
    rows, total, end, ended = replay
    capacity, steps = len(rows.reward), jnp.sum(batch.mask, dtype=jnp.int32)
    number = jnp.cumsum(batch.mask) - 1
    # if the batch is longer than the ring, store its newest steps only
    stays = batch.mask & (number >= steps - capacity)
    place = jnp.where(stays, (total + number) % capacity, capacity)
    first = batch.obs[jnp.argmax(batch.mask)]
    near = jnp.all(jnp.abs(end - first) <= SAME * (1 + jnp.abs(first)))
    joined = near & ~ended & one_world & (steps > 0)
    new = ReplayRows(
        batch.obs, batch.next_obs, batch.action, batch.reward, batch.terminated,
        batch.truncated, ~batch.last,
    )  # fmt: skip
    newest = (total - 1) % capacity
    rows = rows._replace(follows=rows.follows.at[newest].set(joined))
    rows = jax.tree.map(lambda old, x: old.at[place].set(x, mode="drop"), rows, new)
    last = len(batch.mask) - 1 - jnp.argmax(batch.mask[::-1])
    over = batch.terminated[last] | batch.truncated[last]
    return Replay(
        rows,
        total + steps,
        jnp.where(steps > 0, batch.next_obs[last], end),
        jnp.where(steps > 0, over, ended),
    )


def sample(
    replay: Replay,
    key: PRNGKeyArray,
    size: int,
    window: int,
    gamma: Float[Array, ""],
    bootstrap: Float[Array, ""],
) -> Windows:
    """Draw steps uniformly with replacement, with the steps that follow."""
    rows, capacity = replay.rows, len(replay.rows.reward)
    filled = jnp.clip(replay.total, 1, capacity)
    index = jax.random.randint(key, (size,), 0, filled)
    ahead = (index[:, None] + jnp.arange(window)) % capacity
    discount = discounts(
        rows.terminated[ahead], rows.truncated[ahead], gamma, bootstrap
    )
    return Windows(
        rows.obs[index], rows.action[index], rows.reward[ahead], discount,
        rows.follows[ahead], index,
    )  # fmt: skip


def state_behind(
    replay: Replay, windows: Windows, last: Int[Array, " B"]
) -> Float[Array, "B n"]:
    """The state after the last step of each window."""
    return replay.rows.next_obs[(windows.at + last) % len(replay.rows.reward)]
