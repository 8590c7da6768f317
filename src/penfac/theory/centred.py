"""The control variate on the pull: the same expected step, less variance.

At mu_old an action a = mu_old + b pulls with its weight w(A). Centred, it pulls with
w - c, c = E[w]. Since E[b] = 0 for every symmetric law, E[(w - c) b] = E[w b]: the step is
CACLA's, CAC's or SPG's own. Its variance is not: for w = H(A) about half is left.
This is a result of ours (deviation D23); the paper's updates have no control variate.
"""

import itertools

import numpy as np
from scipy import integrate
from scipy.special import ndtr, ndtri
from scipy.stats import truncnorm

from penfac.theory.finding import Finding, equal
from penfac.theory.gaussian import normal_moments, phi
from penfac.theory.training import midpoints, training_step

RULES = ("cacla", "cac", "spg")
SIGMA, TILT, BEND, OFFSET = 0.3, 0.8, -3.0, 0.1
SAMPLE = 400_000
BLOCKS = 40  # of a sample, to tell how sure a ratio of variances is
DIMENSIONS, KAPPA = 6, 0.3  # HalfCheetah's actions; a critic a little too low
MU = 0.7  # of the truncated law: one bound is one sigma away

# quantile functions of symmetric laws with deviation 1, and their densities and supports
LAWS = {
    "normal": (ndtri, phi, 9.0),
    "uniform": (
        lambda u: np.sqrt(3) * (2 * u - 1),
        lambda z: np.full_like(z, 1 / np.sqrt(12), dtype=float),
        np.sqrt(3),
    ),
    "Laplace": (
        lambda u: -np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)) / np.sqrt(2),
        lambda z: np.exp(-np.sqrt(2) * np.abs(z)) / np.sqrt(2),
        30.0,
    ),
}


def judged(b: np.ndarray) -> np.ndarray:
    """A quadratic advantage around mu_old, with actions of both signs."""
    return OFFSET + TILT * b + BEND * b**2 / 2


def weight(rule: str, a: np.ndarray) -> np.ndarray:
    a = np.asarray(a, float)
    return {"cacla": (a > 0).astype(float), "cac": np.maximum(a, 0), "spg": a}[rule]


def uncentred(rule: str, law: str) -> float:
    """E[w(A) b] by quadrature, piece by piece between the roots of A."""
    _, density, reach = LAWS[law]
    roots = np.roots([BEND / 2, TILT, OFFSET]).real / SIGMA
    edges = np.unique(np.clip([-reach, 0.0, *roots, reach], -reach, reach))

    def pull(z):
        return weight(rule, judged(SIGMA * z)) * SIGMA * z * density(np.asarray(z))

    pieces = itertools.pairwise(edges)
    return sum(integrate.quad(pull, *piece, limit=400)[0] for piece in pieces)


def unchanged(sample: int = SAMPLE) -> Finding:
    """Every rule under three symmetric laws: the integral without a control variate
    against training's loss with it."""
    left, right = [], []
    for rule in RULES:
        for law, (quantiles, *_) in LAWS.items():
            moved = SIGMA * quantiles(midpoints(sample))[:, None]
            left.append(uncentred(rule, law))
            right.append(
                training_step(rule, judged(moved[:, 0]), moved, centred=True)[0]
            )
    numbers = {"rules x laws": len(left), "CACLA's step, normal law": left[0]}
    return equal(left, right, 1e-4, numbers)


def second_moments(kappa: float, m: int) -> tuple[float, float]:
    """E|w b|^2 and E|(w - c) b|^2 over sigma^2, of CACLA with A = c + g.b in m dimensions.

    Along g w is 1 beyond -kappa; across it w and b know nothing of each other:
    E[w |b|^2] = I_2(-kappa, inf) + (m - 1) Phi(kappa), and w^2 = w.
    """
    c = float(ndtr(kappa))
    plain = normal_moments(-kappa, np.inf, 2)[2] + (m - 1) * c
    return plain, (1 - 2 * c) * plain + c**2 * m


def variance_left(kappa: float, m: int) -> float:
    """The variance of the centred pull over that of the plain one, summed over m."""
    step = float(phi(kappa)) ** 2  # |E[w b]|^2 over sigma^2, the same for both
    plain, centred = second_moments(kappa, m)
    return (centred - step) / (plain - step)


def lower_variance(sample: int = SAMPLE, seed: int = 0) -> Finding:
    """The closed form against the pulls of a random sample, with its standard error."""
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(BLOCKS, sample // BLOCKS, DIMENSIONS))
    w = (KAPPA + b[..., 0] > 0).astype(float)[..., None]  # g along the first axis
    spread = lambda pull: pull.var(axis=1, ddof=1).sum(axis=-1)  # noqa: E731
    ratios = spread((w - w.mean(axis=1, keepdims=True)) * b) / spread(w * b)
    error = float(ratios.std(ddof=1) / np.sqrt(BLOCKS))
    wanted, measured = variance_left(KAPPA, DIMENSIONS), float(ratios.mean())
    numbers = {
        "standard error": error,
        "95 % from": measured - 1.96 * error,
        "95 % to": measured + 1.96 * error,
        "dimensions": DIMENSIONS,
        "kappa": KAPPA,
    }
    return equal(wanted, measured, 4 * error, numbers, also=wanted < 1)


def truncation(sample: int = SAMPLE) -> Finding:
    """What the control variate adds where noise is cut off at a bound: -E[w] E[b].

    R(a) = a, so A > 0 above the mean of the noise. The plain step points back from the
    bound, where CACLA comes to rest inside it; the centred one is the covariance of w
    and b, which is positive wherever mu is.
    """
    low, high = (-1 - MU) / SIGMA, (1 - MU) / SIGMA
    law = truncnorm(low, high, scale=SIGMA)
    moved = law.ppf(midpoints(sample))[:, None]
    advantage = moved[:, 0] - law.mean()
    plain = training_step("cacla", advantage, moved)[0]
    centred = training_step("cacla", advantage, moved, centred=True)[0]
    share = 1 - law.cdf(law.mean())
    numbers = {"plain step": plain, "centred step": centred, "E[b]": law.mean()}
    return equal(-share * law.mean(), centred - plain, 1e-5, numbers, also=centred > 0)
