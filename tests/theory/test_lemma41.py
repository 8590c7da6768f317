"""Lemma 4.1: the factor 1/2, how it is left, and what breaks it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from penfac.theory import lemma41, regulator
from penfac.theory.gaussian import phi
from penfac.theory.training import normal_grid, standard_error, training_step


def by_grid(advantage, sigma: float, points: int = 1501) -> np.ndarray:
    """E[A_+ b] / sigma^2 in two dimensions: the definition on a square grid."""
    z = np.linspace(-7, 7, points)
    first, second = np.meshgrid(z, z, indexing="ij")
    weight = np.maximum(advantage(sigma * first, sigma * second), 0)
    weight *= phi(first) * phi(second) * (z[1] - z[0]) ** 2
    return np.array([(weight * first).sum(), (weight * second).sum()]) / sigma


@pytest.mark.parametrize("sigma", [0.01, 0.2, 0.8])
def test_the_quadratic_in_two_dimensions_against_a_grid(sigma):
    g, h = lemma41.SLOPE, lemma41.HESSIAN

    def advantage(x, y):
        bend = h[0, 0] * x**2 + 2 * h[0, 1] * x * y + h[1, 1] * y**2
        return g[0] * x + g[1] * y + (bend - sigma**2 * np.trace(h)) / 2

    found = lemma41.quadratic_in_two(g, h, sigma)
    np.testing.assert_allclose(found, by_grid(advantage, sigma), atol=2e-5)


@pytest.mark.parametrize("sigma", [1e-3, 0.3])
def test_the_kink_in_two_dimensions_against_a_grid_at_any_sigma(sigma):
    g, n, kink = lemma41.KINKED_SLOPE, lemma41.ACROSS, lemma41.KINK

    def advantage(x, y):
        sharp = kink * np.abs(n[0] * x + n[1] * y)
        return g[0] * x + g[1] * y + sharp - kink * sigma * np.sqrt(2 / np.pi)

    found = lemma41.kinked_in_two(g, kink, n)
    np.testing.assert_allclose(found, by_grid(advantage, sigma), atol=1e-4)


@pytest.mark.parametrize("slopes", [(1.0, 0.5), (2.0, -1.0), (-1.0, 2.0), (0.3, 4.0)])
def test_the_factor_at_a_kink_against_training(slopes):
    right, left = slopes
    z = normal_grid(400_000)
    judged = np.where(z[:, 0] > 0, right, left) * z[:, 0]
    judged = judged - judged.mean()
    step = training_step("cac", judged, z)[0] / training_step("spg", judged, z)[0]
    np.testing.assert_allclose(lemma41.kinked_factor(*slopes), step, atol=1e-4)


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_at_a_kink_in_one_dimension_the_factor_stays_between_0_and_1(right, left):
    if min(abs(right), abs(left), abs(right + left)) > 1e-2:
        assert -1e-9 <= lemma41.kinked_factor(right, left) <= 1 + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_first_order_in_many_dimensions_against_random_actions(seed):
    """CAC / sigma^2 = g / 2 + sigma phi(0) (H e - (e'He) e / 2) + ..., by pairs b, -b
    whose even parts cancel all but the terms of first order."""
    rng = np.random.default_rng(seed)
    g, h = rng.normal(size=4), rng.normal(size=(4, 4))
    h, sigma = h + h.T, 0.02
    z = rng.normal(size=(200_000, 4))
    bend = sigma * (np.einsum("ni,ij,nj->n", z, h, z) - np.trace(h)) / 2

    def pull(sign):
        return np.maximum(sign * z @ g + bend, 0)[:, None] * sign * z

    terms = ((pull(1) + pull(-1)) / 2 - (z @ g)[:, None] * z / 2) / sigma
    off = np.linalg.norm(terms.mean(axis=0) - lemma41.first_order(g, h))
    assert off < 4 * standard_error(terms) + 0.2 * sigma


def test_the_factor_on_the_regulator_goes_to_a_half_in_proportion_to_sigma():
    far, near = (0.5 - regulator.lemma_4_1_factor(s) for s in (2e-3, 1e-3))
    assert near > 0
    np.testing.assert_allclose(far / near, 2, rtol=1e-2)


def test_the_regulators_advantage_in_closed_form_is_its_q_minus_v():
    """-2 u'Es - u'Mu + sigma^2 tr M, against one step of the dynamics."""
    from penfac.envs.lqr import DOUBLE_INTEGRATOR, value

    lqr, sigma = DOUBLE_INTEGRATOR, 0.3
    e, m, c = regulator.advantage(lqr, regulator.GAIN, sigma)
    p, offset = value(lqr, regulator.GAIN, sigma)
    s = regulator.STATE
    for u in (-0.7, 0.0, 1.3):
        told = float((-2 * u * e @ s)[0] - u * m[0, 0] * u + c)
        q = regulator.q_value(lqr, regulator.GAIN, sigma, u)
        np.testing.assert_allclose(told, q + s @ p @ s + offset, rtol=1e-9, atol=1e-9)


def test_the_whole_update_goes_to_half_the_gradient_at_other_parameters():
    for theta in (-1.0, 0.0, 1.5):
        assert lemma41.check_overall(theta).holds


def test_a_fixed_offset_takes_all_of_the_step_or_none_of_it():
    assert ndtr(0.16 / 0.02) > 1 - 1e-12
    assert lemma41.check_biased(e=-0.16, sigma=0.02).left < 1e-12
    assert lemma41.check_biased(e=0.16, sigma=0.02).left > 1 - 1e-4
