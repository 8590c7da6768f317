"""Learning curves as pictures."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from penfac import plots
from penfac.plots import INK, SEED, Curve, learning_curve, on_grid

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def drawn(*curves: Curve, title: str = "penfac on Pendulum-v1") -> np.ndarray:
    """The pixels of a picture; any warning while drawing is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = learning_curve(list(curves), title)
    assert picture.startswith(SIGNATURE)
    return imread(io.BytesIO(picture), format="png")


def pixels(picture: np.ndarray, colour: str) -> int:
    """How many are of this colour."""
    distance = np.abs(picture[..., :3] - np.array(to_rgb(colour))).max(axis=-1)
    return int((distance < 0.02).sum())


def shows(picture: np.ndarray, colour: str) -> bool:
    return pixels(picture, colour) > 0


def curve(seed: int, points: int = 20, spacing: int = 1000, top: float = 100) -> Curve:
    steps = [spacing * k for k in range(points)]
    return Curve(seed, steps, [top * (1 - 0.9**k) + seed for k in range(points)])


def test_one_seed_is_one_line():
    """A PNG of 7 x 4 inches at 120 dots an inch, the line in its colour."""
    picture = drawn(curve(0))
    assert picture.shape[:2] == (4 * 120, 7 * 120)
    assert shows(picture, INK)


def test_several_seeds_show_their_mean_and_themselves():
    picture, alone = drawn(curve(0), curve(30), curve(60)), drawn(curve(30))
    assert shows(picture, INK)
    assert pixels(picture, SEED) > 5 * pixels(alone, SEED)


def test_uneven_steps_and_lengths():
    """Seeds evaluated at other steps, one of them stopped early."""
    assert shows(drawn(curve(0), curve(5, spacing=1700), curve(9, points=4)), INK)


def test_a_single_point_is_visible():
    """A run stopped before its second evaluation still shows what it knows."""
    assert shows(drawn(Curve(0, [0], [5.0])), INK)
    assert shows(drawn(Curve(0, [0], [5.0]), Curve(1, [0], [7.0])), INK)


def test_seeds_without_a_point_are_left_out():
    """They change nothing; with no points at all the axes are drawn empty."""
    np.testing.assert_array_equal(drawn(curve(0), Curve(1, [], [])), drawn(curve(0)))
    assert not shows(drawn(Curve(0, [], [])), INK)


@pytest.mark.parametrize("value", [0.0, -1e30, 1e30, 1e-30])
def test_any_finite_return_can_be_drawn(value):
    curves = Curve(0, [0, 10], [value, value]), Curve(1, [0, 10], [value, value / 2])
    assert shows(drawn(*curves), INK)


def test_millions_of_steps_and_odd_titles():
    """Long runs and names with signs that a formatter might read as its own."""
    title = "nfac on $my_env%s{}-v0 \\alpha & é"
    picture = drawn(curve(0, spacing=10**6), title=title)
    assert shows(picture, INK)
    assert (picture != drawn(curve(0, spacing=10**6), title="")).any()


def test_the_grid_spans_what_all_seeds_have_reached():
    """From the latest first point to the earliest last one, by straight lines."""
    curves = [
        ([0, 10, 100], [0.0, 10.0, 100.0]),
        ([5, 60], [50.0, 600.0]),
        ([0, 7, 80], [-0.0, -7.0, -80.0]),
    ]
    grid, returns = on_grid(curves, points=12)
    np.testing.assert_allclose(grid, np.linspace(5, 60, 12))
    np.testing.assert_allclose(returns, [grid, 10 * grid, -grid])


NUMBERS = st.floats(-1e4, 1e4, allow_nan=False)
CURVE = st.lists(
    st.tuples(st.integers(0, 1000), NUMBERS), min_size=1, max_size=8, unique_by=lambda x: x[0]
).map(lambda pairs: tuple(zip(*sorted(pairs), strict=True)))  # fmt: skip


@given(st.lists(CURVE, min_size=1, max_size=4))
def test_the_grid_never_extrapolates(curves):
    """Every grid point lies inside every curve, every return inside its range."""
    first, last = max(c[0][0] for c in curves), min(c[0][-1] for c in curves)
    grid, returns = on_grid(curves, points=7)
    assert len(grid) == (7 if first < last else 1)
    assert grid[0] == first
    assert grid[-1] == max(first, last)
    for (_, own), row in zip(curves, returns, strict=True):
        assert min(own) - 1e-9 <= row.min() <= row.max() <= max(own) + 1e-9


def test_the_same_curves_give_the_same_bytes():
    """A redrawn curve is not a changed file."""
    assert learning_curve([curve(0), curve(1)], "x") == learning_curve(
        [curve(0), curve(1)], "x"
    )


def test_costs_are_drawn_a_panel_each():
    """A PNG as wide as its panels; the points are those that were measured."""
    one = plots.costs({"seeds": [(1, 0.5), (60, 1.5)]})
    two = plots.costs({"seeds": [(1, 0.5), (60, 1.5)], "worlds": [(8, 1.0), (64, 0.3)]})
    width = [int.from_bytes(png[16:20], "big") for png in (one, two)]
    assert one.startswith(b"\x89PNG")
    assert width[1] == 2 * width[0]
