"""A tree of many small arrays as a few long vectors.

A call of a compiled program costs some microseconds for every array that goes in or comes
out: for a learner of eighty arrays that is as much as one of its gradient steps.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["vectors"],
    meta_fields=["structure", "leaves"],
)
@dataclass(frozen=True)
class Packed:
    """One vector for each dtype; programs take and return it like any tree."""

    vectors: dict[str, Any]
    structure: Any  # of the tree
    leaves: tuple[tuple[str, tuple[int, ...]], ...]  # dtype and shape of each


def pack(tree: Any, xp: Any = jnp) -> Packed:
    """Pack inside a program; with `xp` = numpy outside of one, where JAX would compile
    every operation."""
    leaves, structure = jax.tree.flatten(tree)
    about = tuple((str(x.dtype), x.shape) for x in leaves)
    parts: dict[str, list[Any]] = {}
    for x in leaves:
        parts.setdefault(str(x.dtype), []).append(xp.ravel(x))
    vectors = {dtype: xp.concatenate(part) for dtype, part in parts.items()}
    return Packed(vectors, structure, about)


def unpack(packed: Packed) -> Any:
    """The tree again: inside a program, or as views of numpy's arrays outside of one."""
    ends = dict.fromkeys(packed.vectors, 0)
    leaves = []
    for dtype, shape in packed.leaves:
        start = ends[dtype]
        ends[dtype] = end = start + math.prod(shape)
        leaves.append(packed.vectors[dtype][start:end].reshape(shape))
    return packed.structure.unflatten(leaves)


def pack_for_device(tree: Any) -> Packed:
    """A tree from the host, packed and moved to the device."""
    return jax.tree.map(jnp.asarray, pack(jax.device_get(tree), xp=np))


def unpack_on_host(packed: Packed) -> Any:
    """The tree as read-only numpy arrays."""
    vectors = {dtype: np.asarray(x) for dtype, x in packed.vectors.items()}
    return unpack(Packed(vectors, packed.structure, packed.leaves))
