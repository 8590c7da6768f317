"""SAC's equations: likelihoods against quadrature, the others against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy import stats

from penfac.core.noise import squashed_gaussian
from penfac.core.sac import (
    LOG_SIGMA,
    bounded_sigma,
    log_slope_of_tanh,
    soft_actor_loss,
    soft_target,
    soft_value,
    squashed_log_likelihood,
    temperature_loss,
)

B, M, K = 6, 3, 2
POLICIES = [(0.0, 1.0), (0.7, 0.3), (-1.5, 0.8), (0.2, 3.0)]  # m, sigma
single = pytest.mark.parametrize(("mean", "sigma"), POLICIES)


def draw(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def density(u, mean, sigma):
    """pi(tanh(u)) of one dimension."""
    column = jnp.asarray(u, jnp.float32)[:, None]
    full = lambda x: jnp.full_like(column, x)  # noqa: E731
    log_pi = squashed_log_likelihood(column, full(mean), full(sigma))
    return np.exp(np.asarray(log_pi, float))


@single
def test_the_density_of_actions_integrates_to_one(mean, sigma):
    """Over (-1, 1) in a, by the trapezoidal rule on a grid that is even in u."""
    u = np.linspace(mean - 9 * sigma, mean + 9 * sigma, 20_001)
    slope = 1 / np.cosh(u) ** 2  # da/du, by its definition
    assert np.trapezoid(density(u, mean, sigma) * slope, u) == pytest.approx(
        1, abs=1e-4
    )


@single
def test_the_density_is_the_slope_of_the_distribution_function(mean, sigma):
    """d/da of P(tanh(u) <= a) = Phi((artanh(a) - m) / sigma), by differences."""
    a, step = np.linspace(-0.95, 0.95, 39), 1e-6
    below, above = (
        stats.norm(mean, sigma).cdf(np.arctanh(a + side)) for side in (-step, step)
    )
    expected = (above - below) / (2 * step)
    np.testing.assert_allclose(
        density(np.arctanh(a), mean, sigma), expected, rtol=1e-4, atol=1e-7
    )


def test_dimensions_are_independent():
    u, mean, sigma = draw(0, B, M), draw(1, B, M), jnp.exp(draw(2, B, M))
    whole = squashed_log_likelihood(u, mean, sigma)
    parts = [
        squashed_log_likelihood(u[:, [k]], mean[:, [k]], sigma[:, [k]])
        for k in range(M)
    ]
    np.testing.assert_allclose(whole, sum(parts), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("u", [0.0, 1.0, -3.0, 8.0, -20.0, 80.0])
def test_the_slope_of_tanh_is_right_where_tanh_has_rounded_to_one(u):
    """log(1 - tanh^2) = -2 log cosh u, and its derivative -2 tanh u: both finite."""
    expected = -2 * np.logaddexp(u, -u) + 2 * np.log(2)
    slope = jax.grad(lambda u: log_slope_of_tanh(u)[0])(jnp.array([u], jnp.float32))
    found = log_slope_of_tanh(jnp.array([u], jnp.float32))
    np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slope[0], -2 * np.tanh(u), rtol=1e-5, atol=1e-6)


@single
def test_samples_have_the_likelihood_that_they_are_given(mean, sigma):
    """The mean of log pi over samples of the law is minus the entropy by quadrature."""
    levels = (np.arange(200_000) + 0.5) / 200_000  # quantiles, not draws: no luck
    u = stats.norm(mean, sigma).ppf(levels)
    action = squashed_gaussian(np.full(u.shape, mean), sigma, levels, scipy.special)
    np.testing.assert_allclose(action, np.tanh(u), atol=1e-12)
    grid = np.linspace(mean - 9 * sigma, mean + 9 * sigma, 20_001)
    log_pi = np.log(density(grid, mean, sigma))
    weight = stats.norm(mean, sigma).pdf(grid)
    by_quadrature = np.trapezoid(weight * log_pi, grid)
    sampled = np.mean(np.log(density(u, mean, sigma)))
    assert sampled == pytest.approx(by_quadrature, abs=1e-3)


def test_sigma_is_bounded_in_its_logarithm():
    """Inside it is exp and learns; outside it stands at the bound and has no gradient."""
    low, high = LOG_SIGMA
    log_sigma = jnp.array([low - 5, low + 1, 0.3, high - 0.1, high + 5])
    bounded = np.clip(np.asarray(log_sigma, float), low, high)
    np.testing.assert_allclose(bounded_sigma(log_sigma), np.exp(bounded), rtol=1e-6)
    slope = jax.grad(lambda x: jnp.sum(jnp.log(bounded_sigma(x))))(log_sigma)
    np.testing.assert_allclose(slope, [0, 1, 1, 1, 0], atol=1e-6)


# --- values and losses ----------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.2, 3.0])
def test_the_soft_target_row_by_row(alpha):
    """R + d (min_k Q_k - alpha log pi); behind a termination the reward alone."""
    q, log_pi, reward = draw(0, K, B), draw(1, B), draw(2, B)
    discount = jnp.where(jnp.arange(B) % 3 == 0, 0.0, 0.97)
    target = soft_target(reward, discount, soft_value(q, log_pi, alpha))
    for i in range(B):
        v = min(float(q[0, i]), float(q[1, i])) - alpha * float(log_pi[i])
        expected = float(reward[i]) + float(discount[i]) * v
        np.testing.assert_allclose(target[i], expected, rtol=1e-5, atol=1e-6)


def test_the_actor_descends_alpha_log_pi_minus_the_least_q():
    """Its value, and its gradient: -1/B on the least critic of each row, alpha/B on log pi."""
    q, log_pi, alpha = draw(0, K, B), draw(1, B), 0.3
    value = soft_actor_loss(q, log_pi, alpha)
    expected = np.mean(alpha * np.asarray(log_pi) - np.min(np.asarray(q), axis=0))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    up, down = jax.grad(soft_actor_loss, argnums=(0, 1))(q, log_pi, alpha)
    least = np.asarray(q) == np.min(np.asarray(q), axis=0)
    np.testing.assert_allclose(up, np.where(least, -1 / B, 0), atol=1e-7)
    np.testing.assert_allclose(down, np.full(B, alpha / B), rtol=1e-6)


@pytest.mark.parametrize("excess", [-0.5, 0.5])
def test_the_temperature_falls_while_the_entropy_is_above_its_target(excess):
    """The gradient in log alpha is entropy - target, whatever alpha is."""
    log_pi, target = draw(0, B), 0.0
    entropy = -np.mean(np.asarray(log_pi))
    for log_alpha in (-3.0, 0.0, 2.0):
        slope = jax.grad(temperature_loss)(
            jnp.float32(log_alpha), log_pi, float(entropy - excess) + target
        )
        np.testing.assert_allclose(slope, excess, rtol=1e-4)
