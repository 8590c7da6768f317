"""Scores of one learning curve; the last tenth of a curve is defined here alone."""

import statistics
from collections.abc import Sequence
from math import ceil

import numpy as np


def last_tenth(n: int) -> int:
    """How many of n evaluations are the last tenth: rounded up, at least one."""
    # half a billionth: 0.1 * 30 is a little above 3
    return max(1, ceil(0.1 * n - 5e-10))


def final_score(returns: Sequence[float]) -> float:
    """Mean return of the last tenth of the evaluations."""
    return statistics.fmean(returns[-last_tenth(len(returns)) :])


def mean_return(
    steps: Sequence[int], returns: Sequence[float], share: float = 1.0
) -> float:
    """Area under the first `share` of the curve over its width.

    By trapezoids between the first and the last evaluation; the return at the cut is
    interpolated.
    """
    s, r = np.asarray(steps, float), np.asarray(returns, float)
    cut = s[0] + share * (s[-1] - s[0])
    if cut == s[0]:
        return float(r[0])
    x = np.append(s[s < cut], cut)
    return float(np.trapezoid(np.interp(x, s, r), x) / (cut - s[0]))


def authors_score(returns: Sequence[float]) -> float:
    """Mean minus standard deviation of the last tenth of the evaluations without the
    very last one: the score by which the authors ranked settings."""
    if len(returns) < 2:
        return returns[-1] if returns else float("nan")
    tail = returns[:-1][-last_tenth(len(returns)) :]
    return statistics.fmean(tail) - (statistics.pstdev(tail) if len(tail) > 1 else 0.0)
