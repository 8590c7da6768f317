"""What a step of some worlds gives."""

from typing import NamedTuple

import numpy as np

from penfac.errors import EnvironmentFault


class Stepped(NamedTuple):
    """The result of one step of k worlds."""

    obs: np.ndarray  # [k, n] float32, never that after a reset
    reward: np.ndarray  # [k]
    terminated: np.ndarray  # [k]
    truncated: np.ndarray  # [k]
    terms: dict[str, np.ndarray]  # [k] each: the named parts of the reward
    faults: dict[
        int, EnvironmentFault
    ]  # by position in the call: these rows are no data
