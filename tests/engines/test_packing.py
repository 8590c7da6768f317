"""Trees as a few vectors, and back."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.engines.packing import pack, pack_for_device, unpack, unpack_on_host


class Some(NamedTuple):
    weights: list[Any]
    steps: Any
    flags: Any
    none: Any


def tree() -> Some:
    """Every kind of number, scalars, an array without any, in mixed order."""
    return Some(
        weights=[(jnp.arange(6.0).reshape(2, 3), jnp.float32(-0.0)), jnp.zeros((0, 4))],
        steps=jnp.int32(2**31 - 1),
        flags=jnp.array([True, False]),
        none=(jnp.array([[np.nan, np.inf]]), jnp.uint32(2**32 - 1), ()),
    )


def bits(x: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    leaves = map(np.asarray, jax.tree.leaves(x))
    return [(str(leaf.dtype), leaf.shape, leaf.tobytes()) for leaf in leaves]


ways = {
    "numpy": lambda x: unpack_on_host(pack(jax.device_get(x), xp=np)),
    "over the device": lambda x: unpack_on_host(pack_for_device(x)),
    "inside a program": jax.jit(lambda x: unpack(pack(x))),
    "into and out of programs": lambda x: unpack_on_host(jax.jit(pack)(x)),
}


@pytest.mark.parametrize("way", ways)
def test_every_bit_comes_back(way):
    back = ways[way](tree())
    assert bits(back) == bits(tree())
    assert jax.tree.structure(back) == jax.tree.structure(tree())


def test_one_vector_a_kind_of_number():
    kinds = pack_for_device(tree()).vectors
    sizes = {kind: x.shape for kind, x in kinds.items()}
    assert sizes == {"float32": (9,), "int32": (1,), "bool": (2,), "uint32": (1,)}


def test_a_program_gives_back_what_it_may_be_given_again():
    """Nothing is compiled anew in the next round."""
    more = lambda x: pack(jax.tree.map(lambda leaf: leaf * 2, unpack(x)))  # noqa: E731
    start = pack_for_device([jnp.float32(1), jnp.arange(3)])
    program = jax.jit(more).lower(start).compile()
    once, thrice = (
        unpack_on_host(program(start)),
        unpack_on_host(program(program(program(start)))),
    )
    assert bits(once) == bits([np.float32(2), np.arange(0, 6, 2, dtype=np.int32)])
    assert bits(thrice) == bits([np.float32(8), np.arange(0, 24, 8, dtype=np.int32)])


def test_what_lies_on_the_host_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        unpack_on_host(pack_for_device([jnp.ones(3)]))[0][0] = 2
