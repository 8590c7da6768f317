"""How sure one is of a difference. Never imports jax; the unit is a seed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Difference(NamedTuple):
    """Of two means, with its 95 % interval, and the pooled standard deviation."""

    difference: float
    low: float
    high: float
    pooled: float


def welch(a: Sequence[float], b: Sequence[float]) -> Difference:
    """mean(a) - mean(b) for samples whose variances may differ; two of each at least."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    interval = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    pooled = float(np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2))
    mean = float(x.mean() - y.mean())
    return Difference(mean, float(interval.low), float(interval.high), pooled)
