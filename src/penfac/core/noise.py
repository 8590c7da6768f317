"""Exploration around mu(s)  (Eq. 5).

Each law maps uniform numbers to actions, so the same line serves JAX keys on a device
and counted numpy streams on the host: `special` is jax.scipy.special or scipy.special.
"""

from types import ModuleType
from typing import Any

import jax.scipy.special
from jaxtyping import Float, Shaped

Actions = Shaped[Any, " *b"]


def truncated_gaussian(
    mu: Actions,
    sigma: Float[Any, ""] | float,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """N(mu, sigma^2) conditioned on [-1, 1], by inverting its distribution function.

    mu is first limited to 3 sigma beyond the bounds, as the authors do: a linear actor
    may sit far outside, where the law has no mass to invert.
    """
    mu = mu.clip(-1 - 3 * sigma, 1 + 3 * sigma)
    low, high = special.ndtr((-1 - mu) / sigma), special.ndtr((1 - mu) / sigma)
    action = mu + sigma * special.ndtri(low + uniform * (high - low))
    return action.clip(-1, 1)


def clipped_gaussian(
    mu: Actions,
    sigma: Float[Any, ""] | float,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """N(mu, sigma^2), samples beyond the bounds moved onto them."""
    return (mu + sigma * special.ndtri(uniform)).clip(-1, 1)


EXPLORATION_LAWS = {"truncated": truncated_gaussian, "clipped": clipped_gaussian}


def annealed(
    start: float, end: float, progress: Float[Any, ""] | float
) -> Float[Any, ""] | float:
    """sigma on a straight line from `start` to `end` as progress goes from 0 to 1."""
    return start + (end - start) * progress
