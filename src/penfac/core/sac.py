"""Soft actor-critic on a squashed Gaussian  (Haarnoja et al. 2018).

An action is a = tanh(u) with u ~ N(m(s), sigma(s)^2). A policy earns its reward and,
weighted by the temperature alpha, its entropy. Equation numbers are those of "Soft
Actor-Critic Algorithms and Applications", arXiv:1812.05905.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from penfac.core.ppo import log_likelihood

Number = Float[Array, ""] | float
LOG_SIGMA = (-20.0, 2.0)  # bounds of log sigma(s)


def bounded_sigma(log_sigma: Float[Array, "*b m"]) -> Float[Array, "*b m"]:
    """sigma = exp(log sigma), the logarithm kept within its bounds."""
    return jnp.exp(jnp.clip(log_sigma, *LOG_SIGMA))


def log_slope_of_tanh(u: Float[Array, "*b m"]) -> Float[Array, "*b m"]:
    """log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), exact where tanh(u) is 1."""
    return 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))


def squashed_log_likelihood(
    u: Float[Array, "*b m"], mean: Float[Array, "*b m"], sigma: Float[Array, "*b m"]
) -> Float[Array, " *b"]:
    """log pi(tanh(u)|s) = log N(u; m, sigma^2) - sum log(1 - tanh(u)^2)  (App. C)."""
    slope = jnp.sum(log_slope_of_tanh(u), axis=-1)
    return log_likelihood(u, mean, sigma) - slope


def soft_value(
    q: Float[Array, "K N"], log_pi: Float[Array, " N"], alpha: Number
) -> Float[Array, " N"]:
    """V(s) = min_k Q_k(s, a) - alpha log pi(a|s) for a drawn a  (Eq. 3)."""
    return jnp.min(q, axis=0) - alpha * log_pi


def soft_target(
    reward: Float[Array, " N"],
    discount: Float[Array, " N"],
    v_next: Float[Array, " N"],
) -> Float[Array, " N"]:
    """R + gamma V(s')  (Eq. 2)."""
    return reward + discount * v_next


def soft_actor_loss(
    q: Float[Array, "K N"], log_pi: Float[Array, " N"], alpha: Number
) -> Float[Array, ""]:
    """The mean of alpha log pi(a|s) - min_k Q_k(s, a), a = tanh(m + sigma eps)  (Eq. 9)."""
    return -jnp.mean(soft_value(q, log_pi, alpha))


def temperature_loss(
    log_alpha: Float[Array, ""], log_pi: Float[Array, " N"], entropy: Number
) -> Float[Array, ""]:
    """-log alpha (log pi(a|s) + H), the mean of it: alpha falls while the policy's entropy
    is above H. Eq. 18 has alpha for log alpha, which scales the step by alpha."""
    return -log_alpha * jnp.mean(log_pi + entropy)
