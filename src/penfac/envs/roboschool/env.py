"""One world of a Roboschool task behind Gymnasium's interface."""

from typing import Any

import gymnasium
import numpy as np

from penfac.envs.mujoco_warnings import hear_mujoco
from penfac.envs.roboschool.cpu import CpuEngine, WorldStates
from penfac.envs.roboschool.picture import Picture
from penfac.envs.roboschool.records import CONTROL_STEP, TaskStep
from penfac.envs.roboschool.task import Task, make_task
from penfac.errors import EnvironmentFault

METADATA = {"render_modes": ["rgb_array"], "render_fps": round(1 / CONTROL_STEP)}


def box_spaces(task: Task) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """What is observed, and what may be done."""
    whole = np.full(task.obs_dim, np.inf, np.float32)
    one = np.ones(task.joints, np.float32)
    return gymnasium.spaces.Box(-whole, whole), gymnasium.spaces.Box(-one, one)


def checked(action: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Actions as numbers; a NaN would pass the clip and blow up the world."""
    action = np.asarray(action, np.float32)
    if action.shape != shape:
        raise ValueError(
            f"{name}: an action of shape {action.shape}; must have shape {shape}"
        )
    if not np.isfinite(action).all():
        raise ValueError(f"{name}: the action must be finite, is {action}")
    return action


def reward_terms(result: TaskStep) -> dict[str, np.ndarray]:
    """The terms as Gymnasium's MuJoCo tasks name theirs: reward_progress, ..."""
    return {f"reward_{name}": term for name, term in result.terms.items()}


class RoboschoolEnv(gymnasium.Env):
    """`state` and `set_state` give and take all there is of the world."""

    metadata: dict[str, Any] = METADATA

    def __init__(
        self, task: str, rules: str = "roboschool", render_mode: str | None = None,
        width: int = 480, height: int = 360,
    ):  # fmt: skip
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode {render_mode}: must be rgb_array or none")
        hear_mujoco()
        self.name, self.render_mode = task, render_mode
        self.task = make_task(task, rules)
        self.engine = CpuEngine(self.task, threads=0)
        self.observation_space, self.action_space = box_spaces(self.task)
        self.picture = Picture(self.task.machine, width, height)
        self.worlds: WorldStates | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        u = self.np_random.random((1, self.task.draws))
        self.worlds, obs = self.engine.start(u)
        return obs[0], {}

    def step(self, action: Any):
        if self.worlds is None:
            raise gymnasium.error.ResetNeeded(f"{self.name}: step before reset")
        action = checked(action, (self.task.joints,), self.name)
        self.worlds, result, broken = self.engine.step(self.worlds, action[None])
        if broken[0]:
            self.worlds = None
            raise EnvironmentFault(f"{self.name}: the simulation became non-finite")
        terms = {name: float(x[0]) for name, x in reward_terms(result).items()}
        return (
            result.obs[0], float(result.reward[0]), bool(result.terminated[0]), False, terms
        )  # fmt: skip

    def state(self) -> dict[str, np.ndarray]:
        """Plain arrays, to be saved anywhere; the random numbers of resets aside."""
        if self.worlds is None:
            raise gymnasium.error.ResetNeeded(f"{self.name}: has no state before reset")
        return {name: x[0].copy() for name, x in self.worlds._asdict().items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there, bit for bit."""
        self.worlds = WorldStates(**{name: x[None].copy() for name, x in state.items()})

    def render(self):
        if self.render_mode is None or self.worlds is None:
            return None
        return self.picture.draw(self.worlds.physics[0])

    def close(self) -> None:
        self.picture.close()
        self.engine.close()
