"""What all algorithms do with a batch: discounts, scaled rewards, minibatches."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.numbers import Numbers
from penfac.core.normalise import Running, running_moments, running_update
from penfac.core.returns import discounts, lambda_returns
from penfac.types import Transitions

PerStep = Float[Array, " N"]
LARGEST_REWARD = 10.0  # in standard deviations of the return


def discounts_of(batch: Transitions, numbers: Numbers) -> PerStep:
    """Return the discount of each step: gamma, or 0 where the future does not count."""
    bootstrap = jnp.float32(numbers.time_limit.bootstrap)
    return discounts(batch.terminated, batch.truncated, numbers.gamma, bootstrap)


# --- rewards in standard deviations of the return -------------------------------------


def reward_scale(returned: Running, numbers: Numbers) -> Float[Array, ""]:
    """The standard deviation of returns so far; 1 if returns are not normalised."""
    deviation = running_moments(returned)[1][0]
    return jnp.where(numbers.normalise_returns, deviation, 1.0)


def returns_seen(
    returned: Running, batch: Transitions, v: PerStep, v_next: PerStep, numbers: Numbers
) -> Running:
    """Add the returns of a batch, in the environment's units, to the statistics.

    This comes before their use, so that the first batch is scaled too.
    """
    scale = reward_scale(returned, numbers)
    discount = discounts_of(batch, numbers)
    paid = (batch.reward, discount, batch.last, scale * v, scale * v_next)
    returns = jnp.where(batch.mask, lambda_returns(*paid, 1.0), 0)
    return running_update(returned, returns[:, None], batch.mask)


def scaled_rewards(returned: Running, batch: Transitions, numbers: Numbers) -> PerStep:
    """Rewards divided by the standard deviation of returns, clipped at 10."""
    scaled = batch.reward / reward_scale(returned, numbers)
    scaled = jnp.clip(scaled, -LARGEST_REWARD, LARGEST_REWARD)
    return jnp.where(numbers.normalise_returns, scaled, batch.reward)


# --- minibatches ----------------------------------------------------------------------


def dealt(
    key: PRNGKeyArray, mask: Bool[Array, " N"], minibatches: int
) -> Int[Array, "K B"]:
    """Deal the rows of a batch to minibatches in random order.

    Real steps go first, so the numbers of real steps in two minibatches differ by at
    most one. N is a multiple of K: see `padded`.
    """
    draws = jax.random.uniform(key, mask.shape, jnp.float32)
    return ranked(jnp.where(mask, draws, draws + 1.0)).reshape(-1, minibatches).T


def ranked(draws: PerStep) -> Int[Array, " N"]:
    """Return the order of numbers >= 0, equal ones as they stand.

    Each number and its place make one integer of 64 bits: a CPU sorts those ten times as
    fast as `argsort` does, which compares by a function and carries the places along.
    """
    place = jax.lax.iota(jnp.int32, len(draws))
    number = jax.lax.bitcast_convert_type(draws, jnp.int32)  # in the same order
    with jax.enable_x64(True):
        pairs = jnp.stack([place, number], axis=-1)  # the low half first
        joined = jax.lax.bitcast_convert_type(pairs, jnp.int64)
        return jax.lax.sort(joined, is_stable=False).astype(jnp.int32)


def padded(rows: Any, minibatches: int) -> Any:
    """Add zero rows, which are no steps, up to a multiple of the number of
    minibatches."""
    missing = -len(jax.tree.leaves(rows)[0]) % minibatches
    return jax.tree.map(
        lambda x: jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)), rows
    )


def passed(step, carry, rows, mask, key: PRNGKeyArray, minibatches: int):
    """Pass over a batch once: `step(carry, rows)` for each of its minibatches."""
    if minibatches == 1:
        return step(carry, rows)
    rows = padded(rows, minibatches)
    parts = dealt(key, padded(mask, minibatches), minibatches)
    # all at once: to gather the rows of every step by itself takes a tenth of an update
    shuffled = jax.tree.map(lambda x: x[parts], rows)
    return jax.lax.scan(lambda c, x: (step(c, x), None), carry, shuffled)[0]
