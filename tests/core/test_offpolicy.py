"""Off-policy PeNFAC: what it asks of a Q, and the step it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from penfac.core.actor import ACTOR_RULES, actor_weight, dpg_loss
from penfac.core.offpolicy import (
    advantage_over_mu,
    agreement,
    along,
    blended,
    mirrored,
    pull,
    unit_rms,
)

J, B, M = 4, 5, 3


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def test_an_advantage_over_mu_is_positive_where_the_least_q_is_larger():
    """The least of the critics on both sides, element by element; 0 at mu itself."""
    q, q_mu = draw(0, 2, J, B), draw(1, 2, 1, B)
    found = advantage_over_mu(q, q_mu)
    for j in range(J):
        for i in range(B):
            least = min(q[0, j, i], q[1, j, i]) - min(q_mu[0, 0, i], q_mu[1, 0, i])
            np.testing.assert_allclose(found[j, i], least, rtol=1e-6)
    assert np.all(advantage_over_mu(q_mu, q_mu) == 0)


def test_mirrored_noise_averages_to_nothing_in_the_sample_too():
    noise = mirrored(draw(0, J, B, M))
    assert noise.shape == (2 * J, B, M)
    np.testing.assert_allclose(noise.sum(axis=0), 0, atol=1e-6)


@pytest.mark.parametrize("rule", ["cac", "cacla", "spg"])
def test_mirrored_proposals_need_no_control_variate(rule):
    """Less any constant, the weights pull alike  (D23)."""
    mean = draw(0, B, M)
    proposed = mean + mirrored(draw(1, J, B, M))
    weight = actor_weight(draw(2, 2 * J, B), ACTOR_RULES[rule])
    plain, centred = pull(weight, proposed, mean), pull(weight - 0.7, proposed, mean)
    np.testing.assert_allclose(plain, centred, atol=1e-6)


@pytest.mark.parametrize("rule", ["cac", "cacla"])
def test_the_pull_of_a_linear_q_in_closed_form(rule):
    """A = g.b over mu: CAC's step is sigma^2 g / 2, CACLA's sigma phi(0) g / |g|."""
    sigma, g = 0.3, np.array([0.6, -0.3, 0.2])
    mean = draw(0, 1, M)
    proposed = mean + sigma * mirrored(draw(1, 200_000, 1, M))
    weight = actor_weight((proposed - mean) @ jnp.asarray(g), ACTOR_RULES[rule])
    wanted = {
        "cac": sigma**2 * g / 2,
        "cacla": sigma * norm.pdf(0) * g / np.linalg.norm(g),
    }
    np.testing.assert_allclose(pull(weight, proposed, mean)[0], wanted[rule], atol=1e-3)


def test_a_step_of_unit_rms_keeps_its_direction_and_nothing_stays_nothing():
    step = 7 * draw(0, B, M)
    found = np.asarray(unit_rms(step))
    np.testing.assert_allclose(np.mean(found**2), 1, rtol=1e-5)
    np.testing.assert_allclose(found / found[0, 0], step / step[0, 0], rtol=1e-5)
    assert np.all(np.asarray(unit_rms(jnp.zeros((B, M)))) == 0)


def test_only_the_share_says_who_leads():
    """Ends are one part alone; the scales of Q and of sigma divide out."""
    pulled, slope = draw(0, B, M), draw(1, B, M)
    np.testing.assert_allclose(blended(pulled, slope, 0.0), unit_rms(pulled))
    np.testing.assert_allclose(blended(pulled, slope, 1.0), unit_rms(slope))
    halves = (unit_rms(pulled) + unit_rms(slope)) / 2
    np.testing.assert_allclose(blended(1e3 * pulled, 1e-3 * slope, 0.5), halves, rtol=1e-4)


def test_along_has_the_gradient_of_dpg_loss_if_the_step_is_the_slope_of_q():
    theta, x, w = draw(0, M, M), draw(1, B, M), draw(2, M)
    mean = lambda theta: jnp.tanh(x @ theta)  # noqa: E731
    q = lambda a: jnp.sin(a) @ w + (a @ w) ** 2  # noqa: E731
    slope = jax.vmap(jax.grad(q))(mean(theta))
    ours = jax.grad(lambda theta: along(mean(theta), slope))(theta)
    theirs = jax.grad(lambda theta: dpg_loss(q(mean(theta))))(theta)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_agreement_is_a_cosine():
    pulled, slope = draw(0, B, M), draw(1, B, M)
    flat = np.asarray(pulled).ravel(), np.asarray(slope).ravel()
    cosine = np.dot(*flat) / np.linalg.norm(flat[0]) / np.linalg.norm(flat[1])
    np.testing.assert_allclose(agreement(pulled, slope), cosine, rtol=1e-4)
    np.testing.assert_allclose(agreement(pulled, 9 * pulled), 1, rtol=1e-5)
    assert agreement(pulled, jnp.zeros_like(pulled)) == 0
