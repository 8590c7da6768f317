"""The batches before this one, for an update that learns from them too  (Sec. 7, D36)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from penfac.algos.numbers import Plan
from penfac.core.offpolicy import corrected_advantages, truncated_importance
from penfac.core.returns import lambda_advantages
from penfac.types import Transitions


class Past(NamedTuple):
    """The newest steps before this batch, and the policies that played them."""

    steps: Transitions
    mean: Float[Array, "P m"]
    sigma: Float[Array, " P"]


class Reused(NamedTuple):
    """The rows an update learns from: the batch, then the past, newest first."""

    steps: Transitions
    mean: Float[Array, "N m"]  # mu(s) of the policy that is about to be improved
    rho: Float[Array, " N"] | None  # truncated importance; 1 in the batch itself
    past: Any  # what the next update finds


def past_init(plan: Plan) -> Any:
    """A past without real steps; nothing if an update learns from its own batch alone."""
    if plan.past == 0:
        return ()
    size, n, m = plan.past, plan.obs_dim, plan.action_dim

    def states():  # separate buffers: a program may overwrite them
        return jnp.zeros((size, n))

    def flags(value):
        return jnp.full(size, value)

    steps = Transitions(
        mask=flags(False), obs=states(), next_obs=states(), action=jnp.zeros((size, m)),
        reward=jnp.zeros(size), terminated=flags(False), truncated=flags(False),
        last=flags(True),
    )  # fmt: skip
    return Past(steps, jnp.zeros((size, m)), jnp.ones(size))


def reused(
    past: Any, batch: Transitions, mean_of: Callable[[Array], Array], sigma: Array
) -> Reused:
    """Put the past behind a batch; `mean_of(obs)` is mu before the update."""
    if not past:
        return Reused(batch, mean_of(batch.obs), None, past)
    join = lambda new, old: jnp.concatenate([new, old])  # noqa: E731
    steps = jax.tree.map(join, batch, past.steps)
    mean, size = mean_of(steps.obs), len(batch.reward)
    mean_then = join(mean[:size], past.mean)
    sigma_then = join(jnp.full(size, sigma), past.sigma)
    rho = truncated_importance(steps.action, mean, sigma, mean_then, sigma_then)
    kept = len(past.sigma)
    newest = jax.tree.map(lambda x: x[:kept], Past(steps, mean_then, sigma_then))
    return Reused(steps, mean, jnp.where(steps.mask, rho, 0), newest)


def backed_up(
    delta: Float[Array, " N"],
    discount: Float[Array, " N"],
    last: Bool[Array, " N"],
    lam: Array,
    rho: Float[Array, " N"] | None,
) -> Float[Array, " N"]:
    """lambda-advantages, of old steps as far as `rho` trusts them."""
    if rho is None:
        return lambda_advantages(delta, discount, last, lam)
    return corrected_advantages(delta, discount, last, rho, lam)
