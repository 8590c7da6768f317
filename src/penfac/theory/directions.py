"""Whether CACLA and SPG point the same way in one state  (Sec. 4.1)."""

import numpy as np
from scipy.special import ndtr

from penfac.theory.canvas import BLACK, BLUE, GREEN, GREY, RED, canvas, png
from penfac.theory.gaussian import linear_cacla, phi
from penfac.theory.statement import CheckResult, Statement, equal
from penfac.theory.training import normal_grid, training_step

SLOPE, OFFSET, SIGMA = np.array([1.0, -2.0, 0.5]), -0.1, 0.2
WIDE = np.linspace(-9.0, 9.0, 40_001)  # phi is below 1e-18 beyond


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def check_linear(sample: int = 400_000) -> CheckResult:
    """If the advantage is linear: SPG follows g, CACLA phi(kappa) g / |g|."""
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
    """A(z) = z^3 - 2 z, z = b / sigma: near actions pull left, far actions right."""
    return z**3 - 2 * z


def opposite() -> dict[str, float]:
    """The three steps for A = z^3 - 2 z, in closed form and as training takes them.

    SPG: E[z^4 - 2 z^2] = 3 - 2 = 1. CAC: A is odd, so its positive half gives half of
    SPG. CACLA: 2 phi(sqrt 2) - phi(0) = (2 / e - 1) / sqrt(2 pi) < 0.
    """
    z = normal_grid(400_000)
    advantage = bent(z[:, 0])
    return {
        "SPG": 1.0,
        "CAC": 0.5,
        "CACLA": float((2 / np.e - 1) / np.sqrt(2 * np.pi)),
        "SPG by training": float(training_step("spg", advantage, z)[0]),
        "CAC by training": float(training_step("cac", advantage, z)[0]),
        "CACLA by training": float(training_step("cacla", advantage, z)[0]),
    }


def two_dimensions() -> tuple[np.ndarray, np.ndarray]:
    """(SPG, CACLA) for A = z_1^3 - 2 z_1 + z_2.

    SPG = (1, 1). Given z_1 the advantage is linear in z_2, so CACLA is
    (E[z_1 Phi(u)], E[phi(u)]) with u = z_1^3 - 2 z_1.
    """
    u, weight = bent(WIDE), phi(WIDE)
    pull = [
        np.trapezoid(WIDE * ndtr(u) * weight, WIDE),
        np.trapezoid(phi(u) * weight, WIDE),
    ]
    return np.array([1.0, 1.0]), np.array(pull)


def check_always() -> CheckResult:
    """For a general advantage: opposite in one dimension, not parallel in two."""
    spg, cacla = two_dimensions()
    numbers = opposite() | {
        "angle in two dimensions, degrees": float(
            np.degrees(np.arccos(cosine(spg, cacla)))
        )
    }
    signs = numbers["SPG by training"] * numbers["CACLA by training"] > 0
    return equal(cosine(spg, cacla), 1.0, 1e-4, numbers, also=signs)


# --- figure and statements ---------------------------------------------------------------


def bent_figure() -> bytes:
    """A = z^3 - 2 z, where it is positive, and the three steps it causes."""
    figure, (a,) = canvas()
    z = np.linspace(-2.4, 2.4, 600)
    advantage = bent(z)
    a.plot(z, advantage, color=BLACK, linewidth=2, label="A = z^3 - 2 z")
    a.fill_between(
        z, 0, advantage, where=advantage > 0, color=GREEN, alpha=0.25, linewidth=0
    )
    a.plot(z, 6 * phi(z) - 7, color=GREY, linewidth=1, label="density of z")
    found = opposite()
    inks = {"SPG": BLUE, "CAC": GREEN, "CACLA": RED}
    for k, (rule, ink) in enumerate(inks.items()):
        low = 4.6 - 1.1 * k
        tip = {"arrowstyle": "-|>", "color": ink, "linewidth": 2.5}
        a.annotate("", (found[rule], low), (0, low), arrowprops=tip)
        a.text(-2.35, low, f"{rule} {found[rule]:+.3f}", color=ink, va="center")
    a.axvline(0, color=GREY, linewidth=0.8)
    a.set(
        title="CACLA may point against SPG",
        xlabel="z = (a - mu) / sigma", ylabel="advantage", ylim=(-7.2, 5.4),
    )  # fmt: skip
    return png(figure, [a])


STATEMENTS = (
    Statement(
        "same-direction", "Sec. 4.1", True,
        "in one state CACLA and SPG point the same way if A is linear",
        ("cosine of the two steps of training", "1"), "=",
        "SPG follows g, CACLA phi(kappa) g / |g|. The two are parallel, and CACLA's length "
        "does not depend on how steep A is.",
        check_linear, bent_figure,
    ),
    Statement(
        "same-direction-always", "Sec. 4.1", True,
        "in one state CACLA and SPG point the same way for any A (Sec. 4.1, in brackets)",
        ("cosine of the two integrals", "1"), "=",
        "The statement needs a linear advantage. For A = z^3 - 2 z, z = b / sigma, near "
        "actions pull left and far actions pull right: SPG's step is +1 and CACLA's is "
        "(2/e - 1) / sqrt(2 pi) = -0.105. With a second action dimension in which A is "
        "linear, the two steps are not even parallel. CAC's step is half of SPG's, for "
        "every odd advantage and every sigma.",
        check_always, bent_figure,
    ),
)  # fmt: skip
