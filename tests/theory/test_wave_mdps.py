"""MDPs of sines: their exact expectations against quadrature and plain searches."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from penfac.theory import waves


@pytest.fixture(params=range(4))
def example(request):
    """(problem, mu, sigma) with slow waves, so that Gauss and Hermite suffice."""
    rng = np.random.default_rng(request.param)
    problem = waves.random_waves(rng, (), 4, 1, 0.9)
    problem = problem._replace(w=rng.normal(size=(4, 1)))
    return problem, rng.normal(size=(4, 1)), 0.6


def over_actions(function, mu, sigma):
    """The mean over a ~ N(mu, sigma^2), state by state, by quadrature."""
    nodes, weights = hermegauss(60)
    total = sum(
        w * function(mu + sigma * z) for z, w in zip(nodes, weights, strict=True)
    )
    return total / np.sqrt(2 * np.pi)


def test_transitions_are_those_of_each_action_averaged(example):
    problem, mu, sigma = example
    zero = np.zeros(())
    wanted = over_actions(lambda a: waves.transitions(problem, a, zero), mu, sigma)
    found = waves.transitions(problem, mu, np.array(sigma))
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-12)
    assert found.min() >= 0


def test_the_advantage_averages_to_zero_under_its_policy(example):
    problem, mu, sigma = example
    v = waves.value(problem, mu, np.array(sigma))
    mean = over_actions(lambda a: waves.advantage(problem, v, a), mu, sigma)
    np.testing.assert_allclose(mean, 0, atol=1e-10)


def test_values_and_visits_give_the_same_performance(example):
    problem, mu, sigma = example
    reward = problem.r + problem.z * waves.sines(problem, mu, np.array(sigma))[1]
    seen = waves.visits(problem, mu, np.array(sigma))
    found = waves.performance(problem, mu, np.array(sigma))
    np.testing.assert_allclose(seen @ reward, found, rtol=1e-10)


def test_the_largest_advantage_is_found_by_trying_all_actions(example):
    problem, mu, sigma = example
    v = waves.value(problem, mu, np.array(sigma))
    tried = np.linspace(-60, 60, 60_001)[:, None, None] * np.ones((4, 1))
    best = np.abs(waves.advantage(problem, v, tried)).max()
    found = waves.largest_advantage(problem, v)
    assert best <= found + 1e-12
    np.testing.assert_allclose(best, found, rtol=1e-3)


def test_the_density_is_lipschitz_with_the_constant_told(example):
    """n |T(s'|s,a) - T(s'|s,a')| <= L |a - a'|, and no smaller L would do."""
    problem, _, _ = example
    grid = np.linspace(-40, 40, 40_001)[:, None, None] * np.ones((4, 1))
    density = 4 * waves.transitions(problem, grid, np.zeros(()))
    slopes = np.abs(np.diff(density, axis=0)) / (grid[1, 0, 0] - grid[0, 0, 0])
    steepest, told = slopes.max(), waves.lipschitz(problem)
    assert steepest <= told * (1 + 1e-9)
    np.testing.assert_allclose(steepest, told, rtol=1e-2)


def test_many_at_once_are_each_alone():
    rng = np.random.default_rng(0)
    many = waves.random_waves(rng, (5,), 3, 2, np.linspace(0, 0.9, 5))
    mu, sigma = rng.normal(size=(5, 3, 2)), np.linspace(0.1, 1, 5)
    together = waves.performance(many, mu, sigma)
    for k in range(5):
        one = waves.Waves(*(field[k] for field in many))
        alone = waves.performance(one, mu[k], np.array(sigma[k]))
        np.testing.assert_allclose(alone, together[k], rtol=1e-10)
