"""Train on an environment of your own: define it, register it, start a trial.

    python examples/train_own_env.py [STEPS] [OUT]

The run folder is like any other. Commands find the environment by module and id:

    PYTHONPATH=examples penfac eval runs/penfac/train-own-env-Rail-v0_1
"""

import statistics
import sys
from pathlib import Path

import gymnasium
import numpy as np

from penfac.request import Request
from penfac.trial import Limits, Listener, start


class Rail(gymnasium.Env):
    """A mass on a rail: bring it to the middle and keep it there."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.speed = self.np_random.uniform(-1, 1), 0.0
        return self._observation(), {}

    def step(self, action):
        force = float(action[0])
        self.speed += 0.1 * force
        self.position += 0.1 * self.speed
        cost = self.position**2 + 0.1 * self.speed**2 + 0.01 * force**2
        # terminated: never. The time limit below truncates.
        return self._observation(), -cost, False, False, {}

    def _observation(self):
        return np.array([self.position, self.speed], np.float32)


if "Rail-v0" not in gymnasium.registry:
    gymnasium.register("Rail-v0", entry_point=Rail, max_episode_steps=100)


class Print(Listener):
    """Says how each evaluation went."""

    def evaluated(self, seed, counters, point) -> None:
        print(f"step {point.step:6d}  return {statistics.fmean(point.returns):8.2f}")


def main(steps: int, out: Path) -> int:
    request = Request(
        env="train_own_env:Rail-v0",  # module:Id, as on the command line
        steps=steps,
        eval_every=max(1, steps // 5),
        settings={"actor_hidden": (32, 32), "critic_hidden": (32, 32), "lam": 0.9},
        out=out,
    )
    outcome = start(request, Limits(), Print())
    print(f"run: {outcome.folder}")
    return outcome.exit_code


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    sys.exit(main(steps, Path(sys.argv[2] if len(sys.argv) > 2 else "runs")))
