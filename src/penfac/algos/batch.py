"""What every algorithm reads of a batch in the same way."""

from typing import Any

from jax import Array
from jaxtyping import Float

from penfac.core.returns import discounts
from penfac.types import Transitions

Numbers = Any  # each algorithm has its own; here gamma, bootstrap


def discounts_of(batch: Transitions, numbers: Numbers) -> Float[Array, " N"]:
    """How much the future behind each step counts."""
    return discounts(
        batch.terminated, batch.truncated, numbers.gamma, numbers.bootstrap
    )
