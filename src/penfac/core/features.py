"""Linear features of a state: tile coding, and the compatible features of DPG.

Tile coding lays several grids over a box, each shifted by a fraction of a tile; a state
is told by the one tile of each grid that it lies in. Where a tile is belongs to
`policy.py`, which must find it without us.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from penfac import policy
from penfac.policy import Tiling


def tile_indices(obs: Float[Array, "*b n"], tiling: Tiling) -> Int[Array, "*b tilings"]:
    """Which feature of each grid is on."""
    return policy.tile_indices(obs, tiling, jnp)


def tile_features(obs: Float[Array, "*b n"], tiling: Tiling) -> Float[Array, "*b size"]:
    """phi(s): 1 at each tile that is on (2 where hashing made two meet)."""
    return jnp.sum(jax.nn.one_hot(tile_indices(obs, tiling), tiling.size), axis=-2)


def compatible_features(
    mu: Callable[[Any], Float[Array, " m"]], theta: Any, action: Float[Array, " m"]
) -> Any:
    """grad_theta mu(s) (a - mu(s)), a tree like theta: the features whose Q has the
    gradient that DPG follows  (Sec. 2, Silver et al. 2014)."""
    mean, pullback = jax.vjp(mu, theta)
    return pullback(action - mean)[0]


def compatible_direction(
    mu: Callable[[Any], Float[Array, " m"]], theta: Any, w: Any
) -> Float[Array, " m"]:
    """grad_a Q(s, a) = grad_theta mu(s)^T w: the same for every action."""
    return jax.jvp(mu, (theta,), (w,))[1]
