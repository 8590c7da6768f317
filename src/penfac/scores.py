"""Scores of one learning curve; the one place that says what its last tenth is."""

import statistics
from collections.abc import Sequence
from math import ceil


def last_tenth(n: int) -> int:
    """How many of n evaluations are the last tenth: rounded up, at least one."""
    # half a billionth: 0.1 * 30 is a little above 3
    return max(1, ceil(0.1 * n - 5e-10))


def final_score(returns: Sequence[float]) -> float:
    """Mean over the last tenth of the evaluations."""
    return statistics.fmean(returns[-last_tenth(len(returns)) :])


def authors_score(returns: Sequence[float]) -> float:
    """Mean minus standard deviation of the last tenth of the evaluations, the very last
    one left out: what the authors ranked settings by."""
    if len(returns) < 2:
        return returns[-1] if returns else float("nan")
    tail = returns[:-1][-last_tenth(len(returns)) :]
    return statistics.fmean(tail) - (statistics.pstdev(tail) if len(tail) > 1 else 0.0)
