"""The one-state domains: their optimum, their curvature, the end after one step."""

import jax
import numpy as np
import pytest

from penfac.envs.bandits import BANDITS, BEST, EIGENVALUES, bandit, curvature

CONDITION = {"Round": 1.0, "Oval": 10.0, "Ridge": 100.0}


@pytest.mark.parametrize("dimension", [5, 10, 50])
@pytest.mark.parametrize("shape", EIGENVALUES)
def test_the_curvature_has_the_condition_that_its_name_says(shape, dimension):
    c = curvature(shape, dimension)
    values = np.linalg.eigvalsh(c)
    assert np.allclose(c, c.T)
    assert values.min() > 0
    assert values.max() / values.min() == pytest.approx(CONDITION[shape])


@pytest.mark.parametrize("env", BANDITS, ids=lambda env: env.spec.id)
def test_the_best_action_pays_nothing_and_every_other_less(env):
    key = jax.random.key(0)
    state = env.reset(key)
    best = np.full(env.spec.action_dim, BEST, np.float32)
    outcome = env.step(state, best, key)
    assert float(outcome.reward) == 0
    assert bool(outcome.terminated)
    others = np.random.default_rng(0).uniform(-1, 1, (20, env.spec.action_dim))
    rewards = [float(env.step(state, a.astype(np.float32), key).reward) for a in others]
    assert max(rewards) < 0


def test_the_reward_is_the_quadratic_form():
    """Against the sum over eigenvectors, computed apart."""
    env, action = bandit("Oval", 5), np.array([0.1, -0.4, 0.9, 0.0, -1.0], np.float32)
    values, vectors = np.linalg.eigh(curvature("Oval", 5))
    wanted = -float(np.sum(values * (vectors.T @ (action - BEST)) ** 2))
    got = float(env.step(env.reset(None), action, None).reward)
    assert got == pytest.approx(wanted, rel=1e-5)
