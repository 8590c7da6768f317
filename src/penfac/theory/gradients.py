"""CACLA and CAC are stochastic gradients: closed forms against the gradient of
training's loss  (Eq. 8, Sec. 4.2)."""

from itertools import pairwise

import numpy as np
from scipy import integrate

from penfac.theory.canvas import BLUE, GREY, RED, canvas, png
from penfac.theory.gaussian import (
    linear_cac,
    linear_cacla,
    phi,
    quadratic_cac,
    quadratic_cacla,
    true_offset,
)
from penfac.theory.statement import CheckResult, Statement, equal
from penfac.theory.training import normal_grid, standard_error, training_step

SLOPE = np.array([1.0, -2.0, 0.5, 0.0, 1.5])  # five dimensions of action
OFFSET, SIGMA = -0.3, 0.2
BEND, TILT = -3.0, 0.8  # of the quadratic; concave, as near an optimum
SAMPLE = 400_000
CLOSED, TRAINED = "the closed form", "minus the gradient of training's loss"


def _linear(rule: str, scale: float, wanted: np.ndarray, sample: int) -> CheckResult:
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


def check_cacla_linear(sample: int = SAMPLE) -> CheckResult:
    """phi(kappa) g / |g| against the loss, over random actions in five dimensions."""
    return _linear("cacla", SIGMA, linear_cacla(OFFSET, SLOPE, SIGMA), sample)


def check_cac_linear(sample: int = SAMPLE) -> CheckResult:
    """Phi(kappa) g against the loss, over random actions in five dimensions."""
    return _linear("cac", SIGMA**2, linear_cac(OFFSET, SLOPE, SIGMA), sample)


def by_quadrature(rule: str, c: float, g: float, h: float, sigma: float) -> float:
    """E[w(A) b] by quadrature, divided by sigma (CACLA) or sigma^2 (CAC, SPG)."""

    def integrand(z: float) -> float:
        a = c + g * sigma * z + h * (sigma * z) ** 2 / 2
        weight = {"cacla": float(a > 0), "cac": max(a, 0.0), "spg": a}[rule]
        return weight * z * float(phi(z))

    edges = np.linspace(-9, 9, 181)  # a jump of A inside a cell does not affect others
    cells = pairwise(edges)
    total = sum(integrate.quad(integrand, *cell, limit=200)[0] for cell in cells)
    return total if rule == "cacla" else total / sigma


def _quadratic(rule: str, wanted: float, sample: int) -> CheckResult:
    c = true_offset(BEND, SIGMA)
    moved = SIGMA * normal_grid(sample)
    b = moved[:, 0]
    scale = SIGMA if rule == "cacla" else SIGMA**2
    followed = training_step(rule, c + TILT * b + BEND * b**2 / 2, moved) / scale
    area = by_quadrature(rule, c, TILT, BEND, SIGMA)
    numbers = {"by quadrature": area, "slope of A at mu(s)": TILT}
    return equal(wanted, followed, 1e-4, numbers, also=abs(area - wanted) < 1e-6)


def check_cacla_quadratic(sample: int = SAMPLE) -> CheckResult:
    """A quadratic in one dimension: closed form, quadrature and loss."""
    wanted = quadratic_cacla(true_offset(BEND, SIGMA), TILT, BEND, SIGMA)
    return _quadratic("cacla", wanted, sample)


def check_cac_quadratic(sample: int = SAMPLE) -> CheckResult:
    """A quadratic in one dimension: closed form, quadrature and loss."""
    wanted = quadratic_cac(true_offset(BEND, SIGMA), TILT, BEND, SIGMA)
    return _quadratic("cac", wanted, sample)


class Network:
    """A(b) = v.tanh(W b + u) - k with random weights: a generic advantage."""

    def __init__(self, seed: int, dimension: int = 3, hidden: int = 16):
        rng = np.random.default_rng(seed)
        self.w = rng.normal(size=(hidden, dimension)) * 2
        self.u, self.v = rng.normal(size=hidden), rng.normal(size=hidden)
        self.k = (
            float(self.v @ np.tanh(self.u)) + 0.1
        )  # A(0) = -0.1, so both signs occur

    def __call__(self, b: np.ndarray) -> np.ndarray:
        return np.tanh(b @ self.w.T + self.u) @ self.v - self.k

    def slope(self, b: np.ndarray) -> np.ndarray:
        """grad A = W' (v (1 - tanh^2))."""
        return (self.v / np.cosh(b @ self.w.T + self.u) ** 2) @ self.w


def check_stein(sample: int = SAMPLE, seed: int = 0, sigma: float = 0.5) -> CheckResult:
    """E[A_+ b] / sigma^2 = E[1{A > 0} grad A], here of a tanh network.

    The two sides use independent samples: training's loss needs no slope of A, the right
    side no b.
    """
    network, rng = Network(seed), np.random.default_rng(seed + 1)
    moved = sigma * rng.normal(size=(sample, 3))
    other = sigma * rng.normal(size=(sample, 3))
    advantage = network(moved)
    followed = training_step("cac", advantage, moved) / sigma**2
    slopes = (network(other) > 0)[:, None] * network.slope(other)
    errors = (
        standard_error(np.maximum(advantage, 0)[:, None] * moved / sigma**2),
        standard_error(slopes),
    )
    error = float(np.hypot(*errors))
    numbers = {"standard error": error, "share of A > 0": float((advantage > 0).mean())}
    return equal(followed, slopes.mean(axis=0), 4 * error, numbers)


# --- figure and statements ---------------------------------------------------------------


def step_lengths_figure() -> bytes:
    """Phi(kappa) and phi(kappa), with what training's loss gives over random actions."""
    figure, (a,) = canvas()
    g, sigma = np.array([1.0, -2.0, 0.5]), 0.2
    size = float(np.linalg.norm(g))
    fine, coarse = np.linspace(-3, 3, 200), np.linspace(-2.8, 2.8, 15)
    moved = sigma * np.random.default_rng(0).normal(size=(50_000, 3))
    rules = (
        ("cac", linear_cac, sigma**2 * size, size, BLUE, "CAC / |DPG|: Phi(kappa)"),
        ("cacla", linear_cacla, sigma, 1.0, RED, "CACLA: phi(kappa)"),
    )
    for rule, closed, scale, unit, ink, label in rules:
        lengths = [np.linalg.norm(closed(k * sigma * size, g, sigma)) for k in fine]
        a.plot(fine, np.array(lengths) / unit, color=ink, linewidth=2, label=label)
        dots = [
            training_step(rule, k * sigma * size + moved @ g, moved) @ g / size / scale
            for k in coarse
        ]
        a.plot(coarse, dots, "o", color=ink, markersize=4)
    a.plot(
        [], [], "o", color=GREY, markersize=4, label="training's loss, 50 000 actions"
    )
    a.set(
        title="Steps for a linear advantage  c + g.b",
        xlabel="kappa = c / (sigma |g|)",
        ylabel="length of the step",
    )
    return png(figure, [a])


STATEMENTS = (
    Statement(
        "cacla-linear", "Eq. 8", True,
        "CACLA follows the integral of Eq. 8: phi(kappa) g / |g| if A = c + g.b",
        (CLOSED, TRAINED), "=",
        "Eq. 8 reads CACLA's update as one sample of an integral over actions. If the "
        "advantage is linear around mu(s), the integral is known: it points along g, and "
        "its length is phi(kappa), kappa = c / (sigma |g|), whatever |g| is. The gradient "
        "of penfac.core.actor.toward_loss over random actions in five dimensions agrees "
        "within four standard errors.",
        check_cacla_linear, step_lengths_figure,
    ),
    Statement(
        "cac-linear", "Sec. 4.2", True,
        "CAC follows its integral: Phi(kappa) g if A = c + g.b",
        (CLOSED, TRAINED), "=",
        "CAC weighs each better action by how much better it is. For a linear advantage, "
        "divided by sigma^2, that gives Phi(kappa) g: DPG's step times the share of "
        "actions that are better than expected.",
        check_cac_linear, step_lengths_figure,
    ),
    Statement(
        "cacla-quadratic", "Eq. 8", True,
        "CACLA follows its integral for a quadratic advantage in one dimension",
        (CLOSED, TRAINED), "=",
        "A = c + g b + h b^2 / 2 is positive on one interval or two. CACLA's step is a "
        "difference of Gaussian densities at their ends. Quadrature of the integral, and "
        "training's loss over evenly spaced actions, give the same.",
        check_cacla_quadratic, step_lengths_figure,
    ),
    Statement(
        "cac-quadratic", "Sec. 4.2", True,
        "CAC follows its integral for a quadratic advantage in one dimension",
        (CLOSED, TRAINED), "=",
        "As for CACLA, with the second and third moments of a Gaussian between the roots "
        "of A.",
        check_cac_quadratic, step_lengths_figure,
    ),
    Statement(
        "stein", "Sec. 4.2", False,
        "CAC is SPG on the better actions: E[A+ b] / sigma^2 = E[1{A > 0} grad A]",
        (TRAINED, "the mean slope of A where A > 0"), "=",
        "Stein's identity holds for every sigma and any advantage with a weak derivative, "
        "here a random tanh network with three action dimensions. CAC follows the slope "
        "of A, averaged over the better actions only.",
        check_stein, step_lengths_figure,
    ),
)  # fmt: skip
