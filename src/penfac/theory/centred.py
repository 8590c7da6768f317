"""The control variate on the pull: the same expected step, less variance.

At mu_old an action a = mu_old + b pulls with its weight w(A). Centred, it pulls with
w - c, c = E[w]. Since E[b] = 0 for every symmetric law, E[(w - c) b] = E[w b]: the expected
step is unchanged. Its variance is not: for w = H(A) about half is left. This result is
ours (deviation D23); the paper's updates have no control variate.
"""

import itertools

import numpy as np
from scipy import integrate
from scipy.special import ndtr, ndtri
from scipy.stats import truncnorm

from penfac.theory.canvas import BLACK, BLUE, GREY, RED, canvas, png
from penfac.theory.gaussian import normal_moments, phi
from penfac.theory.statement import CheckResult, Statement, equal
from penfac.theory.training import midpoints, training_step

RULES = ("cacla", "cac", "spg")
SIGMA, TILT, BEND, OFFSET = 0.3, 0.8, -3.0, 0.1
SAMPLE = 400_000
BLOCKS = 40  # of a sample, for the standard error of a ratio of variances
DIMENSIONS, KAPPA = 6, 0.3  # as HalfCheetah; a critic that is a little too low
MU = 0.7  # of the truncated law: one bound is one sigma away

# quantiles, density and reach of symmetric laws with standard deviation 1
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


def advantage(b: np.ndarray) -> np.ndarray:
    """A quadratic advantage around mu_old that takes both signs."""
    return OFFSET + TILT * b + BEND * b**2 / 2


def weight(rule: str, a: np.ndarray) -> np.ndarray:
    a = np.asarray(a, float)
    return {"cacla": (a > 0).astype(float), "cac": np.maximum(a, 0), "spg": a}[rule]


def uncentred(rule: str, law: str) -> float:
    """E[w(A) b] by quadrature between the roots of A."""
    _, density, reach = LAWS[law]
    roots = np.roots([BEND / 2, TILT, OFFSET]).real / SIGMA
    edges = np.unique(np.clip([-reach, 0.0, *roots, reach], -reach, reach))

    def pull(z):
        return weight(rule, advantage(SIGMA * z)) * SIGMA * z * density(np.asarray(z))

    pieces = itertools.pairwise(edges)
    return sum(integrate.quad(pull, *piece, limit=400)[0] for piece in pieces)


def check_step(sample: int = SAMPLE) -> CheckResult:
    """Every rule under three symmetric laws: the integral without a control variate, and
    training's loss with one."""
    left, right = [], []
    for rule in RULES:
        for law, (quantiles, *_) in LAWS.items():
            moved = SIGMA * quantiles(midpoints(sample))[:, None]
            left.append(uncentred(rule, law))
            right.append(
                training_step(rule, advantage(moved[:, 0]), moved, centred=True)[0]
            )
    numbers = {"rules x laws": len(left), "CACLA's step, normal law": left[0]}
    return equal(left, right, 1e-4, numbers)


def second_moments(kappa: float, m: int) -> tuple[float, float]:
    """E|w b|^2 and E|(w - c) b|^2 over sigma^2, of CACLA with A = c + g.b in m dimensions.

    Along g w is 1 beyond -kappa; across it w and b are independent:
    E[w |b|^2] = I_2(-kappa, inf) + (m - 1) Phi(kappa), and w^2 = w.
    """
    c = float(ndtr(kappa))
    plain = normal_moments(-kappa, np.inf, 2)[2] + (m - 1) * c
    return plain, (1 - 2 * c) * plain + c**2 * m


def variance_left(kappa: float, m: int) -> float:
    """Variance of the centred pull over that of the plain one, summed over m."""
    step = float(phi(kappa)) ** 2  # |E[w b]|^2 over sigma^2, the same for both
    plain, centred = second_moments(kappa, m)
    return (centred - step) / (plain - step)


def check_variance(sample: int = SAMPLE, seed: int = 0) -> CheckResult:
    """The closed form against a random sample, with its standard error."""
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(BLOCKS, sample // BLOCKS, DIMENSIONS))
    w = (KAPPA + b[..., 0] > 0).astype(float)[..., None]  # g along the first axis
    variance = lambda pull: pull.var(axis=1, ddof=1).sum(axis=-1)  # noqa: E731
    ratios = variance((w - w.mean(axis=1, keepdims=True)) * b) / variance(w * b)
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


def check_truncation(sample: int = SAMPLE) -> CheckResult:
    """What the control variate adds if noise is truncated at a bound: -E[w] E[b].

    R(a) = a, so A > 0 above the mean of the noise. Near the bound the plain step
    points back, so CACLA comes to rest inside; the centred step is the covariance of w
    and b, which is positive at every mu.
    """
    low, high = (-1 - MU) / SIGMA, (1 - MU) / SIGMA
    law = truncnorm(low, high, scale=SIGMA)
    moved = law.ppf(midpoints(sample))[:, None]
    better = moved[:, 0] - law.mean()
    plain = training_step("cacla", better, moved)[0]
    centred = training_step("cacla", better, moved, centred=True)[0]
    share = 1 - law.cdf(law.mean())
    numbers = {"plain step": plain, "centred step": centred, "E[b]": law.mean()}
    return equal(-share * law.mean(), centred - plain, 1e-5, numbers, also=centred > 0)


# --- figure and statements ---------------------------------------------------------------


def variance_figure() -> bytes:
    """The share of the pull's variance that a control variate leaves, by kappa."""
    figure, (a,) = canvas()
    fine = np.linspace(-2.5, 2.5, 200)
    for m, ink in ((1, GREY), (6, BLUE), (17, RED)):
        left = [variance_left(k, m) for k in fine]
        a.plot(fine, left, color=ink, linewidth=2, label=f"m = {m}")
    found = check_variance()
    a.plot([KAPPA], [found.right], "o", color=BLUE, label="a random sample")
    a.axhline(1, color=BLACK, linewidth=1)
    a.set(
        title="CACLA with a control variate",
        xlabel="kappa = c / (sigma |g|)",
        ylabel="variance left, as a share",
        ylim=(0, 1.1),
    )
    return png(figure, [a])


STATEMENTS = (
    Statement(
        "centred-step", "D23", False,
        "a control variate keeps the step at mu_old, for every rule and symmetric law",
        ("E[w b], no control variate", "training's loss with it"), "=",
        "Centred, an action pulls with w - c in place of w, where c is the mean weight. "
        "E[b] = 0, so E[(w - c) b] = E[w b]. Checked for CACLA, CAC and SPG with normal, "
        "uniform and Laplace noise; the left side is computed by quadrature.",
        check_step, variance_figure,
    ),
    Statement(
        "centred-variance", "D23", False,
        "a control variate removes over half of CACLA's variance in six dimensions",
        ("share left, by the closed form", "share left in a random sample"), "=",
        "With w = H(A) the centred weight is the sign of the advantage, centred: worse "
        "actions push mu away, as better ones pull it. E|w b|^2 falls from about m / 2 to "
        "m / 4; what remains is the variance of b itself.",
        check_variance, variance_figure,
    ),
    Statement(
        "centred-truncated", "D23, D7", False,
        "if noise is truncated at a bound, the control variate adds -E[w] E[b]",
        ("-E[w] E[b]", "centred step - plain step"), "=",
        "Truncated noise is not symmetric. Here R(a) = a, with mu one sigma from the bound. "
        "The added term points to the bound, and CACLA no longer rests inside it: the "
        "centred step is the covariance of w and b, which is positive for every mu.",
        check_truncation, variance_figure,
    ),
)  # fmt: skip
