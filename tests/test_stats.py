"""Statistics against their formulas."""

import numpy as np
import pytest
from scipy import stats

from penfac.stats import welch


def test_the_interval_is_welchs():
    """Against the formula, with its degrees of freedom written out."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 2, 30), rng.normal(0, 1, 20)
    va, vb = a.var(ddof=1) / 30, b.var(ddof=1) / 20
    freedom = (va + vb) ** 2 / (va**2 / 29 + vb**2 / 19)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(va + vb)
    found = welch(a.tolist(), b.tolist())
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert found.low == pytest.approx(found.difference - half)
    assert found.high == pytest.approx(found.difference + half)
    pooled = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    assert found.pooled == pytest.approx(pooled)
