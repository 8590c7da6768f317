"""The linear-quadratic regulator against its closed forms, each by two routes."""

import jax
import numpy as np
import pytest

from penfac.envs import lqr as problem
from penfac.envs.lqr import ACTION_BOUND, DOUBLE_INTEGRATOR, LQR, LQR_ENV, optimum

SCALAR = LQR(*(np.ones((1, 1)) for _ in range(4)), gamma=0.9)
RANDOM = LQR(
    a=np.array([[0.9, 0.2, 0.0], [-0.1, 1.05, 0.3], [0.0, 0.1, 0.7]]),
    b=np.array([[1.0, 0.0], [0.2, 0.5], [0.0, 1.0]]),
    q=np.diag([1.0, 0.5, 2.0]),
    r=np.array([[0.3, 0.1], [0.1, 0.6]]),
    gamma=0.97,
)


def value_iteration(lqr: LQR, sweeps: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """(K, P) by Bellman's equation applied until nothing moves."""
    p = np.zeros_like(lqr.q)
    for _ in range(sweeps):
        m = lqr.r + lqr.gamma * lqr.b.T @ p @ lqr.b
        gain = np.linalg.solve(m, lqr.gamma * lqr.b.T @ p @ lqr.a)
        closed = lqr.a - lqr.b @ gain
        p = lqr.q + gain.T @ lqr.r @ gain + lqr.gamma * closed.T @ p @ closed
    return gain, p


def test_the_scalar_optimum_solves_its_quadratic():
    """a = b = q = r = 1: P = 1 + gamma P / (1 + gamma P), a quadratic with one positive
    root, and K = gamma P / (1 + gamma P) = P - 1."""
    g = SCALAR.gamma
    root = (2 * g - 1 + np.sqrt((2 * g - 1) ** 2 + 4 * g)) / (2 * g)
    gain, p = optimum(SCALAR)
    np.testing.assert_allclose(p, root, rtol=1e-12)
    np.testing.assert_allclose(gain, root - 1, rtol=1e-12)
    np.testing.assert_allclose(p, 1.5884033489985554, rtol=1e-12)  # DARE elsewhere


def test_the_double_integrator_has_the_published_gain():
    """K* and P* as an independent solution of the Riccati equation gives them."""
    gain, p = optimum(DOUBLE_INTEGRATOR)
    np.testing.assert_allclose(gain, [[2.20874621, 2.18750433]], rtol=1e-8)
    wanted = [[7.85426379, 2.89417259], [2.89417259, 2.57692158]]
    np.testing.assert_allclose(p, wanted, rtol=1e-8)


@pytest.mark.parametrize("lqr", [SCALAR, DOUBLE_INTEGRATOR, RANDOM])
def test_value_iteration_ends_at_the_same_optimum(lqr):
    """Another route to K* and P*."""
    for found, wanted in zip(optimum(lqr), value_iteration(lqr), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lqr", [SCALAR, DOUBLE_INTEGRATOR, RANDOM])
def test_the_optimum_is_its_own_value(lqr):
    """The value of a = -K* s without noise is -s'P*s, and no other gain does better."""
    best, p_best = optimum(lqr)
    p, c = problem.value(lqr, best, 0.0)
    np.testing.assert_allclose(p, p_best, rtol=1e-9)
    assert c == 0
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = best + 0.1 * rng.normal(size=best.shape)
        worse, _ = problem.value(lqr, other, 0.0)
        assert np.linalg.eigvalsh(worse - p_best).min() > -1e-9


def test_exploration_does_not_move_the_optimum():
    """At sigma = 2 as at 0, J(K) = -E[V] has its minimum at K*: its gradient by central
    differences vanishes there, and nowhere near it."""
    best, _ = optimum(DOUBLE_INTEGRATOR)
    start = np.eye(2) / 3  # the covariance of the initial states

    def cost(gain, sigma):
        p, c = problem.value(DOUBLE_INTEGRATOR, gain, sigma)
        return np.trace(p @ start) + c

    for sigma in (0.0, 2.0):
        for gain, at_rest in ((best, True), (best * 0.9, False)):
            slopes = [
                (cost(gain + h, sigma) - cost(gain - h, sigma)) / 2e-5
                for h in 1e-5 * np.eye(2)[:, None]
            ]
            assert (np.abs(slopes) < 1e-6).all() == at_rest


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_the_value_of_a_gain_is_what_the_environment_pays(sigma):
    """Discounted rewards of the environment itself, 4000 noisy episodes of 300 steps from
    one state: the closed form within 4 standard errors (exactly, without noise)."""
    lqr, gain = DOUBLE_INTEGRATOR, np.array([[1.0, 1.5]])
    start = np.array([0.8, -0.5])
    episodes, steps = (4000, 300) if sigma else (1, 300)

    def total(key):
        def step(carry, k):
            state, factor = carry
            action = -gain @ state + sigma * jax.random.normal(k, (1,))
            outcome = LQR_ENV.step(state, action, k)
            return (outcome.state, factor * lqr.gamma), factor * outcome.reward

        carry = (np.float32(start), np.float32(1))
        return jax.lax.scan(step, carry, jax.random.split(key, steps))[1].sum()

    keys = jax.random.split(jax.random.key(0), episodes)
    returns = np.asarray(jax.jit(jax.vmap(total))(keys), np.float64)
    p, c = problem.value(lqr, gain, sigma)
    expected = -start @ p @ start - c
    error = returns.std() / np.sqrt(episodes)
    assert abs(returns.mean() - expected) <= 4 * error + 1e-4 * abs(expected)
    assert abs(returns.mean() - expected) < 0.05 * abs(expected)


def test_the_environment_is_the_problem():
    """s' = A s + B a and r = -(s'Qs + a'Ra) of the state before; it never terminates."""
    lqr, rng = DOUBLE_INTEGRATOR, np.random.default_rng(0)
    for _ in range(20):
        s, a = rng.normal(size=2), rng.normal(size=1)
        outcome = LQR_ENV.step(np.float32(s), np.float32(a), None)
        np.testing.assert_allclose(outcome.state, lqr.a @ s + lqr.b @ a, rtol=1e-5)
        cost = s @ lqr.q @ s + a @ lqr.r @ a
        np.testing.assert_allclose(outcome.reward, -cost, rtol=1e-5)
        assert not outcome.terminated


def test_the_bounds_leave_the_optimum_free():
    """|K* s| stays under half the action bound on every initial state and along every
    optimal path, so that the bounds do not move K*."""
    gain, _ = optimum(DOUBLE_INTEGRATOR)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], float)
    closed = DOUBLE_INTEGRATOR.a - DOUBLE_INTEGRATOR.b @ gain
    states = corners
    for _ in range(LQR_ENV.spec.horizon):
        assert np.abs(states @ gain.T).max() < ACTION_BOUND / 2
        states = states @ closed.T
    np.testing.assert_array_equal(LQR_ENV.spec.action_high, [ACTION_BOUND])
    np.testing.assert_array_equal(LQR_ENV.spec.action_low, [-ACTION_BOUND])
