"""One state, one step, m actions, reward -(a - a*)' C (a - a*)  (Silver et al. 2014).

C has a fixed random basis; its eigenvalues make the task easy or hard. The paper prints
neither its three reward functions nor its optimum. These have condition numbers 1, 10
and 100.
"""

import jax.numpy as jnp
import numpy as np

from penfac.envs.base import JaxEnv, Outcome
from penfac.types import EnvSpec

BEST = 0.5  # every component of the best action; actions span [-1, 1]
DIMENSIONS = (5, 10, 25, 50)  # 5 and 50 are the paper's
EIGENVALUES = {
    "Round": lambda m: np.ones(m),
    "Oval": lambda m: np.where(np.arange(m) < m // 2, 0.1, 1.0),  # Silver's
    "Ridge": lambda m: np.logspace(-2, 0, m),
}


def curvature(shape: str, dimension: int) -> np.ndarray:
    """C: symmetric, with the eigenvalues of the shape."""
    random = np.random.default_rng(dimension)
    basis, _ = np.linalg.qr(random.normal(size=(dimension, dimension)))
    return basis @ np.diag(EIGENVALUES[shape](dimension)) @ basis.T


def bandit(shape: str, dimension: int) -> JaxEnv:
    c = curvature(shape, dimension).astype(np.float32)  # do not start JAX here
    bound = np.ones(dimension, np.float32)
    spec = EnvSpec(f"penfac/{shape}{dimension}-v0", 1, -bound, bound, 1)

    def step(state, action, key):
        off = action - BEST
        return Outcome(state, -jnp.dot(off, jnp.dot(c, off)), jnp.bool_(True))

    condition = {"Round": 1, "Oval": 10, "Ridge": 100}[shape]
    about = f"one state, {dimension} actions, a quadratic of condition {condition}"
    return JaxEnv(spec, lambda key: jnp.zeros(1), lambda state: state, step, about)


BANDITS = tuple(bandit(shape, m) for shape in EIGENVALUES for m in DIMENSIONS)
