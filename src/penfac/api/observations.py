"""A model's environment as its user sees it: spaces, and observations as rows."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from penfac.envs.calls import Watch
from penfac.envs.gym import GymWorld, check_id, is_vector, open_world
from penfac.envs.own import Source
from penfac.envs.vector import VectorWorlds
from penfac.errors import ConfigError, PenfacError

Ask = Callable[[], gymnasium.Space]  # the environment's space; may open the environment


def rows_of(observation: Any, n: int, space: Ask) -> np.ndarray:
    """Return one state as [n], a batch as [k, n], whatever the shape of a state."""
    if isinstance(observation, Mapping):
        observation = gymnasium.spaces.flatten(space(), dict(observation))
    elif isinstance(observation, tuple) and has_parts(space):
        observation = gymnasium.spaces.flatten(space(), observation)
    try:
        rows = np.asarray(observation, np.float32)
    except (TypeError, ValueError):
        raise ConfigError(f"observation {observation!r}: must hold numbers") from None
    if rows.size == n and not is_batch_of_one(rows, space):
        return rows.reshape(n)
    if rows.ndim == 0 or rows.size != len(rows) * n:
        raise ConfigError(f"observation of shape {rows.shape}: must hold {n} numbers")
    return rows.reshape(len(rows), n)


def has_parts(space: Ask) -> bool:
    """Whether a tuple is one state; otherwise it is a batch, as a list is."""
    try:
        return isinstance(space(), gymnasium.spaces.Tuple)
    except PenfacError:
        return False


def is_batch_of_one(rows: np.ndarray, space: Ask) -> bool:
    """Whether a leading 1 is a batch of one state, not a part of its shape."""
    if rows.ndim < 2 or len(rows) != 1:
        return False
    try:
        return space().shape != rows.shape
    except PenfacError:  # ambiguous: most states are flat
        return True


def open_checked(source: Source) -> GymWorld | VectorWorlds:
    """Open one environment, checked as a run checks it before it begins."""
    check_id(source.id)
    if is_vector(source.id):
        world = VectorWorlds(source.id, source.options, 1, None, Watch())
    else:
        world = open_world(source.id, source.options)
    try:
        world.spec()
    except PenfacError:
        world.close()
        raise
    return world


def open_env(source: Source) -> Any:
    """Open one environment, before the parts of its observations are joined."""
    world = open_checked(source)
    env: Any = world.pools[0].env if isinstance(world, VectorWorlds) else world.env
    wrappers = gymnasium.wrappers
    flat = wrappers.FlattenObservation | wrappers.vector.FlattenObservation
    joined = isinstance(env, flat)
    return env.env if joined and source.options.flatten_obs else env
