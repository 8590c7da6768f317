"""Lemma 4.1: the limit of CAC's step as sigma goes to 0, and cases without that limit.

Divided by sigma^2, the step of CAC tends to half of DPG's: the same factor for every state
and every parameter. A(s, mu(s)) = -sigma^2 tr(H) / 2 + ... vanishes faster than the standard
deviation sigma |g| of A, so in the limit half of all actions are better than expected.
"""

import numpy as np
from scipy.special import ndtr

from penfac.theory import waves
from penfac.theory.canvas import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    RED,
    canvas,
    png,
)  # fmt: skip
from penfac.theory.gaussian import phi, quadratic_cac, true_offset
from penfac.theory.regulator import lemma_4_1_factor
from penfac.theory.statement import CheckResult, Statement, equal, same_sign
from penfac.theory.training import normal_grid, training_step

WIDE = np.linspace(-9.0, 9.0, 20_001)
SLOPE, HESSIAN = np.array([1.0, 0.05]), -np.array([[2.0, 1.0], [1.0, 2.0]])
KINK, ACROSS = 1.0, np.array([1.0, 1.0]) / np.sqrt(2)  # A = c + g.b + KINK |ACROSS.b|
KINKED_SLOPE = np.array([1.0, -0.05])
FINITE = 0.2  # sigma of the authors' program


def quadratic_factor(curve: float) -> float:
    """CAC / DPG of a true 1-D quadratic advantage; curve = sigma h / |g|."""
    return quadratic_cac(true_offset(curve, 1.0), 1.0, curve, 1.0)


def check_limit() -> CheckResult:
    """The factor on the regulator, whose advantage is known at every sigma."""
    numbers = {f"at sigma {s:g}": lemma_4_1_factor(s) for s in (1.0, 0.1, 0.01, 1e-4)}
    return equal(numbers["at sigma 0.0001"], 0.5, 1e-4, numbers)


def wave_example() -> tuple[waves.Waves, np.ndarray]:
    """Five states with transitions that depend on the action; mu(s) = theta f(s)."""
    rng = np.random.default_rng(3)
    problem = waves.random_waves(rng, (), 5, 1, 0.9)
    return problem._replace(w=rng.normal(size=(5, 1))), rng.normal(size=(5, 1))


def overall_step(theta: float, sigma: float) -> float:
    """sum_s d^pi(s) f(s) E[A^pi_+ b] / sigma^2: over the states that pi visits."""
    problem, feature = wave_example()
    mu = theta * feature
    v = waves.value(problem, mu, sigma)
    action = mu[..., None, :, :] + sigma * WIDE[:, None, None]  # [z, n, 1]
    better = np.maximum(waves.advantage(problem, v, action), 0)
    pull = np.trapezoid(better * (WIDE * phi(WIDE))[:, None], WIDE, axis=0) / sigma
    return float((waves.visits(problem, mu, sigma) * feature[:, 0]) @ pull)


def check_overall(theta: float = 0.4, width: float = 1e-5) -> CheckResult:
    """The update over all states: CAC / sigma^2 tends to 1/2 grad J(mu)."""
    problem, feature = wave_example()
    ends = [
        waves.performance(problem, t * feature, 0.0)
        for t in (theta + width, theta - width)
    ]
    half = float(ends[0] - ends[1]) / (2 * width) / 2
    numbers = {f"at sigma {s:g}": overall_step(theta, s) for s in (0.3, 0.03, 1e-3)}
    return equal(numbers["at sigma 0.001"], half, 1e-2 * abs(half), numbers)


def first_order(g: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """d/dsigma of CAC / sigma^2 at 0: phi(0) (H e - (e'He) e / 2), e = g / |g|.

    The first term is H E[1{A > 0} b], the second the effect of curvature on P(A > 0).
    """
    e = g / np.linalg.norm(g)
    return phi(0) * (hessian @ e - (e @ hessian @ e) * e / 2)


def check_rate() -> CheckResult:
    """The factor is 1/2 + sigma h / (2 |g| sqrt(2 pi)) to first order."""
    small = 1e-4
    slope = (quadratic_factor(small) - quadratic_factor(-small)) / (2 * small)
    sigma = 1e-3
    flat = (quadratic_in_two(SLOPE, HESSIAN, sigma) - SLOPE / 2) / sigma
    formula = first_order(SLOPE, HESSIAN)
    numbers = {
        "factor at sigma h / |g| = -0.01": quadratic_factor(-0.01),
        "factor at sigma h / |g| = -0.1": quadratic_factor(-0.1),
        "factor at sigma h / |g| = -1": quadratic_factor(-1.0),
        "in two dimensions, second component": flat[1],
        "the same by the formula": formula[1],
    }
    near = bool(np.abs(flat - formula).max() < 2e-3)
    return equal(slope, 1 / (2 * np.sqrt(2 * np.pi)), 1e-6, numbers, also=near)


def check_biased(e: float = -0.16, g: float = 1.0, sigma: float = 0.2) -> CheckResult:
    """A critic that is off by e: the factor is Phi(e / (sigma |g|))."""
    moved = sigma * normal_grid(400_000)
    trained = training_step("cac", e + g * moved[:, 0], moved)[0] / sigma**2 / g
    numbers = {
        f"offset {x:+g}, sigma {s:g}": ndtr(x / s)
        for x in (-0.16, 0.16)
        for s in (0.2, 0.05)
    }
    return equal(trained, ndtr(e / (sigma * g)), 1e-4, numbers)


def quadratic_in_two(g: np.ndarray, hessian: np.ndarray, sigma: float) -> np.ndarray:
    """E[A_+ b] / sigma^2 of a true quadratic advantage in two dimensions.

    By Stein E[1{A > 0} (g + H b)]. Given z_1 the advantage is a concave quadratic of
    z_2: between its roots, the integral over z_2 has a closed form; over z_1 it is a sum.
    """
    h11, h12, h22 = hessian[0, 0], hessian[0, 1], hessian[1, 1]
    c = sigma * (h11 * (WIDE**2 - 1) - h22) / 2 + g[0] * WIDE  # A / sigma at z_2 = 0
    b, a = g[1] + sigma * h12 * WIDE, sigma * h22 / 2
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0))
    low, high = (-b + root) / (2 * a), (-b - root) / (2 * a)  # a < 0: low <= high
    zeroth, first = ndtr(high) - ndtr(low), phi(low) - phi(high)
    one, two = (
        np.trapezoid(part * phi(WIDE), WIDE)
        for part in (
            (g[0] + sigma * h11 * WIDE) * zeroth + sigma * h12 * first,
            (g[1] + sigma * h12 * WIDE) * zeroth + sigma * h22 * first,
        )
    )
    return np.array([one, two])


def check_finite_sigma() -> CheckResult:
    """At sigma = 0.2 one component of CAC's step has the opposite sign of DPG's."""
    found = {s: quadratic_in_two(SLOPE, HESSIAN, s) for s in (0.01, 0.1, FINITE)}
    numbers = {f"CAC at sigma {s:g}, component 2": x[1] for s, x in found.items()}
    numbers |= {f"CAC at sigma {s:g}, component 1": x[0] for s, x in found.items()}
    return same_sign(found[FINITE][1], SLOPE[1], numbers)


def kinked_factor(right: float, left: float) -> float:
    """CAC / SPG for slopes `right` and `left` of 0, at every sigma.

    A(b) = c + right b_+ - left b_-, c = -sigma phi(0) (right - left) so that E[A] = 0.
    This offset is of the order of the standard deviation of A and does not vanish.
    """
    c = -phi(0) * (right - left)
    pieces = ((right, 0.0, np.inf), (left, -np.inf, 0.0))
    share = 0.0
    for slope, low, high in pieces:
        root = -c / slope
        if slope > 0:
            low = max(low, root)
        else:
            high = min(high, root)
        share += slope * max(0.0, float(ndtr(high) - ndtr(low)))
    return share / ((right + left) / 2)


def kinked_in_two(g: np.ndarray, kink: float, across: np.ndarray) -> np.ndarray:
    """E[A_+ b] / sigma^2 for A = c + g.b + kink |across.b|, the same for every sigma.

    c = -sigma kink sqrt(2 / pi). With u = across.z and v at a right angle to it A is
    linear in v, so the integrals over v have a closed form.
    """
    aside = np.array([-across[1], across[0]])
    gu, gv = float(g @ across), float(g @ aside)
    u = WIDE
    level = -kink * np.sqrt(2 / np.pi) + gu * u + kink * np.abs(u)
    better = ndtr(level / abs(gv)) * phi(u)  # P(A > 0 | u) times the density
    share, leaning = np.trapezoid(better, u), np.trapezoid(better * np.sign(u), u)
    return g * share + kink * across * leaning


def check_kink() -> CheckResult:
    """At a kink one component of CAC's step has the wrong sign at every sigma."""
    step = kinked_in_two(KINKED_SLOPE, KINK, ACROSS)
    numbers = {
        "SPG's step, component 1": KINKED_SLOPE[0],
        "CAC's step, component 1": step[0],
        "1-D factor, slopes 1 and 0.5": kinked_factor(1.0, 0.5),
        "1-D factor, slopes 2 and -1": kinked_factor(2.0, -1.0),
        "1-D factor, slopes -1 and 2": kinked_factor(-1.0, 2.0),
    }
    return same_sign(step[1], KINKED_SLOPE[1], numbers)


# --- figure and statements ---------------------------------------------------------------


def factor_figure() -> bytes:
    """CAC / DPG over sigma: smooth, biased, kinked; and a sign that is lost."""
    figure, (left, right) = canvas(2)
    curves = np.geomspace(1e-3, 10, 120)
    for sign, name, ink in ((-1, "concave", BLUE), (1, "convex", GREEN)):
        values = [quadratic_factor(sign * c) for c in curves]
        left.semilogx(
            curves, values, color=ink, linewidth=2, label=f"{name} A, |h| = |g|"
        )
    for offset, style in ((0.1, "-"), (-0.1, "--")):
        left.semilogx(
            curves, ndtr(offset / curves), style, color=ORANGE,
            label=f"linear A, critic off by {offset:+g} |g|",
        )  # fmt: skip
    for slopes, style in (((2.0, -1.0), "-"), ((-1.0, 2.0), "--")):
        left.axhline(
            kinked_factor(*slopes), color=PINK, linestyle=style,
            label=f"kink, slopes {slopes[1]:g} | {slopes[0]:g}",
        )  # fmt: skip
    left.axhline(0.5, color=GREY, linewidth=0.8)
    left.set(
        title="CAC / sigma^2 over the mean slope of A",
        xlabel="sigma",
        ylabel="factor",
        ylim=(-0.05, 1.75),  # room for the legend
    )
    sigmas = np.geomspace(1e-3, 1, 60)
    steps = np.array([quadratic_in_two(SLOPE, HESSIAN, s) for s in sigmas])
    line = SLOPE / 2 + sigmas[:, None] * first_order(SLOPE, HESSIAN)
    right.axhline(SLOPE[1] / 2, color=GREY, label="half of DPG")
    right.semilogx(sigmas, steps[:, 1], color=BLUE, linewidth=2, label="CAC / sigma^2")
    near = sigmas < 0.25
    right.semilogx(sigmas[near], line[near, 1], "--", color=RED, label="first order")
    right.axhline(0, color=BLACK, linewidth=0.8)
    right.set(title="Second component, g = (1, 0.05)", xlabel="sigma", ylabel="step")
    return png(figure, [left, right])


STATEMENTS = (
    Statement(
        "lemma-4-1", "Lemma 4.1", True,
        "as sigma goes to 0, CAC / sigma^2 is DPG times a factor: exactly 1/2",
        ("the factor on the regulator, sigma 1e-4", "1/2"), "=",
        "Printed without the 1/sigma^2, the left side tends to 0; with mu - a, its sign is "
        "that of a descent. With both corrected, the factor that the lemma places in "
        "[0, 1] is 1/2 for every state and parameter: half of all actions are better than "
        "expected. Checked on the double integrator, whose advantage is known at every "
        "sigma.",
        check_limit, factor_figure,
    ),
    Statement(
        "lemma-4-1-overall", "Lemma 4.1", False,
        "over all states: the whole update tends to 1/2 grad J(mu)",
        ("CAC's update over all states, sigma 1e-3", "1/2 dJ, by differences"), "=",
        "Five states whose transitions depend on the action, and one shared parameter. "
        "Visits, values and advantages are those of pi at each sigma.",
        check_overall, factor_figure,
    ),
    Statement(
        "lemma-4-1-rate", "Lemma 4.1", False,
        "the factor is 1/2 + sigma h / (2 |g| sqrt(2 pi)) + ...",
        ("slope of the factor at 0", "1 / (2 sqrt(2 pi))"), "=",
        "In m dimensions the first-order term of CAC / sigma^2 is sigma phi(0) "
        "(H e - (e'He) e / 2) with e = g / |g|. It changes the direction of the step "
        "unless e is an eigenvector of H.",
        check_rate, factor_figure,
    ),
    Statement(
        "lemma-4-1-biased", "Lemma 4.1", False,
        "with a critic that is off by e the factor is Phi(e / (sigma |g|))",
        ("training's step over DPG's", "Phi(kappa)"), "=",
        "Any factor between 0 and 1 can occur. If the offset does not vanish with sigma, "
        "the factor tends to 1 or to 0. This is the interval of the lemma, and the reason "
        "why CAC does not move in a state that the critic underestimates.",
        check_biased, factor_figure,
    ),
    Statement(
        "lemma-4-1-finite", "Lemma 4.1", False,
        "CAC keeps the sign of each component at sigma = 0.2",
        ("component 2 of CAC", "component 2 of DPG"), "same sign",
        "It does not: the lemma is about the limit. With g = (1, 0.05) and a concave "
        "quadratic of Hessian -(2 1; 1 2), the second component has the wrong sign at "
        "sigma = 0.1 already. CAC still ascends: its step makes an acute angle with g.",
        check_finite_sigma, factor_figure,
    ),
    Statement(
        "lemma-4-1-kink", "Lemma 4.1", False,
        "CAC keeps the sign of each component where A has a kink",
        ("component 2 of CAC", "component 2 of SPG"), "same sign",
        "It does not have to, however small sigma is: at a kink A(s, mu(s)) is as large as "
        "the standard deviation of A. The lemma needs an advantage that is differentiable "
        "at mu(s). In one dimension the factor is no longer 1/2, but still in [0, 1].",
        check_kink, factor_figure,
    ),
)  # fmt: skip
