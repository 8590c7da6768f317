"""Steps under Gaussian exploration in closed form  (Eq. 8, Sec. 4.2).

b = a - mu(s) ~ N(0, sigma^2 I). All steps are ascents: minus the paper's Delta, which has
mu(s) - a. CAC and SPG are divided by sigma^2 and CACLA by sigma, so that they have limits.
"""

import numpy as np
from scipy.special import ndtr

Interval = tuple[float, float]


def phi(z):
    """Density of N(0, 1)."""
    return np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi)


def normal_moments(low: float, high: float, order: int) -> list[float]:
    """I_k = integral of z^k phi(z) from low to high, for k = 0 to order.

    By parts: I_k = (k - 1) I_{k-2} + low^{k-1} phi(low) - high^{k-1} phi(high).
    """

    def edge(z: float, k: int) -> float:
        return 0.0 if np.isinf(z) else float(z**k * phi(z))

    found = [float(ndtr(high) - ndtr(low)), edge(low, 0) - edge(high, 0)]
    for k in range(2, order + 1):
        found.append((k - 1) * found[k - 2] + edge(low, k - 1) - edge(high, k - 1))
    return found[: order + 1]


def kappa(c: float, g: np.ndarray, sigma: float) -> float:
    """c / (sigma |g|): the mean of A in its standard deviations."""
    return float(c / (sigma * np.linalg.norm(g)))


def linear_cac(c: float, g: np.ndarray, sigma: float) -> np.ndarray:
    """E[A_+ b] / sigma^2 = Phi(kappa) g  for A = c + g.b, in any dimension."""
    return ndtr(kappa(c, g, sigma)) * g


def linear_cacla(c: float, g: np.ndarray, sigma: float) -> np.ndarray:
    """E[1{A > 0} b] / sigma = phi(kappa) g / |g|  for A = c + g.b, in any dimension."""
    return phi(kappa(c, g, sigma)) * g / np.linalg.norm(g)


def positive_intervals(c: float, g: float, h: float) -> list[Interval]:
    """Where c + g z + h z^2 / 2 > 0, from left to right."""
    if h == 0:
        if g == 0:
            return [(-np.inf, np.inf)] if c > 0 else []
        root = -c / g
        return [(root, np.inf)] if g > 0 else [(-np.inf, root)]
    inside = g * g - 2 * h * c
    if inside <= 0:
        return [(-np.inf, np.inf)] if h > 0 else []
    # the root of larger size first: the other from the product of both, 2c / h
    far = -(g + np.copysign(np.sqrt(inside), g)) / h
    near = 2 * c / h / far if far != 0 else 0.0
    low, high = sorted((float(far), float(near)))
    return [(low, high)] if h < 0 else [(-np.inf, low), (high, np.inf)]


def quadratic_cac(c: float, g: float, h: float, sigma: float) -> float:
    """E[A_+ b] / sigma^2 = (c / sigma) I_1 + g I_2 + (h sigma / 2) I_3, summed over the
    intervals where A = c + g b + h b^2 / 2 is positive, b = sigma z."""
    found = 0.0
    for interval in positive_intervals(c, g * sigma, h * sigma**2):
        _, first, second, third = normal_moments(*interval, 3)
        found += c / sigma * first + g * second + h * sigma / 2 * third
    return found


def quadratic_cacla(c: float, g: float, h: float, sigma: float) -> float:
    """E[1{A > 0} b] / sigma = I_1, summed over the intervals where A is positive."""
    intervals = positive_intervals(c, g * sigma, h * sigma**2)
    return sum(normal_moments(*interval, 1)[1] for interval in intervals)


def true_offset(h: float, sigma: float) -> float:
    """A(s, mu(s)) = -h sigma^2 / 2: the c with which a quadratic averages to 0 under pi,
    as every advantage of pi does."""
    return -h * sigma**2 / 2
