"""A tree of many small arrays as a few long ones.

A call of a compiled program pays some microseconds for every array that goes in or comes
out: for a learner of eighty that is of the order of a gradient step of it.
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
    """One vector a type of number; programs take and return it like any tree."""

    vectors: dict[str, Any]
    structure: Any  # of the tree
    leaves: tuple[tuple[str, tuple[int, ...]], ...]  # type and shape of each


def packed(tree: Any, by: Any = jnp) -> Packed:
    """Inside a program; or by numpy outside of one, where jax would compile each part."""
    leaves, structure = jax.tree.flatten(tree)
    about = tuple((str(x.dtype), x.shape) for x in leaves)
    parts: dict[str, list[Any]] = {}
    for x in leaves:
        parts.setdefault(str(x.dtype), []).append(by.ravel(x))
    vectors = {kind: by.concatenate(own) for kind, own in parts.items()}
    return Packed(vectors, structure, about)


def unpacked(whole: Packed) -> Any:
    """The tree again; inside a program, or of numpy's views outside of one."""
    ends = dict.fromkeys(whole.vectors, 0)
    leaves = []
    for kind, shape in whole.leaves:
        start = ends[kind]
        ends[kind] = end = start + math.prod(shape)
        leaves.append(whole.vectors[kind][start:end].reshape(shape))
    return whole.structure.unflatten(leaves)


def on_device(tree: Any) -> Packed:
    """A tree on its way into programs."""
    return jax.tree.map(jnp.asarray, packed(jax.device_get(tree), by=np))


def on_host(whole: Packed) -> Any:
    """The tree as numpy arrays, which nobody may write to."""
    vectors = {kind: np.asarray(x) for kind, x in whole.vectors.items()}
    return unpacked(Packed(vectors, whole.structure, whole.leaves))
