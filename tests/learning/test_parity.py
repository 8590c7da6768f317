"""What `penfac bench parity` compares: our side of it learns."""

import statistics

import numpy as np
import pytest

from penfac.bench.contest import PENDULUM, mean_return
from penfac.bench.ours import our_score

# the mean over seeds must be above it; 30 seeds of DDPG and TD3 lay between -170 and
# -150, and 30 of PPO between -1124 and -189 with a mean of -452
LEVELS = {
    "ddpg": (-200.0, 1),
    "td3": (-200.0, 1),
    "sac": (-200.0, 1),
    "ppo": (-800.0, 2),
}
MARGIN = 300.0  # between a level and whoever learned nothing


@pytest.mark.slow
@pytest.mark.parametrize("algo", LEVELS)
def test_a_baseline_swings_the_pendulum_up(algo):
    """20k steps with the settings of the comparison."""
    least, seeds = LEVELS[algo]
    scores = [our_score(algo, PENDULUM, seed) for seed in range(seeds)]
    assert statistics.fmean(scores) > least


@pytest.mark.parametrize("torque", [-2.0, -0.5, 0.0, 0.5, 2.0, "random"])
def test_nobody_passes_without_learning(torque):
    """Doing nothing, the same all the time, or anything."""
    draw = np.random.default_rng(0)

    def act(obs: np.ndarray) -> np.ndarray:
        chosen = draw.uniform(-2, 2) if torque == "random" else torque
        return np.full(1, chosen, np.float32)

    levels = [level for level, _ in LEVELS.values()]
    assert mean_return(act, PENDULUM) < min(levels) - MARGIN
