"""CACLA and CAC are stochastic gradients: closed forms against training's own loss.

Left the closed form, right the gradient that training would follow  (Eq. 8, Sec. 4.2).
"""

from itertools import pairwise

import numpy as np
from scipy import integrate

from penfac.theory.finding import Finding, equal
from penfac.theory.gaussian import (
    linear_cac,
    linear_cacla,
    phi,
    quadratic_cac,
    quadratic_cacla,
    true_offset,
)
from penfac.theory.training import normal_grid, standard_error, training_step

SLOPE = np.array([1.0, -2.0, 0.5, 0.0, 1.5])  # five dimensions of action
OFFSET, SIGMA = -0.3, 0.2
BEND, TILT = -3.0, 0.8  # of the quadratic: concave, as near an optimum
SAMPLE = 400_000


def _linear(rule: str, scale: float, wanted: np.ndarray, sample: int) -> Finding:
    rng = np.random.default_rng(0)
    moved = SIGMA * rng.normal(size=(sample, len(SLOPE)))
    advantage = OFFSET + moved @ SLOPE
    followed = training_step(rule, advantage, moved) / scale
    weight = (advantage > 0) if rule == "cacla" else np.maximum(advantage, 0)
    error = standard_error(weight[:, None] * moved / scale)
    numbers = {"standard error": error, "kappa": _kappa(), "dimensions": len(SLOPE)}
    return equal(wanted, followed, 4 * error, numbers)


def _kappa() -> float:
    return OFFSET / (SIGMA * float(np.sqrt((SLOPE**2).sum())))


def cacla_linear(sample: int = SAMPLE) -> Finding:
    """phi(kappa) g / |g| against the loss, over random actions in five dimensions."""
    return _linear("cacla", SIGMA, linear_cacla(OFFSET, SLOPE, SIGMA), sample)


def cac_linear(sample: int = SAMPLE) -> Finding:
    """Phi(kappa) g against the loss, over random actions in five dimensions."""
    return _linear("cac", SIGMA**2, linear_cac(OFFSET, SLOPE, SIGMA), sample)


def by_quadrature(rule: str, c: float, g: float, h: float, sigma: float) -> float:
    """E[w(A) b], divided by sigma (CACLA) or sigma^2 (CAC, SPG): the integral itself."""

    def integrand(z: float) -> float:
        a = c + g * sigma * z + h * (sigma * z) ** 2 / 2
        weight = {"cacla": float(a > 0), "cac": max(a, 0.0), "spg": a}[rule]
        return weight * z * float(phi(z))

    edges = np.linspace(-9, 9, 181)  # steps of A inside a cell cost no other cell
    cells = pairwise(edges)
    total = sum(integrate.quad(integrand, *cell, limit=200)[0] for cell in cells)
    return total if rule == "cacla" else total / sigma


def _quadratic(rule: str, wanted: float, sample: int) -> Finding:
    c = true_offset(BEND, SIGMA)
    moved = SIGMA * normal_grid(sample)
    b = moved[:, 0]
    scale = SIGMA if rule == "cacla" else SIGMA**2
    followed = training_step(rule, c + TILT * b + BEND * b**2 / 2, moved) / scale
    area = by_quadrature(rule, c, TILT, BEND, SIGMA)
    numbers = {"by quadrature": area, "slope of A at mu(s)": TILT}
    return equal(wanted, followed, 1e-4, numbers, also=abs(area - wanted) < 1e-6)


def cacla_quadratic(sample: int = SAMPLE) -> Finding:
    """The 1-D quadratic: its intervals, the integral, the loss."""
    wanted = quadratic_cacla(true_offset(BEND, SIGMA), TILT, BEND, SIGMA)
    return _quadratic("cacla", wanted, sample)


def cac_quadratic(sample: int = SAMPLE) -> Finding:
    """The 1-D quadratic: its intervals, the integral, the loss."""
    wanted = quadratic_cac(true_offset(BEND, SIGMA), TILT, BEND, SIGMA)
    return _quadratic("cac", wanted, sample)


class Network:
    """A(b) = v.tanh(W b + u) - k with random weights: an advantage of no special form."""

    def __init__(self, seed: int, dimension: int = 3, hidden: int = 16):
        rng = np.random.default_rng(seed)
        self.w = rng.normal(size=(hidden, dimension)) * 2
        self.u, self.v = rng.normal(size=hidden), rng.normal(size=hidden)
        self.k = float(self.v @ np.tanh(self.u)) + 0.1  # A(0) = -0.1: both signs occur

    def __call__(self, b: np.ndarray) -> np.ndarray:
        return np.tanh(b @ self.w.T + self.u) @ self.v - self.k

    def slope(self, b: np.ndarray) -> np.ndarray:
        """grad A = W' (v (1 - tanh^2))."""
        return (self.v / np.cosh(b @ self.w.T + self.u) ** 2) @ self.w


def stein(sample: int = SAMPLE, seed: int = 0, sigma: float = 0.5) -> Finding:
    """E[A_+ b] / sigma^2 = E[1{A > 0} grad A], for every sigma and a tanh network.

    Two samples that know nothing of each other: training's loss needs no slope of A,
    the right side no b.
    """
    network, rng = Network(seed), np.random.default_rng(seed + 1)
    moved = sigma * rng.normal(size=(sample, 3))
    other = sigma * rng.normal(size=(sample, 3))
    judged = network(moved)
    followed = training_step("cac", judged, moved) / sigma**2
    slopes = (network(other) > 0)[:, None] * network.slope(other)
    errors = (
        standard_error(np.maximum(judged, 0)[:, None] * moved / sigma**2),
        standard_error(slopes),
    )
    error = float(np.hypot(*errors))
    numbers = {"standard error": error, "share of A > 0": float((judged > 0).mean())}
    return equal(followed, slopes.mean(axis=0), 4 * error, numbers)
