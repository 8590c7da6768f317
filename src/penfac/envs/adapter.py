"""A built-in or registered JAX environment with Gymnasium's interface, one world."""

from typing import Any

import gymnasium
import jax
import numpy as np

from penfac.envs.builtin import found


class JaxEnvAdapter(gymnasium.Env):
    """A Gymnasium environment around a JAX one; reset and step are compiled once."""

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own idiom

    def __init__(self, env_id: str, render_mode: str | None = None):
        if render_mode is not None:
            raise ValueError(f"{env_id}: has no pictures; leave render_mode out")
        own = found(env_id)
        if own is None:
            raise ValueError(f"{env_id}: is not registered")
        self.jax_env = own
        spec = self.jax_env.spec
        whole = np.full(spec.obs_dim, np.inf, np.float32)
        self.observation_space = gymnasium.spaces.Box(-whole, whole, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(
            spec.action_low, spec.action_high, dtype=np.float32
        )
        self._reset = jax.jit(self.jax_env.reset)
        self._step = jax.jit(self.jax_env.step)
        self._observe = jax.jit(self.jax_env.observe)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        # a number of Gymnasium's random stream seeds the episode
        root = jax.random.key(int(self.np_random.integers(2**31)))
        self._start, self._noise = jax.random.split(root)
        self._state, self._t = self._reset(self._start), 0
        return np.asarray(self._observe(self._state)), {}

    def step(self, action: Any):
        key = jax.random.fold_in(self._noise, self._t)
        outcome = self._step(self._state, np.asarray(action, np.float32), key)
        self._state, self._t = outcome.state, self._t + 1
        obs = np.asarray(self._observe(self._state))
        return obs, float(outcome.reward), bool(outcome.terminated), False, {}
