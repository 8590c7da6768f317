"""Tile coding on partitions known by hand, and the compatible features of DPG."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac import policy
from penfac.algos.nets import init_layers, mlp
from penfac.core.critic import compatible_q
from penfac.core.features import (
    compatible_direction,
    compatible_features,
    tile_features,
    tile_indices,
)
from penfac.policy import Tiling, tile_shifts

LINE = Tiling((0.0,), (4.0,), tilings=2, tiles=4, memory=10**6)
SQUARE = Tiling((0.0, 0.0), (2.0, 2.0), tilings=2, tiles=2, memory=10**6)
BOX = Tiling((-1.0, -2.0, 0.0), (1.0, 3.0, 0.5), tilings=8, tiles=6, memory=10**6)
HASHED = BOX._replace(memory=100)


def indices(obs, tiling):
    return policy.tile_indices(np.asarray(obs, np.float32), tiling)


def states(tiling, count, seed=0, beyond=0.0):
    rng = np.random.default_rng(seed)
    low, high = np.array(tiling.low), np.array(tiling.high)
    wide = beyond * (high - low)
    return rng.uniform(low - wide, high + wide, (count, len(low))).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "tiles"),
    [
        # tiles of width 1; the second grid is moved by half a tile, behind 5 cells
        (0.0, (0, 5)), (0.4, (0, 5)), (0.6, (0, 6)), (1.0, (1, 6)), (1.4, (1, 6)),
        (1.5, (1, 7)), (3.4, (3, 8)), (3.6, (3, 9)), (3.99, (3, 9)),
    ],
)  # fmt: skip
def test_tiles_of_a_line(x, tiles):
    """By hand: four tiles a side and one more for the shift."""
    assert tuple(indices([x], LINE)) == tiles


@pytest.mark.parametrize(
    ("s", "tiles"),
    [
        # cell = i + 3 j; both sides of grid 1 are moved by half a tile (3/2 modulo 1)
        ((0.1, 0.1), (0, 9)), ((0.6, 0.1), (0, 10)), ((0.1, 0.6), (0, 12)),
        ((1.2, 0.1), (1, 10)), ((0.1, 1.2), (3, 12)), ((1.2, 1.7), (4, 16)),
        ((1.6, 1.6), (4, 17)),
    ],
)  # fmt: skip
def test_tiles_of_a_square(s, tiles):
    """By hand, two sides."""
    assert tuple(indices(s, SQUARE)) == tiles


def test_the_shifts_of_the_grids_are_odd_multiples():
    """k, 3k, 5k eighths of a tile modulo 1; the first grid is not moved."""
    shifts = tile_shifts(BOX)
    for k in range(8):
        assert shifts[k].tolist() == [(k * odd % 8) / 8 for odd in (1, 3, 5)]


@pytest.mark.parametrize("tiling", [LINE, SQUARE, BOX])
def test_each_grid_has_its_own_range_of_features(tiling):
    """Grid k owns [k cells, (k + 1) cells): disjoint, below size, also from outside."""
    found = indices(states(tiling, 500, beyond=1.0), tiling)
    assert found.shape == (500, tiling.tilings)
    assert found.dtype == np.int32
    assert np.all(found // tiling.cells == np.arange(tiling.tilings))
    assert 0 <= found.min() <= found.max() < tiling.size


def test_every_tile_of_a_line_is_used():
    """A sweep meets every feature, but an unshifted grid's last only on the edge."""
    sweep = indices(np.linspace(0, 4, 401)[:, None], LINE)
    assert set(sweep.ravel()) == set(range(LINE.size))
    inside = indices(np.linspace(0, 3.99, 400)[:, None], LINE)
    assert set(inside.ravel()) == set(range(LINE.size)) - {4}


def test_states_in_the_same_tiles_share_all_features():
    """Two states that no border of any grid separates."""
    assert np.all(indices([0.1], LINE) == indices([0.4], LINE))
    assert np.all(indices([0.1, 0.2], SQUARE) == indices([0.4, 0.3], SQUARE))


def test_shifted_grids_tell_apart_by_a_fraction_of_a_tile():
    """More than a tile apart: nothing shared. An eighth of a tile: one grid differs."""
    tiling = Tiling((0.0, 0.0), (8.0, 8.0), tilings=8, tiles=8, memory=10**6)
    for s in states(tiling, 100):
        s = np.clip(s, 0, 6.5)
        shared = np.sum(indices(s, tiling) == indices(s + np.array([1.01, 0]), tiling))
        assert shared == 0
        for side in np.eye(2) / 8:
            shared = np.sum(indices(s, tiling) == indices(s + side, tiling))
            assert shared == 7  # one border lies between them


def test_the_number_of_shared_tiles_falls_with_distance_along_each_side():
    """On average over states, by one grid an eighth of a tile."""
    tiling = Tiling((0.0, 0.0), (8.0, 8.0), tilings=8, tiles=8, memory=10**6)
    s = np.clip(states(tiling, 2000), 0, 6.5)
    for side in np.eye(2, dtype=np.float32):
        for eighths in range(1, 9):
            there = s + np.float32(eighths / 8) * side
            shared = np.sum(indices(s, tiling) == indices(there, tiling), axis=1)
            np.testing.assert_allclose(shared.mean(), 8 - eighths, atol=0.02)


@pytest.mark.parametrize("tiling", [LINE, BOX, HASHED])
def test_outside_the_box_is_its_edge(tiling):
    """A state beyond counts as the nearest one of the box."""
    far = states(tiling, 300, beyond=3.0)
    near = np.clip(far, np.float32(tiling.low), np.float32(tiling.high))
    assert np.all(indices(far, tiling) == indices(near, tiling))


def test_the_edges_belong_to_the_first_and_last_tiles():
    """0 is in the first tile of each grid, 4 in the last."""
    assert tuple(indices([0.0], LINE)) == (0, 5)
    assert tuple(indices([4.0], LINE)) == (4, 9)
    assert tuple(indices([-1e9], LINE)) == (0, 5)
    assert tuple(indices([1e9], LINE)) == (4, 9)


def test_size_is_what_the_grids_need_or_the_memory():
    """tilings (tiles + 1)^n, at most `memory`."""
    assert (LINE.size, SQUARE.size, BOX.size) == (10, 18, 8 * 7**3)
    assert HASHED.size == 100
    exact = BOX._replace(memory=8 * 7**3)
    s = states(BOX, 50)
    assert np.all(indices(s, exact) == indices(s, BOX))


def test_hashing_stays_in_memory_and_uses_all_of_it():
    """Every feature in range, all of them met, every state one a grid, always the same."""
    s = states(HASHED, 5000)
    found = indices(s, HASHED)
    assert found.shape == (5000, 8)
    assert set(found.ravel()) == set(range(100))
    assert np.all(found == indices(s, HASHED))
    same_tiles = indices(s, BOX)
    for grid in range(8):  # a function of the tile, and not of the tile alone
        _, first, inverse = np.unique(
            same_tiles[:, grid], return_index=True, return_inverse=True
        )
        assert np.all(found[first, grid][inverse] == found[:, grid])


def test_hashed_grids_do_not_share_one_function():
    """The same cell of two grids lands on different features, mostly."""
    found = indices(states(HASHED, 5000), HASHED)
    cells = indices(states(HASHED, 5000), BOX) % BOX.cells
    both = cells[:, 0] == cells[:, 1]
    assert both.sum() > 100
    assert np.mean(found[both, 0] == found[both, 1]) < 0.1


def test_hashing_is_nearly_even():
    """No feature is much more crowded than the others: chi-square over all tiles."""
    grid = np.stack(np.meshgrid(*[np.arange(7)] * 3), axis=-1).reshape(-1, 3)
    low, high = np.array(BOX.low), np.array(BOX.high)
    centres = low + (grid + 0.01) / 6 * (high - low)
    found = indices(centres[np.all(grid < 6, axis=1)], HASHED).ravel()
    counts = np.bincount(found, minlength=100)
    expected = counts.sum() / 100
    assert np.sum((counts - expected) ** 2 / expected) < 2 * 100


@pytest.mark.parametrize("tiling", [LINE, SQUARE, BOX, HASHED])
def test_numpy_and_jax_find_the_same_tiles(tiling):
    """10^4 random states away from the borders, where one rounding decides."""
    s = states(tiling, 10_000, beyond=0.2)
    low, high = np.float64(tiling.low), np.float64(tiling.high)
    where = (np.clip(s, low, high) - low) / (high - low) * tiling.tiles
    shifted = where[:, None] + tile_shifts(tiling)
    inside = (s > low) & (s < high)
    clear = (np.abs(shifted - np.round(shifted)) > 1e-5) | ~inside[:, None]
    s = s[np.all(clear, axis=(1, 2))]
    assert len(s) > 9_000
    there = jax.jit(lambda s: tile_indices(s, tiling))(s)
    assert np.all(np.asarray(there) == indices(s, tiling))


@pytest.mark.parametrize("tiling", [SQUARE, HASHED])
def test_features_count_the_tiles_that_are_on(tiling):
    """They sum to the number of grids; where tiles are hashed one may count twice."""
    s = states(tiling, 200)
    phi = np.asarray(jax.jit(lambda s: tile_features(s, tiling))(s))
    assert phi.shape == (200, tiling.size)
    assert np.all(phi.sum(axis=1) == tiling.tilings)
    for row, on in zip(phi, indices(s, tiling), strict=True):
        assert np.all(row == np.bincount(on, minlength=tiling.size))
    if tiling is SQUARE:
        assert phi.max() == 1


def test_a_linear_function_of_tiles_is_a_sum_of_weights():
    """phi(s) . w = the sum of the weights of the tiles that are on."""
    s, w = states(SQUARE, 20), np.random.default_rng(0).normal(size=SQUARE.size)
    by_features = np.asarray(tile_features(jnp.asarray(s), SQUARE), float) @ w
    np.testing.assert_allclose(
        by_features, w[indices(s, SQUARE)].sum(axis=1), rtol=1e-6
    )


# --- compatible features --------------------------------------------------------------

N, M = 3, 2


def policy_of(kind, s):
    """(mu of theta, theta): linear, or a small network through tanh."""
    if kind == "linear":
        theta = init_layers(jax.random.key(0), (N, M), "uniform", 1.0)
        return (lambda t: mlp(t, s, "tanh")), theta
    theta = init_layers(jax.random.key(0), (N, 4, M), "uniform", 1.0)
    return (lambda t: jnp.tanh(mlp(t, s, "tanh"))), theta


def like(theta, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), x.dtype), theta)


def flat(tree):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])


@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_compatible_features_equal_explicit_jacobians(kind):
    """grad_theta mu (a - mu) and grad_theta mu^T w from the whole [m, theta] matrix."""
    s, action = jnp.array([0.3, -1.0, 0.7]), jnp.array([0.9, -0.4])
    mu, theta = policy_of(kind, s)
    w = like(theta, 1)
    columns = jax.tree.leaves(jax.jacrev(mu)(theta))
    jacobian = np.concatenate([np.reshape(x, (M, -1)) for x in columns], axis=1)
    apart = np.asarray(action - mu(theta))
    features = compatible_features(mu, theta, action)
    np.testing.assert_allclose(flat(features), apart @ jacobian, rtol=1e-4, atol=1e-6)
    direction = compatible_direction(mu, theta, w)
    np.testing.assert_allclose(direction, jacobian @ flat(w), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_q_of_compatible_features_slopes_along_the_direction(kind):
    """Q = (a - mu) . d + V = w . features + V, and grad_a Q = d for every action."""
    s, v = jnp.array([0.3, -1.0, 0.7]), jnp.float32(0.25)
    mu, theta = policy_of(kind, s)
    w = like(theta, 1)
    direction = compatible_direction(mu, theta, w)

    def by_features(action):
        return v + sum(
            jnp.vdot(x, f)
            for x, f in zip(
                jax.tree.leaves(w),
                jax.tree.leaves(compatible_features(mu, theta, action)),
                strict=True,
            )
        )

    for action in (jnp.array([0.9, -0.4]), jnp.array([-1.0, 1.0])):
        q = compatible_q(direction, action, mu(theta), v)
        np.testing.assert_allclose(q, by_features(action), rtol=1e-5, atol=1e-6)
        slope = jax.grad(by_features)(action)
        np.testing.assert_allclose(slope, direction, rtol=1e-4, atol=1e-6)
