"""One parameter for several states: DPG's optimum is not CACLA's nor CAC's  (Sec. 4.1).

Three states whose transitions the action does not move, mu(s) = theta in all of them,
R(s, a) = -k_s (a - a_s)^2 / 2. So A(s, theta + b) = g_s b - k_s (b^2 - sigma^2) / 2 with
g_s = k_s (a_s - theta), and J, every step and every place of rest are exact.
"""

import numpy as np

from penfac.theory.finding import Finding, below, equal
from penfac.theory.gaussian import quadratic_cac, quadratic_cacla, true_offset
from penfac.theory.zeros import zero

GAMMA, SIGMA = 0.9, 0.4
START = np.array([0.6, 0.3, 0.1])
MOVES = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]])
BEST = np.array([-0.4, 0.1, 1.0])  # a_s
BEND = np.array([0.5, 1.0, 6.0])  # k_s: the rarest state minds most
STEP = 0.1  # of the update whose effect on J is told


def visits() -> np.ndarray:
    """d(s) = start' (I - gamma P)^-1: the same for every policy here."""
    return np.linalg.solve(np.eye(3) - GAMMA * MOVES.T, START)


def performance(theta: float) -> float:
    """J(mu) = start' V, V = (I - gamma P)^-1 R."""
    reward = -BEND * (theta - BEST) ** 2 / 2
    return float(START @ np.linalg.solve(np.eye(3) - GAMMA * MOVES, reward))


def dpg(theta: float) -> float:
    """sum_s d(s) grad_a A(s, theta)."""
    return float(visits() @ (BEND * (BEST - theta)))


def dpg_optimum() -> float:
    """Where DPG rests: the mean of a_s weighted by d(s) k_s."""
    weight = visits() * BEND
    return float(weight @ BEST / weight.sum())


def cacla(theta: float, sigma: float = SIGMA) -> float:
    """sum_s d(s) E[1{A > 0} b] / sigma."""
    steps = [
        quadratic_cacla(true_offset(-k, sigma), k * (a - theta), -k, sigma)
        for k, a in zip(BEND, BEST, strict=True)
    ]
    return float(visits() @ steps)


def cac(theta: float, sigma: float = SIGMA) -> float:
    """sum_s d(s) E[A_+ b] / sigma^2."""
    steps = [
        quadratic_cac(true_offset(-k, sigma), k * (a - theta), -k, sigma)
        for k, a in zip(BEND, BEST, strict=True)
    ]
    return float(visits() @ steps)


def rest(update) -> float:
    """Where an update of theta is 0."""
    return zero(update, BEST.min() - 1, BEST.max() + 1)


def _lowers(update) -> Finding:
    best, there = dpg_optimum(), rest(update)
    numbers = {
        "theta of DPG": best,
        "DPG there, by differences of J": _slope(best),
        "the update there": update(best),
        "J after one step": performance(best + STEP * update(best)),
        "theta where it rests": there,
    }
    return below(
        performance(there),
        performance(best),
        numbers,
        also=numbers["J after one step"] < performance(best),
    )


def _slope(theta: float, width: float = 1e-5) -> float:
    """dJ / dtheta by central differences: shares nothing with `dpg`."""
    return (performance(theta + width) - performance(theta - width)) / (2 * width)


def cacla_lowers() -> Finding:
    """J where CACLA rests < J where DPG rests."""
    return _lowers(cacla)


def cac_lowers() -> Finding:
    """J where CAC rests < J where DPG rests, at sigma = 0.4."""
    return _lowers(cac)


def cac_in_the_limit() -> Finding:
    """... and as sigma goes to 0 CAC's update there is 0 too: 1/2 dJ / dtheta."""
    best, sigmas = dpg_optimum(), (1e-1, 1e-2, 1e-3, 1e-4)
    numbers = {f"CAC's update at sigma {s:g}": cac(best, s) for s in sigmas}
    off = best + 0.3
    numbers |= {"0.3 beside it": cac(off, 1e-4), "half of dJ there": _slope(off) / 2}
    half = abs(numbers["0.3 beside it"] - numbers["half of dJ there"]) < 1e-2
    return equal(cac(best, sigmas[-1]), 0.0, 2e-3, numbers, also=half)
