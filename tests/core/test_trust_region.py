"""The distance between policies, and the penalty that follows it  (Sec. 5.2)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from penfac.core.trust_region import (
    action_distance,
    adapt_beta,
    annealed_by_half,
    on_target,
    printed_distance,
)

SIZES = [(1, 1), (1, 6), (7, 1), (40, 3), (1000, 17)]
both = pytest.mark.parametrize("distance", [action_distance, printed_distance])


@both
def test_equal_policies_are_at_distance_0(distance, key, strict_dtypes):
    """Exactly 0, not a rounding of it."""
    mu = jax.random.normal(key, (12, 3))
    assert distance(mu, mu, jnp.ones(12, bool)) == 0


@pytest.mark.parametrize(("states", "m"), SIZES)
@pytest.mark.parametrize("shift", [0.25, -0.5])
def test_a_constant_shift_has_its_size_as_distance(states, m, shift, strict_dtypes):
    """d(mu, mu + x) = |x| for any number of states and dimensions: a root mean square."""
    mu = jnp.zeros((states, m))
    ours = action_distance(mu, mu + shift, jnp.ones(states, bool))
    np.testing.assert_allclose(ours, abs(shift), rtol=1e-6)


@pytest.mark.parametrize(("states", "m"), SIZES)
def test_the_printed_distance_grows_with_the_number_of_states(states, m, strict_dtypes):
    """sum_s |mu - mu_old| / sqrt(m L) of a constant shift x is |x| sqrt(L)."""
    mu = jnp.zeros((states, m))
    ours = printed_distance(mu, mu + 0.25, jnp.ones(states, bool))
    np.testing.assert_allclose(ours, 0.25 * np.sqrt(states), rtol=1e-5)


@pytest.mark.parametrize("kind", ["rms", "printed"])
def test_distances_equal_their_definitions(kind, key, strict_dtypes):
    """Against the sums written out, on random policies."""
    distance = {"rms": action_distance, "printed": printed_distance}[kind]
    old, new = jax.random.normal(key, (2, 9, 4))
    ours = distance(old, new, jnp.ones(9, bool))
    expected = oracles.distance_of(*(np.asarray(x, float) for x in (old, new)), kind)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


@both
def test_padding_is_no_state(distance, key, strict_dtypes):
    """Real steps alone, whatever lies behind the mask."""
    old, new = jax.random.normal(key, (2, 10, 2))
    mask = jnp.array([True] * 6 + [False] * 4)
    soiled = jnp.where(mask[:, None], new, 7.0)
    assert distance(old, new, mask) == distance(old, soiled, mask)
    alone = distance(old[:6], new[:6], mask[:6])
    np.testing.assert_allclose(distance(old, new, mask), alone, rtol=1e-6)


@pytest.mark.parametrize(
    ("beta", "distance", "becomes"),
    [
        (1.0, 0.0, 0.5),  # did not move
        (1.0, 0.019, 0.5),  # below d_target / 1.5 = 0.02
        (1.0, 0.021, 1.0),  # inside the band ...
        (1.0, 0.03, 1.0),
        (1.0, 0.044, 1.0),  # ... up to 1.5 d_target = 0.045
        (1.0, 0.046, 2.0),
        (1.0, 9.0, 2.0),  # a factor of two, however far
        (0.012, 0.0, 0.01),  # floor
        (1e-4, 0.03, 0.01),  # a start below the floor is lifted, on target too
        (15.0, 9.0, 20.0),  # ceiling
        (30.0, 0.03, 20.0),
    ],
)
def test_beta_rule(beta, distance, becomes, strict_dtypes):
    """Half when too near, double when too far, as it is between; then the clamps."""
    ours = adapt_beta(beta, distance, 0.03, 0.01, 20.0)
    np.testing.assert_allclose(ours, becomes, rtol=1e-6)


def test_the_edges_of_the_band_leave_beta_alone(strict_dtypes):
    """The paper's inequalities are strict; 0.75 / 1.5 and 0.75 * 1.5 are exact."""
    for edge in (0.5, 1.125):
        assert adapt_beta(1.0, edge, 0.75) == 1
        assert on_target(jnp.float32(edge), 0.75)


def test_beta_is_free_without_clamps(strict_dtypes):
    """As printed: nothing stops it from doubling or halving for ever."""
    beta = jnp.float32(1.0)
    for _ in range(40):
        beta = adapt_beta(beta, 1.0, 0.03)
    assert beta == 2.0**40
    for _ in range(80):
        beta = adapt_beta(beta, 0.0, 0.03)
    assert beta == 2.0**-40


def test_a_beta_clamped_to_0_stays_0(strict_dtypes):
    """No trust region is floor = ceiling = 0, whatever the distance."""
    for distance in (0.0, 0.03, 9.0):
        assert adapt_beta(0.0, distance, 0.03, 0.0, 0.0) == 0


def test_on_target_is_where_beta_keeps(strict_dtypes):
    """ "Neither too near nor too far" is exactly where the rule leaves beta alone."""
    for distance in np.linspace(0, 0.1, 101, dtype=np.float32):
        keeps = adapt_beta(1.0, jnp.asarray(distance), 0.03) == 1
        assert bool(on_target(jnp.asarray(distance), 0.03)) == bool(keeps)


def test_a_distance_that_is_not_a_number_is_not_on_target():
    """A diverged actor must not look like one that arrived."""
    assert not on_target(jnp.float32(jnp.nan), 0.03)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, 1.0), (0.25, 0.75), (0.5, 0.5), (0.75, 0.5), (1.0, 0.5)],
)
def test_an_annealed_setting_reaches_its_end_at_half_the_run(
    progress, expected, strict_dtypes
):
    """On a straight line; constant, to the bit, where start and end are the same."""
    np.testing.assert_allclose(
        annealed_by_half(1.0, 0.5, progress), expected, rtol=1e-6
    )
    assert annealed_by_half(0.03, 0.03, progress) == jnp.float32(0.03)


@pytest.mark.parametrize("start", [1.0, jnp.inf])
def test_no_limit_at_the_end_is_no_limit_at_any_time(start, strict_dtypes):
    """Infinity is not approached on a line; an update without a limit has none."""
    assert annealed_by_half(start, jnp.inf, 0.25) == jnp.inf
