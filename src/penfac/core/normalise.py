"""Observation statistics with nothing hidden: the state goes in and comes out.

Two kinds. `Running` remembers every state ever trained on (the authors' later choice).
`BatchStats` is the first-layer batch norm of Table 2, which normalises the observation
too: "first layer" means before the first weights (authors' code, batch_norm_actor = 7).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

SMALLEST_VARIANCE = 1e-6  # a constant component is passed through, not divided by 0
BATCH_NORM_EPS = 1e-5
BATCH_NORM_RETENTION = 0.999


class Running(NamedTuple):
    """Mean and variance of all states seen, merged batch by batch (Chan et al.)."""

    seen: Float[Array, ""]  # how many states
    mean: Float[Array, " n"]
    m2: Float[Array, " n"]  # sum of squared deviations from the mean


def running_init(n: int) -> Running:
    return Running(jnp.zeros(()), jnp.zeros(n), jnp.zeros(n))


def running_update(
    stats: Running, x: Float[Array, "N n"], mask: Bool[Array, " N"]
) -> Running:
    """Merge a batch; sums run over deviations, so a large mean costs no digits."""
    rows = mask[:, None]
    n = jnp.sum(mask).astype(x.dtype)
    first = x[jnp.argmax(mask)]
    origin = jnp.where(stats.seen > 0, stats.mean, first)
    offset = jnp.mean(x - origin, axis=0, where=rows)  # batch mean, seen from origin
    m2 = jnp.sum((x - origin - offset) ** 2, axis=0, where=rows)
    total = stats.seen + n
    return Running(
        seen=total,
        mean=origin + offset * (n / total),
        m2=stats.m2 + m2 + offset**2 * (stats.seen * n / total),
    )


def running_moments(
    stats: Running,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(mean, std) to normalise with; (0, 1) before anything was seen."""
    variance = stats.m2 / jnp.maximum(stats.seen, 1)
    usable = variance >= SMALLEST_VARIANCE
    return stats.mean, jnp.where(usable, jnp.sqrt(jnp.where(usable, variance, 1)), 1)


class BatchStats(NamedTuple):
    """Decayed sums of batch norm, each batch weighted by its size."""

    weight: Float[Array, ""]
    mean_sum: Float[Array, " n"]
    variance_sum: Float[Array, " n"]


def batch_stats_init(n: int) -> BatchStats:
    return BatchStats(jnp.zeros(()), jnp.zeros(n), jnp.zeros(n))


def batch_moments(
    x: Float[Array, "N n"], mask: Bool[Array, " N"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(mean, variance) of the steps really played, the variance over N."""
    rows = mask[:, None]
    return jnp.mean(x, axis=0, where=rows), jnp.var(x, axis=0, where=rows)


def batch_stats_update(
    stats: BatchStats, x: Float[Array, "N n"], mask: Bool[Array, " N"]
) -> BatchStats:
    """One training pass: decay the sums, add this batch with weight N."""
    mean, variance = batch_moments(x, mask)
    n = jnp.sum(mask).astype(x.dtype)
    unbiased = variance * n / jnp.maximum(n - 1, 1)
    keep = BATCH_NORM_RETENTION
    return BatchStats(
        weight=keep * stats.weight + n,
        mean_sum=keep * stats.mean_sum + n * mean,
        variance_sum=keep * stats.variance_sum + n * unbiased,
    )


def batch_stats_moments(
    stats: BatchStats,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """(mean, variance) so far; (0, 0) before the first pass, as in the authors' code."""
    weight = jnp.where(stats.weight > 0, stats.weight, 1.0)
    return stats.mean_sum / weight, stats.variance_sum / weight


def normalise(
    x: Float[Array, "*b n"],
    mean: Float[Array, " n"],
    std: Float[Array, " n"],
    clip: Float[Array, ""] | float,
) -> Float[Array, "*b n"]:
    """(x - mean) / std, kept within +-clip."""
    return jnp.clip((x - mean) / std, -clip, clip)
