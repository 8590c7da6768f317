"""Policies on the host: mu in numpy, with exploration around it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special

from penfac.core.noise import Exploration, anywhere, explore
from penfac.core.sac import LOG_SIGMA
from penfac.errors import Divergence
from penfac.policy import PolicyWeights, mean_action

# a number, one for each dimension of the action, or a function of observations [k, n]
Sigma = float | np.ndarray | Callable[[np.ndarray], np.ndarray]


def sigma_at(sigma: Sigma, obs: np.ndarray) -> float | np.ndarray:
    return sigma(obs) if callable(sigma) else sigma


class Explorer(NamedTuple):
    """mu with exploration around it."""

    weights: PolicyWeights
    how: Exploration
    sigma: Sigma
    anywhere: bool = False  # uniform actions at the start of a run

    def __call__(
        self, obs: np.ndarray, uniform: np.ndarray, drift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The action, and the drift of temporally correlated noise after it."""
        if self.anywhere:
            return anywhere(uniform).astype(np.float32), drift
        mu, sigma = self.around(obs)
        action, drift = explore(self.how, mu, sigma, uniform, drift, scipy.special)
        return action.astype(np.float32), drift

    def around(self, obs: np.ndarray) -> tuple[np.ndarray, float | np.ndarray]:
        """What the law is centred at, and how wide it is there."""
        if self.weights.spread:
            return gaussian_of(self.weights, obs)
        mu = mean_action(self.weights, obs).astype(np.float64)
        return mu, sigma_at(self.sigma, obs)


def gaussian_of(
    weights: PolicyWeights, obs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """m(s) and sigma(s) of a squashed Gaussian policy: both last layers in one."""
    *hidden, (matrix, bias) = weights.layers
    [(spread, log_sigma)] = weights.spread
    both = np.concatenate([matrix, spread], 1), np.concatenate([bias, log_sigma])
    linear = weights._replace(layers=[*hidden, both], output="linear")
    mean, log_sigma = np.split(mean_action(linear, obs).astype(np.float64), 2, axis=-1)
    return mean, np.exp(np.clip(log_sigma, *LOG_SIGMA))


def finite_sum(*arrays: np.ndarray) -> bool:
    """Whether every array has a finite sum: False if any number is NaN or infinite, or if
    the numbers are so large that they overflow."""
    return all(math.isfinite(np.add.reduce(x, axis=None)) for x in arrays)


def check_finite(action: np.ndarray) -> np.ndarray:
    """Stop at a non-finite action: finite but huge weights are at fault, not the
    environment."""
    if not finite_sum(action):
        raise Divergence(
            "an action became non-finite, as the actor's weights are too large; the "
            "last good checkpoint is kept; use a smaller actor_lr"
        )
    return action
