"""The trust region for deterministic policies  (Sec. 5.2)."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

Scalar = Float[Array, ""]


def action_distance(
    mu_old: Float[Array, "N m"], mu: Float[Array, "N m"], mask: Bool[Array, " N"]
) -> Scalar:
    """d_hat(mu, mu_old) over the gathered states: a root mean square  (deviation D3).

    As in the authors' code. A constant shift of every action by x has distance |x|
    for any number of states and dimensions.
    """
    return jnp.sqrt(jnp.mean((mu_old - mu) ** 2, where=mask[:, None]))


def printed_distance(
    mu_old: Float[Array, "N m"], mu: Float[Array, "N m"], mask: Bool[Array, " N"]
) -> Scalar:
    """d_hat as the paper prints it: a sum of norms over sqrt(m L)  (Sec. 5.2).

    It grows with sqrt(L), which ties d_target to the size of the batch.
    """
    # the norm of an exact zero is wanted here, its gradient never is
    norms = jnp.sqrt(jnp.sum((mu_old - mu) ** 2, axis=-1))
    states = jnp.sum(mask)
    return jnp.sum(norms, where=mask) / jnp.sqrt(mu.shape[-1] * states)


def annealed_by_half(
    start: Scalar | float, end: Scalar | float, progress: Scalar | float
) -> Scalar:
    """On a straight line from `start` to `end` in the first half of the run, then `end`
    (D35). An infinite end, no limit, holds from the start."""
    left = jnp.maximum(1 - 2 * progress, 0.0)
    return jnp.where(jnp.isinf(end), end, end + (start - end) * left)


def adapt_beta(
    beta: Scalar | float,
    distance: Scalar | float,
    d_target: Scalar | float,
    floor: Scalar | float = 0.0,
    ceiling: Scalar | float = jnp.inf,
    band: Scalar | float = 1.5,
    factor: Scalar | float = 2.0,
) -> Scalar:
    """Relax the penalty when mu moved too little, tighten it when too far  (Sec. 5.2)."""
    too_near = distance < d_target / band
    too_far = distance > d_target * band
    beta = jnp.where(too_near, beta / factor, jnp.where(too_far, beta * factor, beta))
    return jnp.clip(beta, floor, ceiling)


def on_target(
    distance: Scalar | float, d_target: Scalar | float, band: Scalar | float = 1.5
) -> Bool[Array, ""]:
    """Neither too near nor too far: where "else stop" would stop  (deviation D2)."""
    near, far = d_target / band, d_target * band
    return jnp.logical_and(distance >= near, distance <= far)
