"""Old actions corrected by truncated importance, and the size of DPG's slope."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from penfac.core.actor import dpg_loss
from penfac.core.offpolicy import (
    along,
    corrected_advantages,
    of_the_action,
    sized_as,
    truncated_importance,
)
from penfac.core.returns import lambda_advantages

N, M = 40, 3


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), jnp.float32)


def steps(seed=0):
    """delta, discount, last, rho of rows that end now and then."""
    rng = np.random.default_rng(seed)
    last = rng.random(N) < 0.2
    last[-1] = True
    discount = np.where(rng.random(N) < 0.1, 0.0, 0.9)
    rho = np.minimum(1, rng.exponential(size=N))
    rows = (rng.normal(size=N), discount, last, rho)
    return [jnp.asarray(x, jnp.float32 if x.dtype != bool else bool) for x in rows]


# --- importance -----------------------------------------------------------------------


def test_importance_is_the_ratio_of_two_normal_densities_at_most_1():
    action, mean, then = draw(0, N, M), draw(1, N, M), draw(2, N, M)
    sigma, sigma_then = 0.8, jnp.abs(draw(3, N)) + 0.5
    found = truncated_importance(action, mean, sigma, then, sigma_then)
    for i in range(N):
        ratio = np.prod(
            norm(mean[i], sigma).pdf(action[i])
            / norm(then[i], sigma_then[i]).pdf(action[i])
        )
        np.testing.assert_allclose(found[i], min(1, ratio), rtol=1e-3, atol=1e-7)
    assert 0 < np.mean(np.asarray(found) < 1) < 1


def test_importance_is_1_if_nothing_has_changed():
    action, mean = draw(0, N, M), draw(1, N, M)
    found = truncated_importance(action, mean, 0.3, mean, jnp.full(N, 0.3))
    assert np.all(np.asarray(found) == 1)


def test_corrected_advantages_equal_the_sum_of_their_definition():
    """A_t = sum_k (prod_{i<k} gamma lam rho_i) rho_{t+k} delta_{t+k}, up to the last."""
    delta, discount, last, rho = steps()
    found = corrected_advantages(delta, discount, last, rho, 0.8)
    for t in range(N):
        total, factor = 0.0, 1.0
        for k in range(t, N):
            total += factor * float(rho[k] * delta[k])
            factor *= 0.8 * float(rho[k] * discount[k])
            if last[k]:
                break
        np.testing.assert_allclose(found[t], total, rtol=1e-4, atol=1e-5)


def test_with_rho_1_they_are_lambda_advantages():
    delta, discount, last, _ = steps()
    found = corrected_advantages(delta, discount, last, jnp.ones(N), 0.8)
    wanted = lambda_advantages(delta, discount, last, 0.8)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(
        of_the_action(found, delta, jnp.ones(N)), wanted, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("rho_of_first", [1.0, 0.3, 1e-3])
def test_whether_an_action_was_good_does_not_depend_on_its_own_rho(rho_of_first):
    """delta_t + gamma_t lam A_{t+1}, unless the row ends."""
    delta, discount, last, rho = steps(1)
    rho = rho.at[0].set(rho_of_first)
    corrected = corrected_advantages(delta, discount, last, rho, 0.8)
    found = of_the_action(corrected, delta, rho)
    after = 0.0 if last[0] else 0.8 * discount[0] * corrected[1]
    np.testing.assert_allclose(found[0], delta[0] + after, rtol=1e-3, atol=1e-4)


def test_a_fitted_value_of_a_known_chain_is_the_new_policys():
    """One state, two actions, played evenly by the old policy; today's policy prefers the
    second. V-trace's fixed point is the value of today's policy, as its ratios stay <= 1
    after rescaling: a1 with rho = 1/3, a2 with rho = 1."""
    rewards, rho = np.array([0.0, 1.0]), np.array([1 / 3, 1.0])
    v = 0.0
    for _ in range(300):  # expected one-step correction under the old policy
        target = v + np.mean(rho * (rewards + 0.5 * v - v))
        v = target
    preferred = rho / rho.sum()
    np.testing.assert_allclose(v, preferred @ rewards / (1 - 0.5), rtol=1e-6)
    delta = jnp.asarray(rewards + 0.5 * v - v, jnp.float32)
    ends = jnp.ones(2, bool)
    steps_ = corrected_advantages(
        delta, jnp.full(2, 0.5), ends, jnp.asarray(rho, jnp.float32), 0.9
    )
    np.testing.assert_allclose(jnp.mean(steps_), 0, atol=1e-6)


# --- DPG's part -----------------------------------------------------------------------


def test_a_slope_gets_the_size_of_the_pull_and_keeps_its_direction():
    mask = jnp.arange(N) < 30
    slope, pulled = 50 * draw(0, N, M), draw(1, N, M)
    found = np.asarray(sized_as(slope, pulled, mask))
    rms = lambda x: np.sqrt(np.mean(np.asarray(x)[:30] ** 2))  # noqa: E731
    np.testing.assert_allclose(rms(found), rms(pulled), rtol=1e-5)
    ratio = found[:30] / np.asarray(slope)[:30]
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-4)
    assert np.all(found[30:] == 0)
    assert np.all(np.asarray(sized_as(jnp.zeros((N, M)), pulled, mask)) == 0)


def test_along_has_the_gradient_of_dpg_loss_if_the_step_is_the_slope_of_q():
    theta, x, w = draw(0, M, M), draw(1, N, M), draw(2, M)
    mean = lambda theta: jnp.tanh(x @ theta)  # noqa: E731
    q = lambda a: jnp.sin(a) @ w + (a @ w) ** 2  # noqa: E731
    slope = jax.vmap(jax.grad(q))(mean(theta))
    ours = jax.grad(lambda theta: along(mean(theta), slope))(theta)
    theirs = jax.grad(lambda theta: dpg_loss(q(mean(theta))))(theta)
    np.testing.assert_allclose(ours, N * theirs, rtol=1e-3, atol=1e-4)
