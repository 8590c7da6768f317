"""An environment as pure functions of one world; `vmap` makes many."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Bool, Float

from penfac.types import EnvSpec

WorldState = Any  # a pytree of arrays


class Outcome(NamedTuple):
    """The result of one step. The collector counts the time limit, not the
    environment."""

    state: WorldState
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    broken: Any = False  # the simulation failed: discard this step


class JaxEnv(NamedTuple):
    """Three pure functions of one world, without a batch axis."""

    spec: EnvSpec
    reset: Callable[[Any], WorldState]  # key -> an initial state
    observe: Callable[[WorldState], Array]  # -> [n]
    step: Callable[..., Outcome]  # (state, action [m] in the spec's units, key)
    summary: str
