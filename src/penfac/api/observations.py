"""Turn the observations of users into the rows that a policy reads."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from penfac.envs.gym import check_id, open_world
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError, PenfacError

Ask = Callable[[], gymnasium.Space]  # the environment's space; may open the environment


def rows_of(observation: Any, n: int, space: Ask) -> np.ndarray:
    """Return one state as [n], a batch as [k, n], whatever the shape of a state."""
    if isinstance(observation, Mapping):
        observation = gymnasium.spaces.flatten(space(), dict(observation))
    try:
        rows = np.asarray(observation, np.float32)
    except (TypeError, ValueError):
        raise ConfigError(f"observation {observation!r}: must hold numbers") from None
    if rows.size == n and not is_batch_of_one(rows, space):
        return rows.reshape(n)
    if rows.ndim == 0 or rows.size != len(rows) * n:
        raise ConfigError(f"observation of shape {rows.shape}: must hold {n} numbers")
    return rows.reshape(len(rows), n)


def is_batch_of_one(rows: np.ndarray, space: Ask) -> bool:
    """Whether a leading 1 is a batch of one state, not a part of its shape."""
    if rows.ndim < 2 or len(rows) != 1:
        return False
    try:
        return space().shape != rows.shape
    except PenfacError:  # ambiguous: most states are flat
        return True


def observation_space(env_id: str, options: EnvOptions) -> gymnasium.Space:
    """The observation space of the environment, before its parts are joined."""
    check_id(env_id)
    world = open_world(env_id, options)
    env: Any = world.env
    joined = isinstance(env, gymnasium.wrappers.FlattenObservation)
    space = (env.env if joined and options.flatten_obs else env).observation_space
    world.close()
    return space
