"""Proximal policy optimisation on a Gaussian policy: what it maximises, what it reports.

The paper's strongest baseline (Table 3); the ratio of likelihoods is what a
deterministic policy has not got, and what PeNFAC's distance replaces.
"""

import math

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

Rows = Float[Array, " N"]


def log_likelihood(
    action: Float[Array, "*b m"],
    mean: Float[Array, "*b m"],
    sigma: Float[Array, "*#b m"],
) -> Float[Array, " *b"]:
    """log N(a; mu(s), sigma^2), the dimensions independent."""
    z = (action - mean) / sigma
    return jnp.sum(-0.5 * z**2 - jnp.log(sigma) - 0.5 * math.log(2 * math.pi), axis=-1)


def entropy(sigma: Float[Array, " m"]) -> Float[Array, ""]:
    """Of the Gaussian policy, the same in every state."""
    return jnp.sum(0.5 + 0.5 * math.log(2 * math.pi) + jnp.log(sigma))


def clipped_surrogate(
    ratio: Rows,
    advantage: Rows,
    clip: Float[Array, ""] | float,
    mask: Bool[Array, " N"],
) -> Float[Array, ""]:
    """Mean of min(r A, clip(r, 1 - c, 1 + c) A), to be maximised."""
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    return masked_mean(jnp.minimum(ratio * advantage, clipped * advantage), mask)


def clip_fraction(
    ratio: Rows, clip: Float[Array, ""] | float, mask: Bool[Array, " N"]
) -> Float[Array, ""]:
    """How many actions left the range."""
    return masked_mean((jnp.abs(ratio - 1) > clip).astype(jnp.float32), mask)


def approximate_kl(log_ratio: Rows, mask: Bool[Array, " N"]) -> Float[Array, ""]:
    """E[(r - 1) - log r]: of the old policy from the new, never negative."""
    return masked_mean(jnp.exp(log_ratio) - 1 - log_ratio, mask)


def clipped_value_loss(
    v: Rows,
    v_old: Rows,
    target: Rows,
    clip: Float[Array, ""] | float,
    mask: Bool[Array, " N"],
) -> Float[Array, ""]:
    """Half the mean of the worse of two squared errors, V and V kept near V_old."""
    near = v_old + jnp.clip(v - v_old, -clip, clip)
    worse = jnp.maximum((v - target) ** 2, (near - target) ** 2)
    return 0.5 * masked_mean(worse, mask)


def standardised(advantage: Rows, mask: Bool[Array, " N"]) -> Rows:
    """(A - mean) / std over a minibatch. This moves the sign of A, which PeNFAC never
    does (deviation D12); PPO's weights survive it."""
    mean = masked_mean(advantage, mask)
    count = jnp.maximum(jnp.sum(mask), 2)
    variance = jnp.sum(jnp.where(mask, (advantage - mean) ** 2, 0)) / (count - 1)
    return (advantage - mean) / (jnp.sqrt(variance) + 1e-8)


def adapt_step_size(
    factor: Float[Array, ""], kl: Float[Array, ""], target: Float[Array, ""] | float
) -> Float[Array, ""]:
    """Of Adam: smaller after a policy moved twice as far as meant, larger after half.

    The component the paper's authors suspect on Humanoid (Sec. 6.1).
    """
    changed = jnp.where(kl > 2 * target, factor / 1.5, factor)
    changed = jnp.where(kl < target / 2, changed * 1.5, changed)
    return jnp.clip(changed, 1e-2, 1e2)


def masked_mean(x: Rows, mask: Bool[Array, " N"]) -> Float[Array, ""]:
    """Over the steps really played; 0 where there are none."""
    count = jnp.maximum(jnp.sum(mask), 1)
    return jnp.sum(jnp.where(mask, x, 0)) / count
