"""PPO's formulas against scipy and against loops over the rows really played."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from penfac.core.ppo import (
    adapt_step_size,
    approximate_kl,
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    entropy,
    log_likelihood,
    masked_mean,
    standardised,
)

B, M, CLIP = 12, 3, 0.2
EVERYONE = np.ones(B, bool)
SOME = np.array([True, False, True, True] * 3)


def draw(seed, *shape):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype(np.float32)


def ratios(seed=0):
    return np.exp(0.3 * draw(seed, B))


def loop(term, *columns, mask):
    """The mean of term(row) over the rows of the mask, in float64."""
    rows = zip(*(np.asarray(c, float) for c in columns), strict=True)
    terms = [term(*row) for row, real in zip(rows, mask, strict=True) if real]
    return sum(terms) / len(terms)


def test_log_likelihood_is_scipys():
    """The log of a product of normal densities, each dimension its own sigma."""
    action, mean, sigma = draw(0, B, M), draw(1, B, M), np.exp(draw(2, M))
    expected = stats.norm.logpdf(action, mean, sigma).sum(axis=1)
    ours = log_likelihood(*map(jnp.asarray, (action, mean, sigma)))
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_entropy_is_scipys():
    """Of independent normals it is the sum; of one wider by a factor, more by its log."""
    sigma = np.exp(draw(0, M))
    expected = stats.norm(0, sigma).entropy().sum()
    np.testing.assert_allclose(entropy(jnp.asarray(sigma)), expected, rtol=1e-5)
    wider = entropy(jnp.asarray(2 * sigma))
    np.testing.assert_allclose(wider - expected, M * np.log(2), rtol=1e-5)


def test_entropy_is_the_mean_of_minus_the_log_likelihood(key):
    """Sampled, to four standard errors."""
    sigma = jnp.array([0.3, 2.0])
    action = sigma * jax.random.normal(key, (20_000, 2))
    minus = -np.asarray(log_likelihood(action, jnp.zeros_like(action), sigma))
    error = minus.std() / np.sqrt(len(minus))
    assert abs(minus.mean() - float(entropy(sigma))) < 4 * error


@pytest.mark.parametrize("mask", [EVERYONE, SOME])
def test_the_surrogate_is_the_mean_of_the_lesser(mask):
    """min(r A, clip(r) A), row by row."""
    ratio, advantage = ratios(), draw(1, B)

    def term(r, a):
        return min(r * a, min(max(r, 1 - CLIP), 1 + CLIP) * a)

    ours = clipped_surrogate(
        *map(jnp.asarray, (ratio, advantage)), CLIP, jnp.asarray(mask)
    )
    expected = loop(term, ratio, advantage, mask=mask)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [(1.5, 1.0, 0.0), (0.5, 1.0, 1.0), (1.5, -1.0, -1.0), (0.5, -1.0, 0.0), (1.1, 2.0, 2.0)],
)  # fmt: skip
def test_where_the_surrogate_stops_pulling(ratio, advantage, slope):
    """No gradient once the ratio left the range to the good side, A everywhere else."""
    one = jnp.ones(1, bool)
    gradient = jax.grad(
        lambda r: clipped_surrogate(r, jnp.full(1, advantage), CLIP, one)
    )
    np.testing.assert_allclose(gradient(jnp.full(1, ratio)), [slope])


@pytest.mark.parametrize("mask", [EVERYONE, SOME])
def test_clip_fraction_counts(mask):
    """Rows whose ratio is farther from 1 than the clip."""
    ratio = ratios()
    expected = loop(lambda r: float(abs(r - 1) > CLIP), ratio, mask=mask)
    ours = clip_fraction(jnp.asarray(ratio), CLIP, jnp.asarray(mask))
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    assert 0 < expected < 1


@pytest.mark.parametrize("mask", [EVERYONE, SOME])
def test_approximate_kl_is_a_mean_of_terms_never_negative(mask):
    """(r - 1) - log r, and 0 for two equal policies."""
    log_ratio = 0.3 * draw(0, B)
    expected = loop(lambda x: np.exp(x) - 1 - x, log_ratio, mask=mask)
    ours = approximate_kl(jnp.asarray(log_ratio), jnp.asarray(mask))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-7)
    assert ours > 0
    assert approximate_kl(jnp.zeros(B), jnp.asarray(mask)) == 0


def test_approximate_kl_estimates_the_divergence_of_two_gaussians(key):
    """E_old[(r - 1) - log r] = KL(old | new) in closed form, to five errors."""
    old, new = 0.5, 0.6
    action = old * jax.random.normal(key, (50_000, 1))
    zero = jnp.zeros_like(action)
    log_ratio = log_likelihood(action, zero, jnp.array([new])) - log_likelihood(
        action, zero, jnp.array([old])
    )
    exact = np.log(new / old) + old**2 / (2 * new**2) - 0.5
    terms = np.exp(np.asarray(log_ratio, float)) - 1 - np.asarray(log_ratio, float)
    error = terms.std() / np.sqrt(len(terms))
    ours = approximate_kl(log_ratio, jnp.ones(50_000, bool))
    assert abs(float(ours) - exact) < 5 * error


@pytest.mark.parametrize("mask", [EVERYONE, SOME])
@pytest.mark.parametrize("clip", [0.2, np.inf])
def test_the_value_loss_takes_the_worse_of_two_errors(mask, clip):
    """Half of max((V - G)^2, (V_old + clip(V - V_old) - G)^2); unlimited: plain MSE."""
    v, v_old, target = draw(0, B), draw(1, B), draw(2, B)

    def term(v, old, g):
        near = old + min(max(v - old, -clip), clip)
        return 0.5 * max((v - g) ** 2, (near - g) ** 2)

    ours = clipped_value_loss(
        *map(jnp.asarray, (v, v_old, target)), clip, jnp.asarray(mask)
    )
    expected = loop(term, v, v_old, target, mask=mask)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    if clip == np.inf:
        plain = 0.5 * np.mean((v - target)[mask] ** 2)
        np.testing.assert_allclose(ours, plain, rtol=1e-5)


@pytest.mark.parametrize("mask", [EVERYONE, SOME])
def test_standardised_divides_by_the_sample_deviation(mask):
    """(A - mean) / (std + 1e-8) with std over N - 1, as torch has it."""
    advantage = 3 + 5 * draw(0, B)
    ours = np.asarray(standardised(jnp.asarray(advantage), jnp.asarray(mask)))[mask]
    real = advantage[mask].astype(float)
    expected = (real - real.mean()) / (real.std(ddof=1) + 1e-8)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.mean(), 0, atol=1e-6)
    np.testing.assert_allclose(ours.std(ddof=1), 1, rtol=1e-5)


@pytest.mark.parametrize("real", [0, 1])
def test_standardised_is_finite_with_one_row_or_none(real):
    """Nothing to compare with: 0, never NaN."""
    mask = np.arange(B) < real
    ours = standardised(jnp.asarray(draw(0, B)), jnp.asarray(mask))
    assert np.all(np.isfinite(ours))
    assert np.all(np.asarray(ours)[mask] == 0)


def test_equal_advantages_become_0():
    """No deviation, no division by it."""
    ours = standardised(jnp.full(B, 4.0), jnp.ones(B, bool))
    assert np.all(np.asarray(ours) == 0)


def test_what_lies_in_padding_changes_nothing():
    """Other finite garbage where the mask is False: every number keeps its bits."""
    mask, garbage = jnp.asarray(SOME), 1e6 * draw(9, B)
    columns = ratios(), draw(1, B), draw(2, B), 0.3 * draw(3, B)

    @jax.jit
    def everything(r, a, b, x):
        return (
            clipped_surrogate(r, a, CLIP, mask), clip_fraction(r, CLIP, mask),
            clipped_value_loss(a, b, x, CLIP, mask), masked_mean(a, mask),
            approximate_kl(jnp.where(mask, x, 0), mask),
            jnp.where(mask, standardised(a, mask), 0),
        )  # fmt: skip

    clean = everything(*columns)
    dirty = everything(*(np.where(SOME, c, garbage).astype("f") for c in columns))
    for a, b in zip(clean, dirty, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_mean_over_no_rows_is_0():
    """Not NaN: a minibatch may be padding alone."""
    assert masked_mean(jnp.asarray(draw(0, B)), jnp.zeros(B, bool)) == 0


@pytest.mark.parametrize(
    ("kl", "factor"),
    [(0.021, 1 / 1.5), (1.0, 1 / 1.5), (0.019, 1.0), (0.01, 1.0), (0.006, 1.0),
     (0.004, 1.5), (0.0, 1.5)],
)  # fmt: skip
def test_the_step_size_follows_the_divergence(kl, factor):
    """Twice as far as meant: smaller; less than half: larger; between: as it is."""
    moved = adapt_step_size(jnp.float32(1.0), jnp.float32(kl), 0.01)
    np.testing.assert_allclose(moved, factor, rtol=1e-6)


@pytest.mark.parametrize(("kl", "end"), [(1.0, 0.01), (0.0, 100.0)])
def test_the_step_size_has_a_floor_and_a_ceiling(kl, end):
    """However often it is adapted."""
    factor = jnp.float32(1.0)
    for _ in range(40):
        factor = adapt_step_size(factor, jnp.float32(kl), 0.01)
    np.testing.assert_allclose(factor, end, rtol=1e-6)
