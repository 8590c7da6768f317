"""Steps in the order they were played become the batch that learning sees."""

from typing import Any

import numpy as np

from penfac.types import Transitions


class Rows:
    """Steps in the order they were played, then in the order they belong."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, ...]] = []
        self.discarded: set[int] = set()
        self.terms: dict[str, float] = {}

    def append(self, *arrays: np.ndarray) -> None:
        self.parts.append(arrays)

    def count_terms(self, terms: dict[str, np.ndarray]) -> None:
        """Parts of the reward, to be logged."""
        for name, term in terms.items():
            self.terms[name] = self.terms.get(name, 0.0) + float(np.add.reduce(term))

    def mean_terms(self) -> dict[str, float]:
        """A step's, over all that were played."""
        steps = sum(len(part[3]) for part in self.parts)
        return {name: total / steps for name, total in self.terms.items()}

    def _columns(self) -> list[Any]:
        columns = [np.concatenate(c) for c in zip(*self.parts, strict=True)]
        if self.discarded:
            kept = ~np.isin(columns[6], list(self.discarded))
            columns = [c[kept] for c in columns]
        return columns

    def by_episode(self) -> Transitions:
        """Episode after episode, each in time order."""
        columns = self._columns()
        return _transitions(columns, np.argsort(columns[6], kind="stable"))

    def by_world(self) -> Transitions:
        """World after world; the end of a world's row cuts without ending an episode."""
        columns = self._columns()
        order = np.argsort(columns[7], kind="stable")
        steps = _transitions(columns, order)
        worlds = columns[7][order]
        row_end = np.append(worlds[1:] != worlds[:-1], True)
        return steps._replace(last=steps.last | row_end)


def _transitions(columns: list[Any], order: np.ndarray) -> Transitions:
    obs, next_obs, action, reward, terminated, truncated, *_ = (
        c[order] for c in columns
    )
    truncated = truncated & ~terminated  # both at once: the end is real
    mask: Any = np.ones(len(order), bool)
    with np.errstate(over="ignore"):  # 1e39 becomes inf, and the update diverges
        reward = reward.astype(np.float32)
    return Transitions(
        mask=mask,
        obs=obs,
        next_obs=next_obs,
        action=action,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        last=terminated | truncated,
    )
