"""What the critic minimises."""

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float


def value_loss(
    v: Float[Array, " N"], target: Float[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """Half the mean squared error to fixed targets, over the steps really played."""
    return 0.5 * jnp.mean((v - target) ** 2, where=mask)


def explained_variance(
    v: Float[Array, " N"], target: Float[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """1 - Var(G - V) / Var(G): 1 for a perfect critic, 0 for a constant one."""
    variance = jnp.var(target, where=mask)
    residual = jnp.var(target - v, where=mask)
    return jnp.where(
        variance > 0, 1 - residual / jnp.where(variance > 0, variance, 1), 0
    )
