"""The linear-quadratic regulator: continuous actions, everything in closed form."""

from typing import TYPE_CHECKING

import numpy as np

from penfac.theory.gaussian import quadratic_cac
from penfac.theory.mdp import surrogate_figure
from penfac.theory.statement import CheckResult, Statement, equal

if TYPE_CHECKING:
    from penfac.envs.lqr import LQR

GAIN, NEW_GAIN = np.array([[1.0, 0.8]]), np.array([[1.3, 0.5]])
SIGMA = 0.2
STATE = np.array([1.0, -0.5])
LONG = 4000  # steps: 0.95^4000 is 0
STARTS = np.eye(2) / 3  # E[s s'] of a start uniform in [-1, 1]^2


def _problem() -> "LQR":
    from penfac.envs.lqr import DOUBLE_INTEGRATOR

    return DOUBLE_INTEGRATOR


def played_return(lqr: "LQR", gain: np.ndarray) -> float:
    """J(mu) of a = -gain s, played from each axis as a start.

    J is quadratic in the start and E[s s'] is diagonal, so the axes suffice.
    """
    total = 0.0
    for axis, weight in enumerate(np.diag(STARTS)):
        s, discount = np.eye(2)[axis], weight
        for _ in range(LONG):
            a = -gain @ s
            total -= discount * float(s @ lqr.q @ s + a @ lqr.r @ a)
            s, discount = lqr.a @ s + lqr.b @ a, discount * lqr.gamma
    return total


def moments(lqr: "LQR", gain: np.ndarray, sigma: float) -> np.ndarray:
    """sum_t gamma^t E[s_t s_t'] under a = -gain s + N(0, sigma^2 I)."""
    closed = lqr.a - lqr.b @ gain
    now, total, weight = STARTS, np.zeros((2, 2)), 1.0
    for _ in range(LONG):
        total, weight = total + weight * now, weight * lqr.gamma
        now = closed @ now @ closed.T + sigma**2 * lqr.b @ lqr.b.T
    return total


def advantage(
    lqr: "LQR", gain: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """(E, M, c): A(s, -gain s + u) = -2 u'E s - u'M u + c.

    M = R + gamma B'PB, E = gamma B'P(A - B gain) - R gain, c = sigma^2 tr M.
    """
    from penfac.envs.lqr import value

    p, _ = value(lqr, gain, sigma)
    m = lqr.r + lqr.gamma * lqr.b.T @ p @ lqr.b
    e = lqr.gamma * lqr.b.T @ p @ (lqr.a - lqr.b @ gain) - lqr.r @ gain
    return e, m, float(sigma**2 * np.trace(m))


def check_lemma_5_1() -> CheckResult:
    """Eq. 10 with a Gaussian pi: J(mu~), played, against the right side."""
    lqr = _problem()
    rate = 1 / (1 - lqr.gamma)
    # E_pi[A^mu] = -sigma^2 tr M of mu: the first order in u averages to 0
    _, m, _ = advantage(lqr, GAIN, 0.0)
    noise = -(SIGMA**2) * float(np.trace(m)) * rate
    e, m, c = advantage(lqr, GAIN, SIGMA)
    seen, turn = moments(lqr, NEW_GAIN, 0.0), GAIN - NEW_GAIN  # mu~(s) = mu(s) + turn s
    change = -2 * np.trace(turn.T @ e @ seen) - np.trace(turn.T @ m @ turn @ seen)
    old = played_return(lqr, GAIN)
    numbers = {
        "J(mu)": old,
        "what noise costs": noise,
        "what the change gains": float(change) + c * rate,
    }
    return equal(played_return(lqr, NEW_GAIN), sum(numbers.values()), 1e-9, numbers)


def q_value(lqr: "LQR", gain: np.ndarray, sigma: float, u: float) -> float:
    """Q(s, -gain s + u) at STATE: one step of the dynamics, then V."""
    from penfac.envs.lqr import value

    p, c = value(lqr, gain, sigma)
    a = -gain @ STATE + u
    after = lqr.a @ STATE + lqr.b @ a
    cost = float(STATE @ lqr.q @ STATE + a @ lqr.r @ a)
    return -cost + lqr.gamma * (-float(after @ p @ after) - c)


def lemma_4_1_factor(sigma: float) -> float:
    """CAC's step over DPG's at STATE; A^pi and its slope from Q at three actions."""
    from penfac.envs.lqr import value

    lqr = _problem()
    low, middle, high = (q_value(lqr, GAIN, sigma, u) for u in (-1.0, 0.0, 1.0))
    g, h = (high - low) / 2, high - 2 * middle + low  # Q is quadratic in u: exact
    p, c = value(lqr, GAIN, sigma)
    offset = middle + float(STATE @ p @ STATE) + c
    width = 1e-3
    dpg = q_value(lqr, GAIN, 0.0, width) - q_value(lqr, GAIN, 0.0, -width)
    return quadratic_cac(offset, g, h, sigma) / (dpg / (2 * width))


STATEMENTS = (
    Statement(
        "lemma-5-1-lqr", "Lemma 5.1", True,
        "Lemma 5.1 with a Gaussian pi, on the linear-quadratic regulator",
        ("J(mu~), played", "the right side in closed form"), "=",
        "The double integrator, two linear policies, sigma = 0.2.",
        check_lemma_5_1, surrogate_figure,
    ),
)  # fmt: skip
