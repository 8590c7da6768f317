"""Off-policy PeNFAC: old actions corrected by truncated importance, and CAC's step together
with DPG's.

This is ours; the paper names both as future work (Sec. 7, D36). The correction is V-trace
(Espeholt et al. 2018) with a lambda.
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from penfac.core.returns import lambda_advantages

Number = Float[Array, ""] | float
TINY = 1e-12  # instead of 0: an action that today's policy never takes, a slope of 0


def truncated_importance(
    action: Float[Array, "*b m"],
    mean: Float[Array, "*b m"],
    sigma: Float[Array, " *#b"] | Number,
    mean_then: Float[Array, "*b m"],
    sigma_then: Float[Array, " *#b"] | Number,
) -> Float[Array, " *b"]:
    """rho = min(1, N(a; mu(s), sigma^2) / N(a; mu_then(s), sigma_then^2)): how far an old
    action counts as one of today's policy."""
    now = jnp.sum((action - mean) ** 2, axis=-1) / sigma**2
    then = jnp.sum((action - mean_then) ** 2, axis=-1) / sigma_then**2
    narrower = action.shape[-1] * jnp.log(sigma_then / sigma)
    return jnp.exp(jnp.minimum((then - now) / 2 + narrower, 0.0))


def corrected_advantages(
    delta: Float[Array, " N"],
    discount: Float[Array, " N"],
    last: Bool[Array, " N"],
    rho: Float[Array, " N"],
    lam: Number,
) -> Float[Array, " N"]:
    """A_t = rho_t (delta_t + gamma_t lam A_{t+1}): V-trace. V + A is what the critic is
    fitted to; with rho = 1 it is the lambda-return  (Sec. 3.3)."""
    return lambda_advantages(rho * delta, rho * discount, last, lam)


def of_the_action(
    corrected: Float[Array, " N"], delta: Float[Array, " N"], rho: Float[Array, " N"]
) -> Float[Array, " N"]:
    """delta_t + gamma_t lam A_{t+1}: whether a_t was good, however likely it is today."""
    return delta + (corrected - rho * delta) / jnp.maximum(rho, TINY)


def sized_as(
    slope: Float[Array, "N m"], pulled: Float[Array, "N m"], mask: Bool[Array, " N"]
) -> Float[Array, "N m"]:
    """DPG's slope grad_a Q(s, mu(s)), scaled to the root mean square of CAC's pull: only a
    share says which of the two leads."""
    rms = lambda x: jnp.sqrt(jnp.mean(x**2, where=mask[:, None]))  # noqa: E731
    scaled = slope * rms(pulled) / jnp.maximum(rms(slope), TINY)
    return jnp.where(mask[:, None], scaled, 0)


def along(mean: Float[Array, "N m"], step: Float[Array, "N m"]) -> Float[Array, ""]:
    """-sum_s step(s) . mu(s): its gradient in theta is -sum step grad mu, the one of Eq. 3
    if the step is grad_a Q(s, mu(s))."""
    return -jnp.sum(jax.lax.stop_gradient(step) * mean)
