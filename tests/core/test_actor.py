"""Which actions pull, how hard, and where to  (Eq. 1, 6, 7, 8; Lemma 4.1)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import oracles
from penfac.core.actor import (
    ACTOR_RULES,
    ActorRule,
    actor_weight,
    beyond_limit,
    cac_weight,
    cacla_weight,
    control_variate,
    likelihood_ratio,
    scale_by_rms,
    soft_step,
    spg_weight,
    toward_loss,
)

ADVANTAGE = jnp.array([2.0, -3.0, 0.0, 0.5, -0.25])


def test_cacla_weighs_every_improving_action_the_same(strict_dtypes):
    """H(A) is 1 above 0 and 0 at and below it."""
    np.testing.assert_array_equal(cacla_weight(ADVANTAGE), [1, 0, 0, 1, 0])


@pytest.mark.parametrize("softness", [0.25, 1.0, 8.0])
def test_the_soft_step_is_a_logistic_function_and_h_without_softness(
    softness, strict_dtypes
):
    """(1 + tanh(A / softness)) / 2: 1/2 at A = 0; softness 0 is H(A) to the bit."""
    expected = (1 + np.tanh(np.asarray(ADVANTAGE, float) / softness)) / 2
    np.testing.assert_allclose(soft_step(ADVANTAGE, softness), expected, rtol=1e-5)
    np.testing.assert_array_equal(soft_step(ADVANTAGE, 0.0), cacla_weight(ADVANTAGE))


def test_cac_weighs_improving_actions_by_how_much_they_improve(strict_dtypes):
    """A H(A) is A above 0 and 0 at and below it."""
    np.testing.assert_array_equal(cac_weight(ADVANTAGE), [2, 0, 0, 0.5, 0])


def test_spg_is_cac_plus_the_push_of_the_worse_actions(strict_dtypes):
    """A = A H(A) + A H(-A): SPG is what CAC keeps and what it leaves out."""
    left_out = jnp.minimum(ADVANTAGE, 0.0)
    np.testing.assert_array_equal(spg_weight(ADVANTAGE), ADVANTAGE)
    np.testing.assert_array_equal(
        spg_weight(ADVANTAGE), cac_weight(ADVANTAGE) + left_out
    )


@pytest.mark.parametrize("name", ["cacla", "cac", "spg"])
def test_a_rule_as_numbers_is_the_rule_as_a_function(name, strict_dtypes):
    """Each named rule blends to its own weight, bit for bit."""
    function = {"cacla": cacla_weight, "cac": cac_weight, "spg": spg_weight}[name]
    blended = actor_weight(ADVANTAGE, ACTOR_RULES[name])
    np.testing.assert_array_equal(blended, function(ADVANTAGE))
    slow = oracles.actor_weights(np.asarray(ADVANTAGE), name)
    np.testing.assert_array_equal(blended, slow)


def test_a_blend_is_the_sum_of_its_parts(strict_dtypes):
    """step H(A) + positive A H(A) + negative A H(-A), for any three numbers."""
    rule = ActorRule(step=0.5, positive=2.0, negative=0.25)
    a = np.asarray(ADVANTAGE)
    parts = 0.5 * (a > 0) + 2.0 * a * (a > 0) + 0.25 * a * (a < 0)
    np.testing.assert_array_equal(actor_weight(ADVANTAGE, rule), parts)


# --- the scale of advantages ----------------------------------------------------------


def test_scaling_by_the_rms_keeps_every_sign_and_gives_rms_1(key, strict_dtypes):
    """Over the real steps the root mean square becomes 1; no sign moves."""
    advantage = 1e3 * jax.random.normal(key, (200,)) + 700.0
    mask = jnp.arange(200) < 150
    scaled = scale_by_rms(advantage, mask)
    np.testing.assert_array_equal(jnp.sign(scaled), jnp.sign(advantage))
    np.testing.assert_allclose(np.mean(np.asarray(scaled)[:150] ** 2), 1, rtol=1e-5)
    ratio = np.asarray(scaled) / np.asarray(advantage)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)


def test_padding_does_not_enter_the_rms(key, strict_dtypes):
    """What lies behind the mask cannot change the scale of what is before it."""
    advantage, mask = jax.random.normal(key, (20,)), jnp.arange(20) < 12
    soiled = jnp.where(mask, advantage, 7.0)
    clean, dirty = scale_by_rms(advantage, mask), scale_by_rms(soiled, mask)
    np.testing.assert_array_equal(clean[:12], dirty[:12])


def test_advantages_that_are_all_zero_stay_zero(strict_dtypes):
    """0 / 0 is not asked for: no NaN, and nothing pulls."""
    scaled = scale_by_rms(jnp.zeros(5), jnp.ones(5, bool))
    np.testing.assert_array_equal(scaled, np.zeros(5))


def test_one_advantage_alone_becomes_its_sign(strict_dtypes):
    """A batch of one step: A / |A|, where a standard deviation would be 0."""
    scaled = scale_by_rms(jnp.array([-3.0]), jnp.ones(1, bool))
    np.testing.assert_array_equal(scaled, [-1.0])


def test_shifting_the_advantages_moves_the_sign_test():
    """Centring is no harmless normalisation here: it chooses other actions.

    This is why advantages are never centred: the scale is free, the zero is not.
    """
    advantage, mask = jnp.array([1.0, 2.0, 3.0, -1.0]), jnp.ones(4, bool)
    centred = advantage - jnp.mean(advantage)
    for rule in ("cacla", "cac"):
        chosen = actor_weight(scale_by_rms(advantage, mask), ACTOR_RULES[rule]) > 0
        otherwise = actor_weight(centred, ACTOR_RULES[rule]) > 0
        np.testing.assert_array_equal(chosen, [True, True, True, False])
        assert not np.array_equal(chosen, otherwise)


# --- the loss -------------------------------------------------------------------------


def linear_case(seed=0, steps=6, n=3, m=2):
    rng = np.random.default_rng(seed)
    theta, obs = rng.normal(size=(n, m)), rng.normal(size=(steps, n))
    return theta, obs, rng.normal(size=(steps, m)), rng.normal(size=steps)


def test_the_gradient_of_toward_loss_is_the_step_of_the_paper(float64):
    """For mu(s) = s theta: sum_t w_t s_t (mu(s_t) - a_t)', the hand formula of Eq. 7."""
    theta, obs, action, weight = map(jnp.asarray, linear_case())
    gradient = jax.grad(lambda p: toward_loss(obs @ p, action, weight))(theta)
    by_hand = sum(
        w * np.outer(s, s @ np.asarray(theta) - a)
        for s, a, w in zip(*map(np.asarray, (obs, action, weight)), strict=True)
    )
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-12)


def test_the_gradient_of_toward_loss_equals_finite_differences(float64):
    """A tanh policy in float64, one parameter moved at a time."""
    theta, obs, action, weight = linear_case(seed=1)

    def loss(p):
        mean = jnp.tanh(jnp.asarray(obs) @ p)
        return toward_loss(mean, jnp.asarray(action), jnp.asarray(weight))

    numeric = oracles.finite_difference(lambda p: float(loss(jnp.asarray(p))), theta)
    np.testing.assert_allclose(jax.grad(loss)(jnp.asarray(theta)), numeric, atol=1e-7)


def test_toward_loss_is_a_sum_over_steps(strict_dtypes):
    """Twice the same steps is twice the loss: no mean hides in it."""
    _, _, action, weight = linear_case()
    mean = jnp.zeros((6, 2))
    action, weight = (jnp.asarray(x, jnp.float32) for x in (action, weight))
    once = toward_loss(mean, action, weight)
    twice = toward_loss(*(jnp.concatenate([x, x]) for x in (mean, action, weight)))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)


def test_a_small_step_comes_nearer_to_the_good_actions():
    """Descending the loss lowers sum w |mu - a|^2: the sign of (mu - a) is right."""
    theta, obs, action, weight = (
        jnp.asarray(x, jnp.float32) for x in linear_case(seed=2)
    )
    weight = cac_weight(weight)

    def apart(p):
        return jnp.sum(weight[:, None] * (obs @ p - action) ** 2)

    step = jax.grad(lambda p: toward_loss(obs @ p, action, weight))(theta)
    assert apart(theta - 1e-3 * step) < apart(theta)


# --- Lemma 4.1 in closed form ---------------------------------------------------------


def monte_carlo_step(rule, offset, slope, sigma, key, draws=400_000):
    """The expected step -E[w (mu - a)] at mu = 0 for A = offset + slope . b.

    Returns the step and the standard error of each component.
    """
    b = sigma * jax.random.normal(key, (draws, len(slope)))
    weight = actor_weight(offset + b @ slope, ACTOR_RULES[rule])

    def loss(mean):
        return toward_loss(jnp.broadcast_to(mean, b.shape), b, weight) / draws

    pulls = np.asarray(weight[:, None] * b, np.float64)
    error = pulls.std(axis=0) / np.sqrt(draws)
    return -np.asarray(jax.grad(loss)(jnp.zeros(len(slope)))), error


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.4])
def test_the_cac_step_of_a_linear_advantage_in_closed_form(offset, key):
    """E[(c + g.b)+ b] = sigma^2 Phi(kappa) g, kappa = c / (sigma |g|), for any dimension.

    For c = 0 it is half the deterministic policy gradient's step: Lemma 4.1.
    """
    slope, sigma = np.array([1.0, -2.0, 0.5], np.float32), 0.3
    step, error = monte_carlo_step("cac", offset, jnp.asarray(slope), sigma, key)
    kappa = offset / (sigma * np.linalg.norm(slope))
    expected = sigma**2 * norm.cdf(kappa) * slope
    assert np.all(np.abs(step - expected) < 4 * error)
    assert np.all(error < 0.02 * sigma**2 * np.abs(slope))


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.4])
def test_the_cacla_step_of_a_linear_advantage_in_closed_form(offset, key):
    """E[1{c + g.b > 0} b] = sigma phi(kappa) g / |g|: the slope's length is lost."""
    slope, sigma = np.array([1.0, -2.0, 0.5], np.float32), 0.3
    step, error = monte_carlo_step("cacla", offset, jnp.asarray(slope), sigma, key)
    size = np.linalg.norm(slope)
    expected = sigma * norm.pdf(offset / (sigma * size)) * slope / size
    assert np.all(np.abs(step - expected) < 4 * error)
    assert np.all(error < 0.02 * sigma)


def test_the_spg_step_of_a_linear_advantage_does_not_see_the_offset(key):
    """E[(c + g.b) b] = sigma^2 g whatever c: the baseline cancels only without H(A)."""
    slope, sigma = np.array([1.0, -2.0], np.float32), 0.3
    step, error = monte_carlo_step("spg", 0.3, jnp.asarray(slope), sigma, key)
    assert np.all(np.abs(step - sigma**2 * slope) < 4 * error)


# --- the control variate (D23) -----------------------------------------------------------


@pytest.mark.parametrize("rule", ["cacla", "cac", "spg"])
def test_centred_an_action_pulls_with_its_weight_less_the_mean_weight(rule, key):
    """At mu_old the gradient of both losses is minus sum (w - mean w) (a - mu_old)."""
    old = jax.random.normal(key, (50, 3))
    action = old + 0.3 * jax.random.normal(jax.random.fold_in(key, 1), (50, 3))
    advantage = jax.random.normal(jax.random.fold_in(key, 2), (50,)) + 0.2
    weight = actor_weight(advantage, ACTOR_RULES[rule])
    centre = jnp.full(50, weight.mean())

    def loss(mean):
        pull = toward_loss(mean, action, weight)
        return pull + control_variate(mean, action, old, centre)

    expected = -(weight - weight.mean())[:, None] * (action - old)
    np.testing.assert_allclose(jax.grad(loss)(old), expected, rtol=1e-4, atol=1e-6)


def test_the_centred_step_of_cacla_is_its_own_with_less_variance(key):
    """Over many actions of one state: the mean pull agrees, its variance is about half."""
    b = jax.random.normal(key, (200_000, 4))
    w = cacla_weight(b @ jnp.array([1.0, -2.0, 0.5, 0.0]))[:, None]
    plain, centred = np.asarray(w * b), np.asarray((w - w.mean()) * b)
    error = plain.std(axis=0) / np.sqrt(len(b))
    assert np.all(np.abs(plain.mean(axis=0) - centred.mean(axis=0)) < 4 * error)
    left = centred.var(axis=0).sum() / plain.var(axis=0).sum()
    assert 0.4 < left < 0.6


# --- the limit per sample (D24) ----------------------------------------------------------


def test_the_likelihood_ratio_is_that_of_two_normal_densities(key):
    draws = jax.random.normal(key, (3, 20, 4))
    old, action, mean = draws[0], draws[0] + 0.3 * draws[1], draws[0] + 0.1 * draws[2]
    ratio = likelihood_ratio(mean, action, old, 0.5)
    density = lambda at: norm.pdf(action, at, 0.5).prod(axis=-1)  # noqa: E731
    np.testing.assert_allclose(ratio, density(mean) / density(old), rtol=1e-4)


def test_where_mu_has_not_moved_the_ratio_is_exactly_1(key):
    old = jax.random.normal(key, (20, 4))
    np.testing.assert_array_equal(likelihood_ratio(old, old + 0.7, old, 0.25), 1.0)


@pytest.mark.parametrize(
    ("ratio", "pull", "beyond"),
    [
        (1.31, 1.0, True), (1.29, 1.0, False), (0.5, 1.0, False),
        (0.69, -1.0, True), (0.71, -1.0, False), (2.0, -1.0, False),
    ],
)  # fmt: skip
def test_a_sample_is_at_its_limit_in_the_direction_of_its_pull(ratio, pull, beyond):
    """An action that pulls may become 30 % likelier, one that pushes 30 % less likely."""
    found = beyond_limit(jnp.float32(ratio), jnp.float32(pull), 0.3)
    assert bool(found) == beyond


def test_without_a_limit_no_sample_is_beyond_it():
    ratio = jnp.array([0.0, 1e-3, 1e6])
    for pull in (-1.0, 1.0):
        assert not np.any(beyond_limit(ratio, jnp.full(3, pull), jnp.inf))
