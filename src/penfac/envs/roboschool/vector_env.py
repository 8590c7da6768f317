"""Many worlds of a Roboschool task behind Gymnasium's vector interface, in C threads.

World i with seed s is the single environment with seed s + i, bit for bit.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from penfac.envs.mujoco_warnings import hear_mujoco
from penfac.envs.roboschool.cpu import CpuEngine, WorldStates
from penfac.envs.roboschool.env import METADATA, box_spaces, checked, reward_terms
from penfac.envs.roboschool.picture import Picture
from penfac.envs.roboschool.task import make_task
from penfac.errors import EnvironmentFault


class RoboschoolVectorEnv(VectorEnv):
    """A world that ended is reset in the next step, in the same, or by the user
    (`reset(options={"reset_mask": mask})`), as `autoreset_mode` says."""

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        rules: str = "roboschool",
        max_episode_steps: int = 1000,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
    ):
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode {render_mode}: must be rgb_array or none")
        if num_envs < 1:
            raise ValueError(f"num_envs {num_envs}: must be at least 1")
        hear_mujoco()
        self.name, self.render_mode, self.num_envs = task, render_mode, num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = METADATA | {"autoreset_mode": self.autoreset_mode}
        self.max_episode_steps = max_episode_steps
        self.task = make_task(task, rules)
        self.engine = CpuEngine(self.task, threads)
        spaces = box_spaces(self.task)
        self.single_observation_space, self.single_action_space = spaces
        self.observation_space = batch_space(spaces[0], num_envs)
        self.action_space = batch_space(spaces[1], num_envs)
        self.generators = [np.random.default_rng() for _ in range(num_envs)]
        self.picture = Picture(self.task.machine, width, height)
        self.worlds: WorldStates | None = None
        self.obs = np.zeros((num_envs, self.task.obs_dim), np.float32)
        self.length = np.zeros(num_envs, np.int64)
        self.ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict | None = None
    ):  # fmt: skip
        options = dict(options or {})
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"{self.name}: reset_mask must hold {self.num_envs} booleans, not all false"
            )
        if self.worlds is None and not mask.all():
            raise gymnasium.error.ResetNeeded(f"{self.name}: reset all worlds first")
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + k for k in range(self.num_envs)]
        if seed is not None and len(seed) != self.num_envs:
            raise ValueError(
                f"{self.name}: {len(seed)} seeds; must be {self.num_envs}, one a world"
            )
        for k, own in enumerate(seed or []):
            if own is not None and mask[k]:
                self.generators[k] = np_random(own)[0]
        self._start(mask)
        return self.obs.copy(), {}

    def _start(self, mask: np.ndarray) -> None:
        rows = np.flatnonzero(mask)
        draws = [self.generators[k].random((1, self.task.draws)) for k in rows]
        fresh, obs = self.engine.start(np.concatenate(draws))
        if self.worlds is None:
            self.worlds = fresh
        else:
            self.worlds.put(rows, fresh)
        self.obs[rows], self.length[rows], self.ended[rows] = obs, 0, False

    def step(self, actions: Any):
        if self.worlds is None:
            raise gymnasium.error.ResetNeeded(f"{self.name}: step before reset")
        shape = (self.num_envs, self.task.joints)
        actions = checked(actions, shape, self.name)
        idle = self.ended.copy()  # not played: reset now, or left where they ended
        waits = self.autoreset_mode is AutoresetMode.DISABLED
        if waits and idle.any():
            raise gymnasium.error.ResetNeeded(
                f"{self.name}: world {np.flatnonzero(idle)[0]} has ended; reset it with "
                'options={"reset_mask": mask}'
            )
        rows = np.flatnonzero(~idle)
        reward = np.zeros(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        info: dict[str, Any] = {}
        if len(rows):
            result = self._play(rows, actions)
            self.obs[rows], terminated[rows] = result.obs, result.terminated
            reward[rows] = result.reward
            for name, term in reward_terms(result).items():
                info[name] = np.zeros(self.num_envs)
                info[name][rows], info[f"_{name}"] = term, ~idle
            self.length[rows] += 1
        truncated = ~idle & (self.length >= self.max_episode_steps)
        if idle.any():
            self._start(idle)
        self.ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self.ended.any():
            info |= self._restart(info)
        return self.obs.copy(), reward, terminated, truncated, info

    def _play(self, rows: np.ndarray, actions: np.ndarray):
        assert self.worlds is not None  # noqa: S101  checked by step
        everyone = len(rows) == self.num_envs
        before = self.worlds if everyone else self.worlds.rows(rows)
        chosen = actions if everyone else actions[rows]
        after, result, broken = self.engine.step(before, chosen)
        if broken.any():
            worlds = rows[broken]
            self.ended[worlds] = True  # the others stand where they stood
            raise EnvironmentFault(
                f"{self.name}: the simulation of world {', '.join(map(str, worlds))} "
                "became non-finite"
            )
        self.worlds.put(rows, after)
        return result

    def _restart(self, info: dict[str, Any]) -> dict[str, Any]:
        """Reset what ended, its last observation and information kept in info."""
        ended = self.ended.copy()
        last_obs = np.full(self.num_envs, None, dtype=object)
        for k in np.flatnonzero(ended):
            last_obs[k] = self.obs[k].copy()
        last = {k: v & ended if k.startswith("_") else v for k, v in info.items()}
        self._start(ended)
        return {
            "final_obs": last_obs, "_final_obs": ended,
            "final_info": last, "_final_info": ended,
        }  # fmt: skip

    def render(self):
        if self.render_mode is None or self.worlds is None:
            return None
        return tuple(self.picture.draw(state) for state in self.worlds.physics)

    def close_extras(self, **kwargs: Any) -> None:
        self.picture.close()
        self.engine.close()
