"""Theorem 5.2: the printed bound, and a corrected one."""

import numpy as np
from scipy.special import gammaln


def mean_norm(dimension: int, sigma):
    """E|b| = sigma sqrt 2 Gamma((m + 1) / 2) / Gamma(m / 2), b ~ N(0, sigma^2 I)."""
    half = dimension / 2
    return sigma * np.sqrt(2) * np.exp(gammaln(half + 0.5) - gammaln(half))


def printed_bound(epsilon, lipschitz, gamma, distance, dimension: int, sigma):
    """epsilon L / (1 - gamma) max_t (|mu~ - mu| + 2 m sigma / sqrt(2 pi))^t.

    Below 1 the largest power is the first; above 1 there is none.
    """
    reach = distance + 2 * dimension * sigma / np.sqrt(2 * np.pi)
    return epsilon * lipschitz / (1 - gamma) * np.where(reach <= 1, reach, np.inf)


def corrected_bound(epsilon, lipschitz, gamma, distance, dimension: int, sigma):
    """epsilon L I(S) gamma / (1 - gamma)^2 (|mu~ - mu| + E|b|), with I(S) = 1.

    From d~ - d = gamma d (P~ - P) (I - gamma P~)^-1, whose factors have the norms
    1 / (1 - gamma), L I(S) (|mu~ - mu| + E|b|) and 1 / (1 - gamma).
    """
    reach = distance + mean_norm(dimension, sigma)
    return epsilon * lipschitz * gamma / (1 - gamma) ** 2 * reach


def total_variation_bound(epsilon, gamma, swing):
    """epsilon gamma / (1 - gamma)^2 max_s |P~(s) - P(s)|_1: the same before L enters."""
    return epsilon * gamma / (1 - gamma) ** 2 * swing
