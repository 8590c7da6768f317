"""An environment as pure functions of one world; `vmap` makes many."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Bool, Float

from penfac.types import EnvSpec

WorldState = Any  # a pytree of arrays


class Outcome(NamedTuple):
    """What one step gave. The time limit is counted by whoever plays, not here."""

    state: WorldState
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    broken: Any = False  # the world blew up: this step is no data


class JaxEnv(NamedTuple):
    """One world: all three functions are pure and take one state, no batch."""

    spec: EnvSpec
    reset: Callable[[Any], WorldState]  # key -> a state of T_0
    observe: Callable[[WorldState], Array]  # -> [n]
    step: Callable[..., Outcome]  # (state, action [m] in the spec's units, key)
    summary: str
