"""Vector environments that count: every number says where it comes from."""

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

IGNORED = -777.0  # the reward of a step that is a reset
LIMIT = 9


class Counting(VectorEnv):
    """obs = (environment, episode, t), reward = 100 episode + t. Episode e of environment k
    has 3 + (k + e) % 5 steps; even episodes terminate, odd ones are truncated.

    Deaf to masks and seeds, as EnvPool is to seeds.
    """

    single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    single_action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, num_envs: int, mode: str = "NextStep", max_episode_steps=LIMIT):
        self.num_envs, self.mode = num_envs, AutoresetMode(mode)
        self.metadata = {"autoreset_mode": self.mode}
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.episode = np.zeros(num_envs, int)
        self.t, self.over = np.zeros(num_envs, int), np.zeros(num_envs, bool)

    def observed(self):
        columns = [np.arange(self.num_envs), self.episode, self.t]
        return np.stack(columns, axis=1).astype(np.float32)

    def begin(self, which):
        self.episode[which], self.t[which] = self.episode[which] + 1, 0

    def reset(self, *, seed=None, options=None):
        self.begin(np.ones(self.num_envs, bool))
        self.over[:] = False
        return self.observed(), {}

    def step(self, actions):
        assert actions.shape == (self.num_envs, 2)
        idle = self.over & (self.mode is AutoresetMode.NEXT_STEP)
        reward = np.where(idle, IGNORED, 100.0 * self.episode + self.t)
        self.t = np.where(idle, self.t, self.t + 1)
        length = 3 + (np.arange(self.num_envs) + self.episode) % 5
        self.over = ~idle & (self.t == length)
        terminated = self.over & (self.episode % 2 == 0)
        truncated = self.over & ~terminated
        self.begin(idle)
        info = {}
        if self.mode is AutoresetMode.SAME_STEP and self.over.any():
            info = {"final_obs": self.observed(), "_final_obs": self.over.copy()}
            self.begin(self.over)
        return self.observed(), reward, terminated, truncated, info


class Forgetful(Counting):
    """Loses the last observation of an episode."""

    def step(self, actions):
        return *super().step(actions)[:4], {}


def register(env_id: str, kind=Counting, limit: int | None = LIMIT, **kwargs) -> str:
    """Make it known to Gymnasium, by a vectorised version only."""
    gymnasium.registry.pop(env_id, None)
    more = {"vector_entry_point": kind, "max_episode_steps": limit, "kwargs": kwargs}
    gymnasium.register(env_id, **more)
    return env_id
