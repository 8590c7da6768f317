"""What `penfac bench parity` compares: our side of it learns, and its interval is right."""

import numpy as np
import pytest

from penfac.bench.contest import PENDULUM
from penfac.bench.ours import our_score
from penfac.bench.parity import compare


def test_the_interval_is_welchs():
    """Against the formula, with its degrees of freedom written out."""
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 2, 30), rng.normal(0, 1, 20)
    va, vb = a.var(ddof=1) / 30, b.var(ddof=1) / 20
    freedom = (va + vb) ** 2 / (va**2 / 29 + vb**2 / 19)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(va + vb)
    found = compare(a.tolist(), b.tolist())
    assert found["difference"] == pytest.approx(a.mean() - b.mean())
    assert found["low"] == pytest.approx(found["difference"] - half)
    assert found["high"] == pytest.approx(found["difference"] + half)
    pooled = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    assert found["pooled"] == pytest.approx(pooled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "least"), [("ddpg", -200.0), ("td3", -200.0), ("ppo", -1100.0)]
)
def test_a_baseline_swings_the_pendulum_up(algo, least):
    """20k steps with the settings of the comparison; doing nothing is worth about -1200,
    30 seeds of DDPG and TD3 lay between -170 and -150."""
    assert our_score(algo, PENDULUM, seed=0) > least
