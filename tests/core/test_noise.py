"""Exploration laws against scipy's, and where they leave a policy  (Eq. 5)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from penfac.core.actor import cac_weight, cacla_weight, toward_loss
from penfac.core.noise import (
    annealed,
    annealed_late,
    clipped_gaussian,
    narrowed,
    truncated_gaussian,
)

MUS = [0.0, 0.99, -1.0, 5.0, -5.0]
SIGMAS = [0.01, 0.2, 1.0, 10.0]
laws = pytest.mark.parametrize(("mu", "sigma"), [(m, s) for m in MUS for s in SIGMAS])


def truncnorm(mu, sigma):
    """scipy's law on [-1, 1], its mean limited to 3 sigma beyond the bounds."""
    mu = np.clip(mu, -1 - 3 * sigma, 1 + 3 * sigma)
    return stats.truncnorm((-1 - mu) / sigma, (1 - mu) / sigma, mu, sigma)


def on_host(law, mu, sigma, uniform):
    return law(np.full(uniform.shape, mu), sigma, uniform, scipy.special)


@jax.jit
def on_device(mu, sigma, uniform):
    return truncated_gaussian(jnp.full(uniform.shape, mu), sigma, uniform)


@laws
def test_truncated_gaussian_inverts_scipys_distribution_function(mu, sigma):
    """F(a(u)) = u for every u, F of scipy.stats.truncnorm, in float64."""
    uniform = np.linspace(1e-6, 1 - 1e-6, 501)
    action = on_host(truncated_gaussian, mu, sigma, uniform)
    np.testing.assert_allclose(truncnorm(mu, sigma).cdf(action), uniform, atol=1e-9)


@laws
def test_truncated_gaussian_on_a_device_has_the_same_law(mu, sigma, key):
    """Kolmogorov-Smirnov, mean and variance of float32 draws against scipy's law."""
    draws = np.asarray(on_device(mu, sigma, jax.random.uniform(key, (20_000,))), float)
    law = truncnorm(mu, sigma)
    # p < 1e-4 in one of twenty such tests would happen once in five hundred keys
    assert stats.kstest(draws, law.cdf).pvalue > 1e-4
    error = law.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - law.mean()) < 4 * error
    fourth = law.expect(lambda a: (a - law.mean()) ** 4)
    spread = np.sqrt((fourth - law.var() ** 2) / len(draws))
    assert abs(draws.var() - law.var()) < 4 * spread + 1e-6 * law.var()


@laws
def test_both_backends_draw_the_same_action_from_the_same_number(mu, sigma, key):
    """jax.scipy.special in float32 and scipy.special in float64, in probability."""
    uniform = jax.random.uniform(key, (2_000,))
    there = np.asarray(on_device(mu, sigma, uniform), float)
    here = on_host(truncated_gaussian, mu, sigma, np.asarray(uniform, float))
    law = truncnorm(mu, sigma)
    np.testing.assert_allclose(law.cdf(there), law.cdf(here), atol=2e-4)


@laws
def test_actions_never_leave_the_box(mu, sigma):
    """[-1, 1] holds at the ends of the unit interval too, where Phi^-1 is infinite."""
    uniform = np.array([0.0, 1e-30, 1e-7, 0.5, 1 - 1e-7, 1.0], np.float32)
    for law in (truncated_gaussian, clipped_gaussian):
        device = law(jnp.full(6, mu), sigma, jnp.asarray(uniform))
        host = on_host(law, mu, sigma, uniform)
        for action in (device, host):
            assert np.all(np.isfinite(action))
            assert np.all(np.abs(action) <= 1)


def test_clipped_gaussian_moves_samples_onto_the_bounds(key):
    """clip(N(mu, sigma^2)): Phi^-1 inside, and atoms of the tails' mass at +-1."""
    mu, sigma, n = 0.8, 0.3, 20_000
    uniform = np.asarray(jax.random.uniform(key, (n,)), float)
    action = on_host(clipped_gaussian, mu, sigma, uniform)
    expected = np.clip(stats.norm(mu, sigma).ppf(uniform), -1, 1)
    np.testing.assert_allclose(action, expected, atol=1e-12)
    device = clipped_gaussian(jnp.full(n, mu), sigma, jnp.asarray(uniform, jnp.float32))
    np.testing.assert_allclose(device, expected, atol=1e-4)
    mass = stats.norm(mu, sigma).sf(1)
    error = np.sqrt(mass * (1 - mass) / n)
    assert abs(np.mean(np.asarray(device) == 1) - mass) < 4 * error


def test_components_explore_apart(key):
    """Each component has its own number: nothing is shared along an axis."""
    mu = jnp.broadcast_to(jnp.array([0.5, -0.5]), (20_000, 2))
    action = truncated_gaussian(mu, 0.2, jax.random.uniform(key, mu.shape))
    correlation = np.corrcoef(np.asarray(action).T)[0, 1]
    assert abs(correlation) < 4 / np.sqrt(20_000)


def test_sigma_moves_on_a_straight_line():
    """From start to end as progress goes from 0 to 1."""
    assert [annealed(0.4, 0.2, p) for p in (0.0, 0.5, 1.0)] == pytest.approx(
        [0.4, 0.3, 0.2]
    )


def test_rates_fall_in_the_second_half():
    """As at the start until half the run; halfway to the end after three quarters."""
    rates = [annealed_late(1.0, 0.2, p) for p in (0.0, 0.5, 0.75, 1.0)]
    assert rates == pytest.approx([1.0, 1.0, 0.6, 0.2])
    assert annealed_late(1.0, 1.0, 0.7) == 1.0


def test_exploration_never_widens():
    """A sigma below the default's end is what was asked for; none keeps it."""
    assert [narrowed(0.4, 0.2, p) for p in (0.0, 1.0)] == pytest.approx([0.4, 0.2])
    assert [narrowed(0.1, 0.25, p) for p in (0.0, 0.5, 1.0)] == [0.1, 0.1, 0.1]
    assert narrowed(0.1, None, 0.7) == 0.1


# --- where exploration pulls a policy that should sit on its bound ---------------------

GRID = (np.arange(200_000) + 0.5) / 200_000
# distance to the bound of R(a) = a on [-1, 1]: (law, rule, sigma, fixed point to 4 digits)
FIXED_POINTS = [
    ("truncated", "cac", 0.2, 0.9393),
    ("truncated", "cacla", 0.2, 0.8988),
    ("truncated", "cac", 0.1, 0.9697),
    ("truncated", "cacla", 0.1, 0.9494),
    ("clipped", "cac", 0.2, 0.9962),
    ("clipped", "cacla", 0.2, 0.9891),
]
OUR_LAWS = {"truncated": truncated_gaussian, "clipped": clipped_gaussian}
OUR_WEIGHTS = {"cac": cac_weight, "cacla": cacla_weight}


def our_step(law, rule, mu, sigma):
    """-E[w (mu - a)] for R(a) = a, with our law, our weight and our loss."""
    action = on_host(OUR_LAWS[law], mu, sigma, GRID)
    weight = OUR_WEIGHTS[rule](jnp.asarray(action - action.mean())) / len(GRID)
    action = jnp.asarray(action)[:, None]
    slope = jax.grad(
        lambda m: toward_loss(jnp.full_like(action, 1.0) * m, action, weight)
    )
    return -float(slope(mu))


def step_by_quadrature(law, rule, mu, sigma):
    """The same expectation as an integral over z = (a - mu) / sigma, plus the atom."""
    low, high = (-1 - mu) / sigma, (1 - mu) / sigma
    phi, mass = stats.norm.pdf, stats.norm.cdf(high) - stats.norm.cdf(low)
    inside = 1 / mass if law == "truncated" else 1.0
    atoms = (0.0, 0.0) if law == "truncated" else (
        stats.norm.cdf(low), stats.norm.sf(high))  # fmt: skip

    def expect(f, split):
        parts = [quad(lambda z: f(z) * phi(z), *ends)[0] * inside
                 for ends in ((low, split), (split, high))]  # fmt: skip
        return sum(parts) + atoms[0] * f(low) + atoms[1] * f(high)

    centre = expect(lambda z: z, 0.0)  # V = mu + sigma * centre

    def pull(z):
        gain = sigma * (z - centre)
        return sigma * z * (max(gain, 0) if rule == "cac" else float(gain > 0))

    return expect(pull, centre)


@pytest.mark.parametrize(("law", "rule", "sigma", "known"), FIXED_POINTS)
def test_exploration_keeps_a_policy_off_its_bound(law, rule, sigma, known, float64):
    """R(a) = a on [-1, 1] is best at 1; the fixed point of each law and rule is below.

    Our functions and a quadrature of the integral find the same point.
    """
    ours = brentq(lambda mu: our_step(law, rule, mu, sigma), 0.7, 0.9995, xtol=1e-6)
    by_quadrature = brentq(
        lambda mu: step_by_quadrature(law, rule, mu, sigma), 0.7, 0.9995, xtol=1e-6
    )
    assert ours == pytest.approx(by_quadrature, abs=2e-5)
    assert ours == pytest.approx(known, abs=1e-4)


def test_the_truncated_fixed_points_in_closed_form():
    """With beta = (1 - mu)/sigma and c = (V - mu)/sigma, V the law's mean:

    CACLA rests where phi(c) = phi(beta), that is V = 2 mu - 1;
    CAC where Phi(beta) - Phi(c) = (beta - c) phi(beta).
    """
    sigma, phi, cdf = 0.2, stats.norm.pdf, stats.norm.cdf

    def beta_and_c(mu):
        return (1 - mu) / sigma, (truncnorm(mu, sigma).mean() - mu) / sigma

    def cac(mu):
        beta, c = beta_and_c(mu)
        return cdf(beta) - cdf(c) - (beta - c) * phi(beta)

    cacla = brentq(lambda mu: truncnorm(mu, sigma).mean() - (2 * mu - 1), 0.7, 0.999)
    for rule, mu in (("cacla", cacla), ("cac", brentq(cac, 0.7, 0.999))):
        step = step_by_quadrature("truncated", rule, mu, sigma)
        assert step == pytest.approx(0, abs=1e-9)
