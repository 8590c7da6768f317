"""Policies of every kind that a file can hold, with random weights."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from penfac.policy import ActionScale, Policy, PolicyWeights, Tiling

ABOUT = {
    "environment": "Robot-v0", "algorithm": "penfac", "seed": 3, "step": 10**6,
    "penfac": "0.1.0", "sigma": [0.1, 0.2],
}  # fmt: skip
GRIDS = Tiling((-1.0, -2.0, 0.5), (1.0, 2.0, 3.0), tilings=8, tiles=8, memory=10**5)
SHARED = GRIDS._replace(memory=511)  # fewer features than tiles: hashed
FINE = Tiling((-1.0, -8.0), (1.0, 8.0), tilings=3, tiles=1024, memory=1009)


def make(
    sizes=(5, 16, 16, 3),
    activation="leaky_relu",
    output="tanh",
    clip=5.0,
    tiling=None,
    dtype=np.float32,
    shape=None,
) -> Policy:
    rng = np.random.default_rng(0)
    n, m = sizes[0], sizes[-1]

    def draw(*shape):
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    inputs = n if tiling is None else tiling.size
    layers = [(draw(i, o), draw(o)) for i, o in pairwise((inputs, *sizes[1:]))]
    std = np.abs(draw(n)) + np.float32(0.1)
    weights = PolicyWeights(
        draw(n), std, clip, draw(n) + 1, draw(n), layers, activation, output, tiling
    )
    low = np.linspace(-1.5, -0.1, m).astype(dtype)
    high = np.linspace(1 / 3, 7, m).astype(dtype)
    return Policy(weights, ActionScale(low, high, shape or (m,)), ABOUT)


def with_spread(policy: Policy) -> Policy:
    """SAC's: what is exported is the mean."""
    spread = [tuple(-array for array in policy.weights.layers[-1])]
    return replace(policy, weights=policy.weights._replace(spread=spread))


POLICIES = {
    "as learned": make(),
    "linear": make(output="linear"),
    "tanh, no clip": make(activation="tanh", clip=np.inf),
    "relu": make(activation="relu", output="linear", clip=np.inf),
    "one layer": make(sizes=(4, 1), output="linear"),
    "float64": make(dtype=np.float64),
    "a matrix of actions": make(sizes=(5, 8, 6), shape=(2, 3)),
    "an action without a shape": make(sizes=(5, 8, 1), shape=()),
    "with a layer for sigma": with_spread(make()),
    "tiles": make(sizes=(3, 2), tiling=GRIDS, output="linear"),
    "tiles that share": make(sizes=(3, 8, 2), tiling=SHARED),
    "fine tiles that share": make(sizes=(2, 2), tiling=FINE),
}


def at_edges(tiling: Tiling) -> np.ndarray:
    """States on the borders of tiles, and one bit on either side of them."""
    rng = np.random.default_rng(2)
    low, high = np.asarray(tiling.low, "f"), np.asarray(tiling.high, "f")
    step = (high - low) / np.float32(tiling.tiles * tiling.tilings)
    count = rng.integers(0, tiling.tiles * tiling.tilings + 1, (3000, len(low)))
    on = (low + count * step).astype(np.float32)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return np.concatenate([on, np.nextafter(on, up), np.nextafter(on, down)])
