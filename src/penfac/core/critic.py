"""What a critic minimises, and what it is fitted to."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float


def value_loss(
    v: Float[Array, " N"], target: Float[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """Half the mean squared error to fixed targets, over the steps really played."""
    played = jnp.maximum(jnp.sum(mask), 1).astype(v.dtype)  # a minibatch may have none
    return 0.5 * jnp.sum((v - target) ** 2, where=mask) / played


def explained_variance(
    v: Float[Array, " N"], target: Float[Array, " N"], mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """1 - Var(G - V) / Var(G): 1 for a perfect critic, 0 for a constant one."""
    variance = jnp.var(target, where=mask)
    residual = jnp.var(target - v, where=mask)
    return jnp.where(
        variance > 0, 1 - residual / jnp.where(variance > 0, variance, 1), 0
    )


def q_target(
    reward: Float[Array, " N"],
    discount: Float[Array, " N"],
    q_next: Float[Array, "K N"],
) -> Float[Array, " N"]:
    """R + gamma min_k Q_k(s', mu(s')): the least of the critics, DDPG having one."""
    return reward + discount * jnp.min(q_next, axis=0)


def q_loss(q: Float[Array, "K N"], target: Float[Array, " N"]) -> Float[Array, ""]:
    """Half the mean squared error to a fixed target, summed over the critics."""
    return 0.5 * jnp.sum(jnp.mean((q - target) ** 2, axis=1))


def soft_update(target: Any, source: Any, tau: Float[Array, ""] | float) -> Any:
    """Target networks a fraction tau of the way to the learned ones."""
    return jax.tree.map(lambda t, s: t + tau * (s - t), target, source)


def compatible_q(
    direction: Float[Array, " m"],
    action: Float[Array, " m"],
    mean: Float[Array, " m"],
    v: Float[Array, ""],
) -> Float[Array, ""]:
    """Q(s, a) = (a - mu(s)) . d + V(s), d = grad_theta mu(s) w: whose gradient in a is
    d everywhere, so that Eq. 3 follows it exactly  (compatible features)."""
    return jnp.dot(action - mean, direction) + v
