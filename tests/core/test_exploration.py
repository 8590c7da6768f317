"""How actions depart from mu: one law a step, noise that remembers, noise on weights."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from scipy import stats

from penfac.algos.nets import init_layers, mlp
from penfac.core.noise import (
    EXPLORATION_LAWS,
    Exploration,
    adapt_parameter_noise,
    anywhere,
    clipped_gaussian,
    explore,
    gaussian,
    ornstein_uhlenbeck,
    perturbed,
    stationary_sigma,
)

THETA, DT, SIGMA = 0.5, 0.1, 0.2


def uniforms(*shape, seed=0):
    return np.random.default_rng(seed).uniform(size=shape)


# --- laws -----------------------------------------------------------------------------


@pytest.mark.parametrize("law", EXPLORATION_LAWS)
def test_explore_plays_the_law_it_is_named(law):
    """The same numbers as the law itself; the drift is handed through untouched."""
    mu, uniform, drift = (
        np.array([0.2, -0.9]),
        np.array([0.3, 0.99]),
        np.array([7.0, 8.0]),
    )
    action, still = explore(Exploration(law), mu, SIGMA, uniform, drift, scipy.special)
    expected = EXPLORATION_LAWS[law](mu, SIGMA, uniform, scipy.special)
    assert np.all(action == expected)
    assert np.all(still == drift)


def test_the_gaussian_is_not_clipped():
    """scipy's quantiles, beyond the bounds too: PPO learns from what was drawn."""
    uniform = uniforms(1000)
    action = gaussian(np.full(1000, 0.9), 0.5, uniform, scipy.special)
    np.testing.assert_allclose(action, stats.norm(0.9, 0.5).ppf(uniform), rtol=1e-9)
    assert action.max() > 1
    clipped = clipped_gaussian(np.full(1000, 0.9), 0.5, uniform, scipy.special)
    assert np.all(clipped == action.clip(-1, 1))


def test_no_law_plays_mu():
    """Bit for bit, whatever is drawn."""
    mu = np.array([0.2, -3.0])
    how = Exploration("none")
    action, _ = explore(how, mu, SIGMA, uniforms(2), np.zeros(2), scipy.special)
    assert np.all(action == mu)


def test_anywhere_is_uniform_over_the_box():
    """0 and 1 go to -1 and 1, a half to 0; Kolmogorov-Smirnov on draws."""
    assert anywhere(np.array([0.0, 0.5, 1.0])).tolist() == [-1, 0, 1]
    draws = anywhere(uniforms(5000))
    assert stats.kstest(draws, stats.uniform(-1, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("law", [*EXPLORATION_LAWS, "ou"])
def test_numpy_and_jax_explore_alike(law):
    """The same uniform numbers, the same actions and drift, to float32."""
    mu, uniform = 0.6 * uniforms(50, seed=1), uniforms(50).clip(0.01, 0.99)
    drift, how = 0.1 * uniforms(50, seed=2), Exploration(law, THETA, DT)
    host = explore(how, mu, SIGMA, uniform, drift, scipy.special)
    f = jnp.float32
    device = explore(how, f(mu), SIGMA, f(uniform), f(drift))
    for a, b in zip(host, device, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


# --- Ornstein-Uhlenbeck ---------------------------------------------------------------


def paths(steps, count, seed=0):
    """[steps, count] of noise, from 0, by our step."""
    x, rows = np.zeros(count), []
    for uniform in uniforms(steps, count, seed=seed):
        x = ornstein_uhlenbeck(x, SIGMA, uniform, THETA, DT, scipy.special)
        rows.append(x)
    return np.array(rows)


def test_ou_is_its_recursion():
    """x - theta dt x + sigma sqrt(dt) z, by hand."""
    x = ornstein_uhlenbeck(
        np.array([1.0]), 0.2, stats.norm.cdf([0.7]), 0.5, 0.1, scipy.special
    )
    np.testing.assert_allclose(x, 1 - 0.5 * 0.1 + 0.2 * 0.1**0.5 * 0.7, rtol=1e-9)


def test_ou_is_as_wide_in_the_long_run_as_told():
    """500 paths, long past their memory: the deviation to four sampling errors."""
    end = paths(400, 2000)[-1]
    sigma = stationary_sigma(SIGMA, THETA, DT)
    error = sigma / math.sqrt(2 * len(end))
    assert abs(end.std() - sigma) < 4 * error
    assert abs(end.mean()) < 4 * sigma / math.sqrt(len(end))
    assert stats.kstest(end, stats.norm(0, sigma).cdf).pvalue > 1e-3


@pytest.mark.parametrize("lag", [1, 5, 20])
def test_ou_forgets_geometrically(lag):
    """Correlation (1 - theta dt)^k between steps k apart, to four errors."""
    x = paths(400, 4000)
    correlation = np.corrcoef(x[-1], x[-1 - lag])[0, 1]
    expected = (1 - THETA * DT) ** lag
    error = (1 - expected**2) / math.sqrt(x.shape[1])
    assert abs(correlation - expected) < 4 * error + 1e-3


def test_the_noise_of_table_4_is_narrow():
    """0.0018 with (0.001, 0.15, 0.01); and in closed form sigma / sqrt(2 theta)."""
    assert stationary_sigma(0.001, 0.15, 0.01) == pytest.approx(0.0018, abs=5e-5)
    assert stationary_sigma(0.001, 0.15, 1e-9) == pytest.approx(
        0.001 / math.sqrt(0.3), rel=1e-4
    )


def test_a_walk_without_a_pull_has_no_width():
    """theta = 0 spreads for ever; theta dt = 1 forgets at once."""
    assert stationary_sigma(0.2, 0.0, 0.1) == math.inf
    assert stationary_sigma(0.2, 10.0, 0.1) == pytest.approx(0.2 * 0.1**0.5)


def test_ou_starts_anew_from_a_drift_of_0():
    """What is played hangs on the drift handed in alone; it is clipped, drift is not."""
    how, mu = Exploration("ou", THETA, DT), np.array([0.95])
    first, drift = explore(how, mu, 5.0, np.array([0.9]), np.zeros(1), scipy.special)
    assert first == 1
    assert mu + drift > 1
    again, _ = explore(how, mu, 5.0, np.array([0.9]), np.zeros(1), scipy.special)
    assert again == first
    on, _ = explore(how, mu, 5.0, np.array([0.1]), drift, scipy.special)
    anew, _ = explore(how, mu, 5.0, np.array([0.1]), np.zeros(1), scipy.special)
    assert on != anew


# --- noise on parameters --------------------------------------------------------------


def test_every_leaf_moves_by_its_own_normal_numbers(key):
    """The deviation of each leaf is sigma, to four errors; no two leaves share draws."""
    weights = {"a": jnp.zeros((40, 50)), "b": [jnp.ones(2000), jnp.ones(2000)]}
    moved = perturbed(weights, jnp.float32(0.3), key)
    change = jax.tree.map(lambda a, b: np.ravel(a - b), moved, weights)
    leaves = jax.tree.leaves(change)
    for leaf in leaves:
        assert abs(leaf.std() - 0.3) < 4 * 0.3 / math.sqrt(2 * len(leaf))
        assert abs(leaf.mean()) < 4 * 0.3 / math.sqrt(len(leaf))
    for i in range(3):
        for j in range(i):
            assert abs(np.corrcoef(leaves[i], leaves[j])[0, 1]) < 4 / math.sqrt(2000)


def test_noise_on_parameters_is_a_function_of_its_key(key):
    """The same key, the same bits; another key, other weights; sigma 0, no change."""
    weights = [jnp.ones(5), jnp.ones((2, 3))]
    bits = lambda t: [np.asarray(x).tobytes() for x in jax.tree.leaves(t)]  # noqa: E731
    sigma = jnp.float32(0.1)
    first = bits(perturbed(weights, sigma, key))
    assert first == bits(perturbed(weights, sigma, key))
    other = bits(perturbed(weights, sigma, jax.random.key(1)))
    assert all(a != b for a, b in zip(first, other, strict=True))
    assert bits(perturbed(weights, jnp.float32(0.0), key)) == bits(weights)


def test_adapting_goes_by_one_percent():
    """Farther than meant: narrower; nearer, or exactly there: wider."""
    sigma = jnp.float32(0.1)
    for distance, factor in ((0.3, 1 / 1.01), (0.2, 1.01), (0.1, 1.01)):
        moved = adapt_parameter_noise(sigma, jnp.float32(distance), jnp.float32(0.2))
        np.testing.assert_allclose(moved, 0.1 * factor, rtol=1e-6)


@pytest.mark.parametrize("start", [0.005, 2.0])
def test_adapting_reaches_the_distance_aimed_at(start, key):
    """From far too narrow and far too wide: within 10 % of the target on a small MLP."""
    target = 0.2
    weights = init_layers(key, (3, 16, 2), "orthogonal", 1.0)
    obs = jax.random.normal(jax.random.key(1), (64, 3))
    mu = lambda w: jnp.tanh(mlp(w, obs, "tanh"))  # noqa: E731

    @jax.jit
    def iterate(sigma, key):
        def step(sigma, key):
            apart = mu(perturbed(weights, sigma, key)) - mu(weights)
            distance = jnp.sqrt(jnp.mean(apart**2))
            return adapt_parameter_noise(sigma, distance, target), distance

        return jax.lax.scan(step, sigma, jax.random.split(key, 1500))

    _, distances = iterate(jnp.float32(start), jax.random.key(2))
    assert np.median(distances[500:]) == pytest.approx(target, rel=0.1)
