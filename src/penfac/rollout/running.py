"""Worlds in mid-episode: kept in a checkpoint, and brought back from it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# what a resumed run says
UNEQUAL = (
    "unfinished episodes that led to another state when repeated with their seeds and "
    "actions: {}; new ones begin, so the run continues, but not bit for bit"
)
UNREPEATED = "cannot repeat episodes; a resumed run begins new ones, so its bits differ"


class RunningWorlds(NamedTuple):
    """Worlds in mid-episode as a checkpoint holds them: enough to replay the episodes."""

    episode: np.ndarray  # [W] its number
    length: np.ndarray  # [W] the steps played so far
    actions: np.ndarray  # [sum of length, m] in [-1, 1], world after world
    obs: np.ndarray  # [W, n] the last observation: compared after the replay
    drift: np.ndarray  # [W, m] of temporally correlated noise

    def replay(
        self,
        start: Callable[[int, int], None],
        step: Callable[[np.ndarray, np.ndarray], None],
    ) -> None:
        """Start every unfinished episode and take its steps. All reach their last step
        together: an environment may be unable to wait for another one."""
        if (self.length < 0).any() or self.length.sum() != len(self.actions):
            raise ValueError(f"{len(self.actions)} actions of lengths {self.length}")
        if not len(self.episode) == len(self.length) == len(self.obs):
            raise ValueError(f"{len(self.episode)} episodes of lengths {self.length}")
        going = self.episode >= 0
        first = np.cumsum(self.length) - self.length  # where its actions begin
        for left in range(int(self.length.max(initial=0)), -1, -1):
            for w in np.flatnonzero(going & (self.length == left)):
                start(int(w), int(self.episode[w]))
            rows = np.flatnonzero(going & (self.length >= left))
            if left and len(rows):
                at = first[rows] + self.length[rows] - left
                step(rows, self.actions[at])

    def changed(self, obs: np.ndarray) -> np.ndarray:
        """Which unfinished episodes led to another state."""
        same = (obs == self.obs).all(axis=1)
        return ~same & (self.episode >= 0)
