"""Do CACLA and SPG point the same way in one state?  (Sec. 4.1, in words)."""

import numpy as np
from scipy.special import ndtr

from penfac.theory.finding import Finding, equal
from penfac.theory.gaussian import linear_cacla, phi
from penfac.theory.training import normal_grid, training_step

SLOPE, OFFSET, SIGMA = np.array([1.0, -2.0, 0.5]), -0.1, 0.2
WIDE = np.linspace(-9.0, 9.0, 40_001)  # phi is below 1e-18 beyond


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def linear(sample: int = 400_000) -> Finding:
    """Of a linear advantage: SPG follows g, CACLA phi(kappa) g / |g|."""
    moved = SIGMA * np.random.default_rng(0).normal(size=(sample, len(SLOPE)))
    advantage = OFFSET + moved @ SLOPE
    spg = training_step("spg", advantage, moved) / SIGMA**2
    cacla = training_step("cacla", advantage, moved) / SIGMA
    numbers = {
        "|SPG| by training": float(np.linalg.norm(spg)),
        "|CACLA| by training": float(np.linalg.norm(cacla)),
        "|SPG| in closed form": float(np.linalg.norm(SLOPE)),
        "|CACLA| in closed form": float(
            np.linalg.norm(linear_cacla(OFFSET, SLOPE, SIGMA))
        ),
    }
    return equal(cosine(spg, cacla), 1.0, 1e-4, numbers)


def bent(z: np.ndarray) -> np.ndarray:
    """A(z) = z^3 - 2 z, z = b / sigma: the near actions say left, the far ones right."""
    return z**3 - 2 * z


def opposite() -> dict[str, float]:
    """The three steps for A = z^3 - 2 z, in closed form and as training takes them.

    SPG: E[z^4 - 2 z^2] = 3 - 2 = 1. CAC: A is odd, so that its positive half is half of
    SPG. CACLA: 2 phi(sqrt 2) - phi(0) = (2 / e - 1) / sqrt(2 pi) < 0.
    """
    z = normal_grid(400_000)
    judged = bent(z[:, 0])
    return {
        "SPG": 1.0,
        "CAC": 0.5,
        "CACLA": float((2 / np.e - 1) / np.sqrt(2 * np.pi)),
        "SPG by training": float(training_step("spg", judged, z)[0]),
        "CAC by training": float(training_step("cac", judged, z)[0]),
        "CACLA by training": float(training_step("cacla", judged, z)[0]),
    }


def two_dimensions() -> tuple[np.ndarray, np.ndarray]:
    """(SPG, CACLA) for A = z_1^3 - 2 z_1 + z_2.

    SPG = (1, 1). Given z_1 the advantage is linear in z_2, so that CACLA is
    (E[z_1 Phi(u)], E[phi(u)]) with u = z_1^3 - 2 z_1.
    """
    u, weight = bent(WIDE), phi(WIDE)
    pull = [
        np.trapezoid(WIDE * ndtr(u) * weight, WIDE),
        np.trapezoid(phi(u) * weight, WIDE),
    ]
    return np.array([1.0, 1.0]), np.array(pull)


def always() -> Finding:
    """Not of every advantage: in one dimension opposite, in two not even parallel."""
    spg, cacla = two_dimensions()
    numbers = opposite() | {
        "angle in two dimensions, degrees": float(
            np.degrees(np.arccos(cosine(spg, cacla)))
        )
    }
    signs = numbers["SPG by training"] * numbers["CACLA by training"] > 0
    return equal(cosine(spg, cacla), 1.0, 1e-4, numbers, also=signs)
