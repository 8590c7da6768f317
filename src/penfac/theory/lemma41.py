"""Lemma 4.1: what becomes of CAC's step as exploration goes to 0, and where it does not.

With its 1/sigma^2 the step of CAC tends to half of DPG's: one number for every state and
every parameter. A(s, mu(s)) = -sigma^2 tr(H) / 2 + ... vanishes faster than the spread
sigma |g| of A, so in the end half of all actions are better than expected.
"""

import numpy as np
from scipy.special import ndtr

from penfac.theory import waves
from penfac.theory.finding import Finding, equal, same_sign
from penfac.theory.gaussian import phi, quadratic_cac, true_offset
from penfac.theory.regulator import lemma_4_1_factor
from penfac.theory.training import normal_grid, training_step

WIDE = np.linspace(-9.0, 9.0, 20_001)
SLOPE, HESSIAN = np.array([1.0, 0.05]), -np.array([[2.0, 1.0], [1.0, 2.0]])
KINK, ACROSS = 1.0, np.array([1.0, 1.0]) / np.sqrt(2)  # A = c + g.b + KINK |ACROSS.b|
KINKED_SLOPE = np.array([1.0, -0.05])
FINITE = 0.2  # the sigma of the authors' program


def quadratic_factor(curve: float) -> float:
    """CAC / DPG of a true 1-D quadratic advantage; curve = sigma h / |g|."""
    return quadratic_cac(true_offset(curve, 1.0), 1.0, curve, 1.0)


def limit() -> Finding:
    """On the regulator, its own advantage at finite sigma: the factor tends to 1/2."""
    numbers = {f"at sigma {s:g}": lemma_4_1_factor(s) for s in (1.0, 0.1, 0.01, 1e-4)}
    return equal(numbers["at sigma 0.0001"], 0.5, 1e-4, numbers)


def wave_example() -> tuple[waves.Waves, np.ndarray]:
    """Five states, transitions that the action moves; mu(s) = theta f(s)."""
    rng = np.random.default_rng(3)
    problem = waves.random_waves(rng, (), 5, 1, 0.9)
    return problem._replace(w=rng.normal(size=(5, 1))), rng.normal(size=(5, 1))


def overall_step(theta: float, sigma: float) -> float:
    """sum_s d^pi(s) f(s) E[A^pi_+ b] / sigma^2: all states, visited as pi visits them."""
    problem, feature = wave_example()
    mu = theta * feature
    v = waves.value(problem, mu, sigma)
    action = mu[..., None, :, :] + sigma * WIDE[:, None, None]  # [z, n, 1]
    better = np.maximum(waves.advantage(problem, v, action), 0)
    pull = np.trapezoid(better * (WIDE * phi(WIDE))[:, None], WIDE, axis=0) / sigma
    return float((waves.visits(problem, mu, sigma) * feature[:, 0]) @ pull)


def overall(theta: float = 0.4, width: float = 1e-5) -> Finding:
    """The whole update, over all states: CAC / sigma^2 tends to 1/2 grad J(mu)."""
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

    The first term is H E[1{A > 0} b], the second what bending takes from P(A > 0).
    """
    e = g / np.linalg.norm(g)
    return phi(0) * (hessian @ e - (e @ hessian @ e) * e / 2)


def rate() -> Finding:
    """The factor leaves 1/2 along sigma h / (2 |g| sqrt(2 pi))."""
    small = 1e-4
    slope = (quadratic_factor(small) - quadratic_factor(-small)) / (2 * small)
    sigma = 1e-3
    flat = (quadratic_in_two(SLOPE, HESSIAN, sigma) - SLOPE / 2) / sigma
    told = first_order(SLOPE, HESSIAN)
    numbers = {
        "factor at sigma h / |g| = -0.01": quadratic_factor(-0.01),
        "... at -0.1": quadratic_factor(-0.1),
        "... at -1": quadratic_factor(-1.0),
        "in two dimensions, second component": flat[1],
        "... by the formula": told[1],
    }
    near = bool(np.abs(flat - told).max() < 2e-3)
    return equal(slope, 1 / (2 * np.sqrt(2 * np.pi)), 1e-6, numbers, also=near)


def biased(e: float = -0.16, g: float = 1.0, sigma: float = 0.2) -> Finding:
    """A critic that is off by e: the factor is Phi(e / (sigma |g|))."""
    moved = sigma * normal_grid(400_000)
    followed = training_step("cac", e + g * moved[:, 0], moved)[0] / sigma**2 / g
    shrinking = {
        f"offset {x:+g}, sigma {s:g}": ndtr(x / s)
        for x in (-0.16, 0.16)
        for s in (0.2, 0.05)
    }
    return equal(followed, ndtr(e / (sigma * g)), 1e-4, shrinking)


def quadratic_in_two(g: np.ndarray, hessian: np.ndarray, sigma: float) -> np.ndarray:
    """E[A_+ b] / sigma^2 of a true quadratic advantage in two dimensions.

    By Stein E[1{A > 0} (g + H b)]. Given z_1 the advantage is a concave quadratic of
    z_2: between its roots l and u the integrals over z_2 are closed, over z_1 a sum.
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


def finite_sigma() -> Finding:
    """At sigma = 0.2 a component of CAC's step has the other sign than DPG's."""
    found = {s: quadratic_in_two(SLOPE, HESSIAN, s) for s in (0.01, 0.1, FINITE)}
    numbers = {f"CAC at sigma {s:g}, component 2": x[1] for s, x in found.items()}
    numbers |= {f"CAC at sigma {s:g}, component 1": x[0] for s, x in found.items()}
    return same_sign(found[FINITE][1], SLOPE[1], numbers)


def kinked_factor(right: float, left: float) -> float:
    """CAC / SPG for slopes `right` and `left` of 0, whatever sigma is.

    A(b) = c + right b_+ - left b_-, c = -sigma phi(0) (right - left) so that E[A] = 0:
    an offset as large as the spread, which is why nothing vanishes.
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
    linear in v, so that the integrals over v are closed.
    """
    aside = np.array([-across[1], across[0]])
    gu, gv = float(g @ across), float(g @ aside)
    u = WIDE
    level = -kink * np.sqrt(2 / np.pi) + gu * u + kink * np.abs(u)
    better = ndtr(level / abs(gv)) * phi(u)  # P(A > 0 | u), weighed
    share, leaning = np.trapezoid(better, u), np.trapezoid(better * np.sign(u), u)
    return g * share + kink * across * leaning


def kinked() -> Finding:
    """A kink: a component of CAC's step keeps the wrong sign however small sigma is."""
    step = kinked_in_two(KINKED_SLOPE, KINK, ACROSS)
    numbers = {
        "SPG's step, component 1": KINKED_SLOPE[0],
        "CAC's step, component 1": step[0],
        "1-D factor, slopes 1 and 0.5": kinked_factor(1.0, 0.5),
        "... 2 and -1": kinked_factor(2.0, -1.0),
        "... -1 and 2": kinked_factor(-1.0, 2.0),
    }
    return same_sign(step[1], KINKED_SLOPE[1], numbers)
