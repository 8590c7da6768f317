"""Sparse updates of functions that are linear in tile features.

A state has few active tiles. Gradients are computed for their rows and added there, so
a step costs as much as there are grids, however many tiles they have. Without tiles the
functions here work on the whole.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float

from penfac.algos.nets import Layers
from penfac.core.features import tile_indices
from penfac.policy import Tiling

Obs = Float[Array, "*b n"]
Near = Any  # layers whose first matrix may be the rows that a state sees


def near(layers: Any, obs: Obs, tiling: Tiling | None) -> Near:
    """The layers, with the first matrix replaced by its rows [*b, tilings, k] for
    `obs`."""
    if tiling is None or not layers:
        return layers
    (w, b), *rest = layers
    return [(w[tile_indices(obs, tiling)], b), *rest]


def add_near(layers: Any, change: Any, obs: Obs, tiling: Tiling | None) -> Any:
    """The layers, with a change added to the rows of `obs`."""
    if tiling is None or not layers:
        return optax.apply_updates(layers, change)
    (w, b), *rest = layers
    (rows, db), *others = change
    w = w.at[tile_indices(obs, tiling)].add(rows)
    return [(w, b + db), *jax.tree.map(jnp.add, rest, others)]


def everywhere(gradient: Any, layers: Any, obs: Obs, tiling: Tiling | None) -> Any:
    """Expand a gradient in the rows of `obs` to one in all of the layers."""
    nothing = jax.tree.map(jnp.zeros_like, layers)
    return add_near(nothing, gradient, obs, tiling)


def axes_near(layers: Layers, tiling: Tiling | None) -> Any:
    """The arrays that have one row per state, as axes for `vmap`."""
    if tiling is None:
        return None
    return [(0, None), *((None, None) for _ in layers[1:])]


def sum_near(each: Any, weight: Float[Array, " N"], tiling: Tiling | None) -> Any:
    """The weighted sum of gradients, one per state; each is added to its own rows."""
    total = jax.tree.map(lambda g: jnp.tensordot(weight, g, axes=1), each)
    if tiling is None:
        return total
    rows, (_, b) = each[0][0], total[0]
    return [(weight[:, None, None] * rows, b), *total[1:]]
