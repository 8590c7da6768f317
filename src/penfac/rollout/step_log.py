"""A log of played steps becomes the batch that an update sees."""

from typing import Any, NamedTuple

import numpy as np

from penfac.types import Transitions

Column = Any  # a numpy array; the record of a batch is annotated for JAX


class PlayedSteps(NamedTuple):
    """One step of k worlds, or k logged steps: an array for each column."""

    obs: Column
    next_obs: Column
    action: Column
    reward: Column
    terminated: Column
    truncated: Column
    episode: Column  # its number
    world: Column  # its number

    def rows(self, which: np.ndarray) -> "PlayedSteps":
        return PlayedSteps(*(column[which] for column in self))


class StepLog:
    """PlayedSteps in the order they were played."""

    def __init__(self) -> None:
        self.parts: list[PlayedSteps] = []
        self.discarded: set[int] = set()  # episodes that broke
        self.terms: dict[str, float] = {}

    def append(self, steps: PlayedSteps) -> None:
        self.parts.append(steps)

    def add_terms(self, terms: dict[str, np.ndarray]) -> None:
        """Add up the parts of the reward, for the log."""
        for name, term in terms.items():
            self.terms[name] = self.terms.get(name, 0.0) + float(np.add.reduce(term))

    def mean_terms(self) -> dict[str, float]:
        """The mean of each part of the reward over all played steps."""
        steps = sum(len(part.reward) for part in self.parts)
        return {name: total / steps for name, total in self.terms.items()}

    def by_episode(self) -> Transitions:
        """Episode after episode, each in time order."""
        steps = self._kept()
        return transitions(steps.rows(np.argsort(steps.episode, kind="stable")))

    def by_world(self) -> Transitions:
        """World after world; the end of a world's row cuts without ending an episode."""
        steps = self._kept()
        steps = steps.rows(np.argsort(steps.world, kind="stable"))
        row_end = np.append(steps.world[1:] != steps.world[:-1], True)
        batch = transitions(steps)
        return batch._replace(last=batch.last | row_end)

    def _kept(self) -> PlayedSteps:
        """All steps but those of discarded episodes."""
        steps = PlayedSteps(*(np.concatenate(c) for c in zip(*self.parts, strict=True)))
        if not self.discarded:
            return steps
        return steps.rows(~np.isin(steps.episode, list(self.discarded)))


def transitions(steps: PlayedSteps) -> Transitions:
    # both at once: the environment's own end counts
    truncated = steps.truncated & ~steps.terminated
    with np.errstate(over="ignore"):  # 1e39 becomes inf, and the update diverges
        reward = steps.reward.astype(np.float32)
    mask: Any = np.ones(len(reward), bool)
    return Transitions(
        mask=mask,
        obs=steps.obs,
        next_obs=steps.next_obs,
        action=steps.action,
        reward=reward,
        terminated=steps.terminated,
        truncated=truncated,
        last=steps.terminated | truncated,
    )
