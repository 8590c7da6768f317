"""Observation statistics against two passes over everything seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from penfac.core.normalise import (
    BATCH_NORM_RETENTION,
    batch_moments,
    batch_stats_init,
    batch_stats_moments,
    batch_stats_update,
    normalise,
    running_init,
    running_moments,
    running_update,
)

merge = jax.jit(running_update)
see = jax.jit(batch_stats_update)


def everything(rows):
    return jnp.ones(len(rows), bool)


def running_over(batches):
    stats = running_init(batches[0].shape[1])
    for x in batches:
        stats = merge(stats, jnp.asarray(x), everything(x))
    return stats


def batches_of(seed=0, count=6, size=50, n=3, mean=0.0, std=1.0):
    rng = np.random.default_rng(seed)
    return [
        (mean + std * rng.normal(size=(size, n))).astype(np.float32)
        for _ in range(count)
    ]


# --- running --------------------------------------------------------------------------


def test_running_statistics_equal_two_passes_over_everything(strict_dtypes):
    """Merged batch by batch, or seen at once: the same mean and variance."""
    batches = batches_of(mean=[1.0, -3.0, 0.0], std=[1.0, 0.1, 20.0])
    mean, variance = oracles.two_pass(np.concatenate(batches))
    stats = running_over(batches)
    assert stats.seen == 300
    ours, std = running_moments(stats)
    np.testing.assert_allclose(ours, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-5)


@pytest.mark.parametrize(("count", "std", "rtol"), [(20, 1.0, 1e-2), (1, 0.25, 1e-4)])
def test_a_large_mean_costs_no_digits_of_the_variance(count, std, rtol, strict_dtypes):
    """Mean 1e6, deviation 1, float32: E[x^2] - E[x]^2 has not one digit left here.

    Many batches, where the rounding of the mean itself (1/16) is all that may be seen;
    and the first one, which has no mean to start from and still must not sum 1e6s.
    """
    batches = batches_of(count=count, size=500, mean=1e6, std=std)
    seen = np.concatenate(batches)
    mean, variance = oracles.two_pass(seen)
    ours, deviation = running_moments(running_over(batches))
    np.testing.assert_allclose(ours, mean, atol=0.07)  # float32 has steps of 1/16 here
    np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=rtol)
    squares = np.mean(seen**2, axis=0, dtype=np.float32)
    naive = squares - np.mean(seen, axis=0, dtype=np.float32) ** 2
    assert np.all(np.abs(naive - variance) > 0.5 * variance)  # so the test can tell


def test_the_order_of_batches_does_not_matter(strict_dtypes):
    """Merging is associative and commutative up to rounding, sizes unequal."""
    rng = np.random.default_rng(0)
    batches = [
        (5 * i + rng.normal(size=(size, 2))).astype(np.float32)
        for i, size in enumerate((1, 7, 300, 2))
    ]
    first = running_over(batches)
    for order in ([3, 2, 1, 0], [2, 0, 3, 1]):
        other = running_over([batches[i] for i in order])
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), first, other
        )


def test_padding_does_not_enter_running_statistics(strict_dtypes):
    """Bit for bit, also when the padding comes first and the statistics are empty."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(8, 2)), jnp.float32)
    mask = jnp.array([False, True, True, False, True, True, False, False])
    soiled = jnp.where(mask[:, None], x, 7.0)
    for start in (running_init(2), running_over(batches_of(n=2))):
        clean, dirty = merge(start, x, mask), merge(start, soiled, mask)
        jax.tree.map(np.testing.assert_array_equal, clean, dirty)
    fresh = merge(running_init(2), x, mask)
    mean, variance = oracles.two_pass(np.asarray(x)[np.asarray(mask)])
    np.testing.assert_allclose(fresh.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(fresh.m2 / fresh.seen, variance, rtol=1e-5)


def test_a_constant_component_is_centred_and_not_divided(strict_dtypes):
    """Deviation 0 would be a division by 0: it stands as 1, and x - mean is 0."""
    x = np.tile(np.float32([3.0, 1e6]), (20, 1))
    mean, std = running_moments(running_over([x, x]))
    np.testing.assert_array_equal(std, [1, 1])
    np.testing.assert_array_equal(normalise(jnp.asarray(x), mean, std, 5.0), 0 * x)


def test_nothing_seen_changes_nothing(strict_dtypes):
    """(0, 1) before the first batch."""
    mean, std = running_moments(running_init(3))
    np.testing.assert_array_equal(mean, np.zeros(3))
    np.testing.assert_array_equal(std, np.ones(3))


def test_one_state_alone_gives_no_nan(strict_dtypes):
    """N = 1: the mean is the state, the deviation stands as 1."""
    mean, std = running_moments(running_over([np.float32([[4.0, -2.0]])]))
    np.testing.assert_array_equal(mean, [4, -2])
    np.testing.assert_array_equal(std, [1, 1])


def test_normalise_is_kept_within_its_clip(strict_dtypes):
    """(x - mean) / std, and no more than `clip` deviations; infinite clip: no limit."""
    x = jnp.array([[1.0, 100.0], [-100.0, 3.0]])
    mean, std = jnp.array([1.0, 1.0]), jnp.array([2.0, 4.0])
    np.testing.assert_array_equal(normalise(x, mean, std, 5.0), [[0, 5], [-5, 0.5]])
    free = normalise(x, mean, std, jnp.inf)
    np.testing.assert_array_equal(free, [[0, 24.75], [-50.5, 0.5]])


# --- batch norm -----------------------------------------------------------------------


def test_batch_moments_are_mean_and_variance_over_n(strict_dtypes):
    (x,) = batches_of(count=1, mean=[1.0, 2.0, 3.0])
    mean, variance = oracles.two_pass(x)
    ours = batch_moments(jnp.asarray(x), everything(x))
    np.testing.assert_allclose(ours[0], mean, rtol=1e-5)
    np.testing.assert_allclose(ours[1], variance, rtol=1e-5)


def test_batch_norm_statistics_equal_their_definition(strict_dtypes):
    """sum_k r^age N_k x_k / sum_k r^age N_k of means and unbiased variances."""
    rng = np.random.default_rng(0)
    batches = [
        (i + rng.normal(size=(size, 2))).astype(np.float32)
        for i, size in enumerate((40, 3, 80, 10))
    ]
    stats = batch_stats_init(2)
    for x in batches:
        stats = see(stats, jnp.asarray(x), everything(x))
    ours = batch_stats_moments(stats)
    expected = oracles.decayed_batch_stats(batches, BATCH_NORM_RETENTION)
    np.testing.assert_allclose(ours[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(ours[1], expected[1], rtol=1e-5)


def test_batch_norm_forgets_the_past():
    """After 20 000 passes over one batch nothing is left of an earlier one."""
    old, new = (jnp.full((4, 1), x) + jnp.arange(4.0)[:, None] for x in (50.0, 0.0))
    mask = everything(old)
    stats = see(batch_stats_init(1), old, mask)
    stats = jax.lax.fori_loop(0, 20_000, lambda _, s: see(s, new, mask), stats)
    mean, variance = batch_stats_moments(stats)
    np.testing.assert_allclose(mean, [1.5], rtol=1e-3)
    np.testing.assert_allclose(variance, [np.var(range(4), ddof=1)], rtol=1e-3)


def test_batch_norm_before_its_first_pass_is_0_and_0(strict_dtypes):
    """Empty sums are 0 and no NaN, as in the authors' code."""
    mean, variance = batch_stats_moments(batch_stats_init(2))
    np.testing.assert_array_equal(mean, [0, 0])
    np.testing.assert_array_equal(variance, [0, 0])


def test_batch_norm_of_one_step_gives_no_nan(strict_dtypes):
    """N - 1 = 0 does not divide: the variance of one step is 0."""
    stats = see(batch_stats_init(2), jnp.array([[4.0, -2.0]]), jnp.ones(1, bool))
    mean, variance = batch_stats_moments(stats)
    np.testing.assert_array_equal(mean, [4, -2])
    np.testing.assert_array_equal(variance, [0, 0])


def test_padding_does_not_enter_batch_norm(strict_dtypes):
    """Bit for bit; and N counts real steps only."""
    (x,) = map(jnp.asarray, batches_of(count=1, size=8))
    mask = jnp.array([True] * 5 + [False] * 3)
    soiled = jnp.where(mask[:, None], x, 7.0)
    clean, dirty = (see(batch_stats_init(3), y, mask) for y in (x, soiled))
    jax.tree.map(np.testing.assert_array_equal, clean, dirty)
    assert clean.weight == 5
    expected = oracles.decayed_batch_stats([np.asarray(x)[:5]], 1.0)
    np.testing.assert_allclose(batch_stats_moments(clean)[1], expected[1], rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 30])
def test_repeating_one_batch_keeps_its_statistics(steps, strict_dtypes):
    """A weighted mean of equal values is that value, however it is weighted."""
    (x,) = batches_of(count=1, size=20)
    stats = batch_stats_init(3)
    for _ in range(steps):
        stats = see(stats, jnp.asarray(x), everything(x))
    mean, variance = batch_stats_moments(stats)
    expected = oracles.two_pass(x)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, expected[1] * 20 / 19, rtol=1e-4)
