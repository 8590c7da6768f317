"""Define an environment, register it, and train on it.

    python examples/train_own_env.py [STEPS] [OUT]

Commands find the environment by module and id:

    PYTHONPATH=examples penfac eval runs/penfac/train-own-env-Rail-v0_1 --trust
"""

import sys

import gymnasium
import numpy as np

import penfac


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


def print_evaluation(event: penfac.Event) -> None:
    """Print the return of each evaluation."""
    if event.kind == "evaluation":
        print(f"step {event.step:6d}  return {event.mean:8.2f}")


def main(steps: int, out: str) -> None:
    model = penfac.PeNFAC(
        "train_own_env:Rail-v0",  # module:Id, as on the command line
        out=out,
        actor_hidden=(32, 32),
        critic_hidden=(32, 32),
        lam=0.9,
    )
    model.learn(steps, print_evaluation, eval_every=max(1, steps // 5))
    print(f"run: {model.run}")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 60_000,
        sys.argv[2] if len(sys.argv) > 2 else "runs",
    )
