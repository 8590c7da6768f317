"""A linear-quadratic regulator: everything about it has a closed form.

s' = A s + B a,  r = -(s'Qs + a'Ra), discounted by gamma. The optimal policy is linear,
a = -K* s, and exploration does not change it: K* is the target of every algorithm.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from penfac.envs.base import JaxEnv, Outcome
from penfac.types import EnvSpec


class LQR(NamedTuple):
    """A problem: its matrices, discount and bounds."""

    a: np.ndarray
    b: np.ndarray
    q: np.ndarray
    r: np.ndarray
    gamma: float


DOUBLE_INTEGRATOR = LQR(
    a=np.array([[1.0, 0.1], [0.0, 1.0]]),
    b=np.array([[0.0], [0.1]]),
    q=np.diag([1.0, 0.1]),
    r=np.array([[0.1]]),
    gamma=0.95,
)
ACTION_BOUND = 10.0  # |K* s| is below half of it, so the bounds do not change K*
HORIZON = 50


def optimum(lqr: LQR) -> tuple[np.ndarray, np.ndarray]:
    """(K*, P*): a = -K* s is optimal, V*(s) = -s'P*s."""
    from scipy.linalg import solve_discrete_are  # every run would wait for its import

    root = np.sqrt(lqr.gamma)
    p = solve_discrete_are(root * lqr.a, root * lqr.b, lqr.q, lqr.r)
    m = lqr.r + lqr.gamma * lqr.b.T @ p @ lqr.b
    return np.linalg.solve(m, lqr.gamma * lqr.b.T @ p @ lqr.a), p


def value(lqr: LQR, gain: np.ndarray, sigma: float) -> tuple[np.ndarray, float]:
    """(P, c): V(s) = -s'Ps - c of a = -gain s + N(0, sigma^2 I), in the action's units."""
    from scipy.linalg import solve_discrete_lyapunov

    closed = lqr.a - lqr.b @ gain
    cost = lqr.q + gain.T @ lqr.r @ gain
    p = solve_discrete_lyapunov(np.sqrt(lqr.gamma) * closed.T, cost)
    m = lqr.r + lqr.gamma * lqr.b.T @ p @ lqr.b
    return p, float(sigma**2 * np.trace(m) / (1 - lqr.gamma))


def _environment(lqr: LQR) -> JaxEnv:
    n, m = lqr.b.shape
    a, b, q, r = (np.asarray(x, np.float32) for x in lqr[:4])  # do not start JAX here

    def step(state, action, key):
        cost = state @ q @ state + action @ r @ action
        return Outcome(a @ state + b @ action, -cost, jnp.bool_(False))

    bound = np.full(m, ACTION_BOUND, np.float32)
    return JaxEnv(
        spec=EnvSpec("penfac/LQR-v0", n, -bound, bound, HORIZON),
        reset=lambda key: jax.random.uniform(key, (n,), minval=-1.0, maxval=1.0),
        observe=lambda state: state,
        step=step,
        summary="double integrator, quadratic cost: optimal gain in closed form",
    )


LQR_ENV = _environment(DOUBLE_INTEGRATOR)
