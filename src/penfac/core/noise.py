"""Exploration around mu(s)  (Eq. 5).

Each law maps uniform numbers to actions, so the same line serves JAX keys on a device
and counted numpy streams on the host: `special` is jax.scipy.special or scipy.special.
"""

import math
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import Array
from jaxtyping import Float, PRNGKeyArray, Shaped

Actions = Shaped[Any, " *b"]
Sigma = Float[Any, "..."] | float  # one number, or one for each dimension


def truncated_gaussian(
    mu: Actions,
    sigma: Sigma,
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
    sigma: Sigma,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """N(mu, sigma^2), samples beyond the bounds moved onto them."""
    return (mu + sigma * special.ndtri(uniform)).clip(-1, 1)


def gaussian(
    mu: Actions,
    sigma: Sigma,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """N(mu, sigma^2) as it is: PPO learns from the sample, the environment clips it."""
    return mu + sigma * special.ndtri(uniform)


def squashed_gaussian(
    mu: Actions,
    sigma: Sigma,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """tanh of a sample of N(mu, sigma^2), where mu is not squashed yet  (SAC).

    tanh(x) = 2 / (1 + exp(-2x)) - 1, the logistic function that both modules have.
    """
    return 2 * special.expit(2 * gaussian(mu, sigma, uniform, special)) - 1


def nothing(
    mu: Actions,
    sigma: Sigma,
    uniform: Actions,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """mu itself: whoever plays it explores in another way."""
    return mu


EXPLORATION_LAWS = {
    "truncated": truncated_gaussian,
    "clipped": clipped_gaussian,
    "gaussian": gaussian,
    "squashed": squashed_gaussian,
    "none": nothing,
}


def ornstein_uhlenbeck(
    x: Actions,
    sigma: Sigma,
    uniform: Actions,
    theta: float,
    dt: float,
    special: ModuleType = jax.scipy.special,
) -> Actions:
    """x - theta dt x + sigma sqrt(dt) N(0, 1): noise that remembers  (Table 4)."""
    return x - theta * dt * x + sigma * dt**0.5 * special.ndtri(uniform)


def stationary_sigma(sigma: Any, theta: float, dt: float) -> Any:
    """How wide Ornstein-Uhlenbeck noise is in the long run: 0.0018 with the numbers of
    Table 4, (0.001, 0.15, 0.01)."""
    kept = 1 - theta * dt
    return sigma * dt**0.5 / (1 - kept**2) ** 0.5 if theta > 0 else math.inf


class Exploration(NamedTuple):
    """How actions depart from mu: a law, and what Ornstein-Uhlenbeck needs beside it."""

    law: str
    theta: float = 0.0
    dt: float = 1.0
    clip: bool = True  # what reaches the environment is inside its bounds  (D32)


def explore(
    how: Exploration,
    mu: Actions,
    sigma: Sigma,
    uniform: Actions,
    drift: Actions,
    special: ModuleType = jax.scipy.special,
) -> tuple[Actions, Actions]:
    """The action that is played, and where the noise stands now; `drift` is 0 at the
    start of an episode and stays 0 for a law that remembers nothing."""
    if how.law == "ou":
        drift = ornstein_uhlenbeck(drift, sigma, uniform, how.theta, how.dt, special)
        return (mu + drift).clip(-1, 1), drift
    return EXPLORATION_LAWS[how.law](mu, sigma, uniform, special), drift


def anywhere(uniform: Actions) -> Actions:
    """An action drawn from the whole box."""
    return 2 * uniform - 1


Number = Float[Any, ""] | float
PARAMETER_NOISE_FACTOR = 1.01


def perturbed(weights: Any, sigma: Float[Array, ""], key: PRNGKeyArray) -> Any:
    """Every weight moved by N(0, sigma^2): exploration in parameters  (Table 5)."""
    leaves, structure = jax.tree.flatten(weights)
    keys = jax.random.split(key, len(leaves))
    moved = [
        x + sigma * jax.random.normal(k, x.shape)
        for x, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


def adapt_parameter_noise(
    sigma: Float[Array, ""],
    distance: Float[Array, ""],
    target: Float[Array, ""] | float,
) -> Float[Array, ""]:
    """Narrower where the perturbed actor acts farther away than meant, else wider."""
    factor = PARAMETER_NOISE_FACTOR
    return jnp.where(distance > target, sigma / factor, sigma * factor)


def narrowed(sigma: Number, end: Number | None, progress: Number) -> Number:
    """Exploration on its way from sigma to `end` over the run; it never widens."""
    return annealed(sigma, sigma if end is None else min(sigma, end), progress)


def annealed(start: Number, end: Number, progress: Number) -> Number:
    """On a straight line from `start` to `end` as progress goes from 0 to 1."""
    return start + (end - start) * progress


def annealed_late(start: Number, end: Number, progress: Number) -> Number:
    """`start` in the first half, then on a straight line to `end`  (D25)."""
    return annealed(start, end, jnp.maximum(2 * progress - 1, 0.0))
