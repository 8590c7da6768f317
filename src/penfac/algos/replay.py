"""A ring of transitions that a learner carries with it, sampled inside the program."""

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
    """The newest C of `total` steps; step k lies in row k modulo C.

    `end` and `ended` repeat the newest row: reading it from a ring that is about to be
    overwritten would cost a copy of the ring.
    """

    rows: ReplayRows
    total: Int[Array, ""]
    end: Float[Array, " n"]  # the state after the newest step
    ended: Bool[Array, ""]  # ... and whether its episode ended there


class Windows(NamedTuple):
    """Sampled steps, each with the rewards and discounts of the n from it on."""

    obs: Float[Array, "B n"]
    action: Float[Array, "B m"]
    reward: Float[Array, "B w"]
    discount: Float[Array, "B w"]
    follows: Bool[Array, "B w"]
    at: Int[Array, " B"]  # which rows


def replay_init(capacity: int, obs_dim: int, action_dim: int) -> Replay:
    def flags():  # each its own buffer: they are overwritten in place
        return jnp.zeros(capacity, bool)

    rows = ReplayRows(
        jnp.zeros((capacity, obs_dim)), jnp.zeros((capacity, obs_dim)),
        jnp.zeros((capacity, action_dim)), jnp.zeros(capacity), flags(), flags(), flags(),
    )  # fmt: skip
    return Replay(rows, jnp.int32(0), jnp.zeros(obs_dim), jnp.bool_(True))


def append(replay: Replay, batch: Transitions, one_world: bool) -> Replay:
    """Store the real steps of a batch, over the oldest ones.

    Inside a batch `last` says where a row of steps ends. With one world the next batch
    goes on where this one stopped, unless its first state says otherwise.
    """
    rows, total, end, ended = replay
    capacity, steps = len(rows.reward), jnp.sum(batch.mask, dtype=jnp.int32)
    number = jnp.cumsum(batch.mask) - 1
    # of a batch longer than the ring the newest steps stay; the others go nowhere
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
    """Steps drawn uniformly with replacement, and what followed them."""
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
