"""Closed forms of the steps under Gaussian exploration, each by another route."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from penfac.theory import directions, gradients
from penfac.theory.gaussian import (
    linear_cac,
    linear_cacla,
    normal_moments,
    phi,
    positive_intervals,
    quadratic_cac,
    quadratic_cacla,
    true_offset,
)
from penfac.theory.training import normal_grid, standard_error, training_step

NUMBERS = st.floats(-3, 3).map(lambda x: round(x, 3))


def test_phi_is_scipys_density():
    z = np.linspace(-5, 5, 11)
    np.testing.assert_allclose(phi(z), norm.pdf(z), rtol=1e-14)


@pytest.mark.parametrize(
    ("low", "high"), [(-np.inf, np.inf), (-0.3, 1.2), (0.5, np.inf), (-np.inf, -1)]
)
def test_moments_between_two_ends_are_their_integrals(low, high):
    found = normal_moments(low, high, 4)
    for k, moment in enumerate(found):
        ends = max(low, -12), min(high, 12)
        wanted = integrate.quad(lambda z, k=k: z**k * norm.pdf(z), *ends)[0]
        np.testing.assert_allclose(moment, wanted, atol=1e-10)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_quadratic_is_positive_just_inside_its_intervals(c, g, h):
    z = np.linspace(-50, 50, 4001) + 1e-4 * np.pi
    inside = np.zeros(z.shape, bool)
    for low, high in positive_intervals(c, g, h):
        inside |= (z > low) & (z < high)
    worth = c + g * z + h * z**2 / 2
    clear = np.abs(worth) > 1e-9
    np.testing.assert_array_equal(inside[clear], (worth > 0)[clear])


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(0.05, 2))
def test_steps_of_a_quadratic_are_sums_over_a_fine_grid(c, g, h, sigma):
    """Any quadratic: with one interval, two, none; the integral as a plain sum."""
    z = np.linspace(-9, 9, 200_001)
    weight = phi(z) * (z[1] - z[0])
    a = c + g * sigma * z + h * (sigma * z) ** 2 / 2
    cac = np.sum(np.maximum(a, 0) * z * weight) / sigma
    np.testing.assert_allclose(quadratic_cac(c, g, h, sigma), cac, atol=1e-6 / sigma)
    cacla = np.sum((a > 0) * z * weight)
    np.testing.assert_allclose(quadratic_cacla(c, g, h, sigma), cacla, atol=2e-4)


@pytest.mark.parametrize("rule", ["cac", "cacla"])
@pytest.mark.parametrize("c", [-0.4, 0.0, 0.3])
def test_a_line_is_a_quadratic_that_does_not_bend(rule, c):
    """In one dimension Phi(kappa) g and phi(kappa) g / |g| are the limits h = 0."""
    g, sigma = np.array([-1.7]), 0.3
    line = {"cac": linear_cac, "cacla": linear_cacla}[rule](c, g, sigma)[0]
    bent = {"cac": quadratic_cac, "cacla": quadratic_cacla}[rule](c, g[0], 0.0, sigma)
    np.testing.assert_allclose(line, bent, rtol=1e-12)


def test_the_training_step_is_a_mean_over_the_sample():
    """Written out: the mean of w(A) b, nothing else; float64 throughout."""
    rng = np.random.default_rng(0)
    moved, judged = rng.normal(size=(500, 3)), rng.normal(size=500)
    weights = {"cacla": judged > 0, "cac": np.maximum(judged, 0), "spg": judged}
    for rule, weight in weights.items():
        wanted = (weight[:, None] * moved).mean(axis=0)
        found = training_step(rule, judged, moved)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_linear_closed_forms_in_any_dimension_against_random_actions(dimension):
    rng = np.random.default_rng(dimension)
    g, c, sigma = rng.normal(size=dimension), 0.2, 0.5
    moved = sigma * rng.normal(size=(100_000, dimension))
    judged = c + moved @ g
    for weight, closed, scale in (
        (np.maximum(judged, 0), linear_cac, sigma**2),
        (judged > 0, linear_cacla, sigma),
    ):
        terms = weight[:, None] * moved / scale
        off = np.linalg.norm(terms.mean(axis=0) - closed(c, g, sigma))
        assert off < 4 * standard_error(terms)


def test_a_true_advantage_averages_to_zero():
    z, h, g, sigma = normal_grid(100_001)[:, 0], -2.0, 0.7, 0.3
    a = true_offset(h, sigma) + g * sigma * z + h * (sigma * z) ** 2 / 2
    np.testing.assert_allclose(a.mean(), 0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_slope_of_the_network_is_that_of_finite_differences(seed):
    network, b = (
        gradients.Network(seed),
        np.random.default_rng(seed).normal(size=(4, 3)),
    )
    for k in range(3):
        step = 1e-6 * np.eye(3)[k]
        slope = (network(b + step) - network(b - step)) / 2e-6
        np.testing.assert_allclose(network.slope(b)[:, k], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_steins_identity_for_other_networks_and_widths(seed, sigma):
    assert gradients.check_stein(sample=60_000, seed=seed, sigma=sigma).holds


def test_cac_is_half_of_spg_for_every_odd_advantage():
    """E[A_+ b] = E[A b] / 2: each pair of opposite actions has one that is better."""
    z = normal_grid(50_000)
    for a in (np.sinh(z), z**5 - 3 * z**3, np.sin(2 * z)):
        cac = training_step("cac", a[:, 0], z)
        np.testing.assert_allclose(cac, training_step("spg", a[:, 0], z) / 2, rtol=1e-9)


def test_the_steps_of_the_bent_advantage_in_closed_form():
    found = directions.opposite()
    for rule in ("SPG", "CAC", "CACLA"):
        assert abs(found[rule] - found[f"{rule} by training"]) < 1e-3, rule


def test_the_two_dimensional_steps_against_random_actions():
    z = np.random.default_rng(0).normal(size=(400_000, 2))
    judged = directions.bent(z[:, 0]) + z[:, 1]
    spg, cacla = directions.two_dimensions()
    for weight, wanted in ((judged, spg), (judged > 0, cacla)):
        terms = weight[:, None] * z
        off = np.linalg.norm(terms.mean(axis=0) - wanted)
        assert off < 4 * standard_error(terms)
