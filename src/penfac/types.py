"""The records that pass between rooms."""

from __future__ import annotations  # or the shapes would import JAX

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float

Vector = np.ndarray  # one dimension, host side


class Transitions(NamedTuple):
    """The steps of one learner on one time axis, episode after episode.

    Whole episodes and running worlds, host and device, give the same record. `last`
    says where a recursion over time stops. Where `mask` is False the other fields are
    finite and have no meaning.
    """

    mask: Bool[Array, " N"]  # a real step, not padding
    obs: Float[Array, "N n"]  # s_t
    next_obs: Float[Array, "N n"]  # s_{t+1}, never the state after a reset
    action: Float[Array, "N m"]  # a_t ~ pi(. | s_t), in [-1, 1]
    reward: Float[Array, " N"]  # R(s_t, a_t)
    terminated: Bool[Array, " N"]  # s_{t+1} is absorbing
    truncated: Bool[Array, " N"]  # a time limit ended the episode here
    last: Bool[Array, " N"]  # terminated, truncated, or the end of a row


class EnvSpec(NamedTuple):
    """What an algorithm may know of an environment."""

    id: str
    obs_dim: int
    action_low: Vector  # [m], in the environment's units
    action_high: Vector  # [m]
    horizon: int  # the time limit in steps
    obs_low: Vector | None = None  # [n]; infinite where the space has no bounds
    obs_high: Vector | None = None
    time_step: float | None = None  # seconds of one step, if the environment gives them

    @property
    def action_dim(self) -> int:
        return len(self.action_low)


class EpisodeStats(NamedTuple):
    """The episodes that ended while a batch was collected, and the parts of its
    rewards."""

    returns: list[float]
    lengths: list[int]
    terms: dict[str, float]  # the mean of each named part of the reward
