"""Models of a second, from Python and by the command, and an environment of one's own."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tests.faults.commands import command
from tests.full_batch import FULL_BATCH, options

import penfac
from penfac.envs import own

SMALL = FULL_BATCH | {
    "actor_hidden": (4,), "critic_hidden": (4,), "actor_steps": 2,
    "fitted_iterations": 2, "episodes_per_update": 1, "min_steps_per_update": 50,
    "actor_update": "spg",  # away from worse actions too: fifty steps move the actor
}  # fmt: skip
JUDGED = {"eval_every": 50, "eval_episodes": 1}


class Rail(gymnasium.Env):
    """A mass to be brought to the middle."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, force: float = 0.1, holds=None):
        self.force, self.holds = force, holds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action):
        x, v = self.state
        v = v + self.force * float(action[0])
        self.state = np.array([x + 0.1 * v, v], np.float32)
        return self.state.copy(), -float(x**2), False, False, {}


def limited_rail(force: float = 0.1) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Rail(force), 25)


class Dictionary(Rail):
    observation_space = gymnasium.spaces.Dict({"all": Rail.observation_space})

    def reset(self, **how):
        return {"all": super().reset(**how)[0]}, {}

    def step(self, action):
        obs, *rest = super().step(action)
        return {"all": obs}, *rest


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Runs go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own, "_HOLDERS", {})  # names are given anew


def small(env="Pendulum-v1", **more) -> penfac.PeNFAC:
    limit = {"max_episode_steps": 25} if env == "Pendulum-v1" else {}
    return penfac.PeNFAC(env, **(SMALL | limit | more))


def learned(env="Pendulum-v1", steps=50, **more) -> penfac.PeNFAC:
    return small(env, **more).learn(steps, **JUDGED)


def train(*more: str) -> Path:
    """The command with what `small` says."""
    done = command(
        "train", "--env=Pendulum-v1", "--max-episode-steps=25", "--eval-every=50",
        "--eval-episodes=1", "--name=command", *options(SMALL), *more,
    )  # fmt: skip
    assert done.code == 0, done.err
    return Path("runs/penfac/command")
