# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""A picture of a robot: a camera that follows it, drawn off screen."""

from typing import Any

import mujoco
import numpy as np

from penfac.envs.opengl import choose_opengl
from penfac.envs.roboschool.model import Machine
from penfac.errors import ConfigError

VIEWS = {  # how far the camera stands, how high it looks
    "Hopper": (2.7, 0.75), "Walker2d": (2.7, 0.75), "HalfCheetah": (2.4, 0.45),
    "Ant": (3.6, 0.35), "Humanoid": (3.3, 0.85), "InvertedPendulum": (2.6, 0.1),
}  # fmt: skip


class Picture:
    """Opens its window on nothing only when first asked to draw."""

    def __init__(self, machine: Machine, width: int, height: int):
        self.machine, self.size = machine, (width, height)
        self.data = mujoco.MjData(machine.model)
        self.viewer: Any = None

    def draw(self, physics: np.ndarray) -> np.ndarray:
        """[height, width, 3] of bytes."""
        model, kind = self.machine.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
        mujoco.mj_setState(model, self.data, physics, kind)
        mujoco.mj_forward(model, self.data)
        viewer = self.viewer or self._open()
        viewer.make_context_current()  # another picture may have been drawn since
        distance, height = VIEWS[self.machine.robot.name]
        slides = self.machine.robot.root != "slider"
        viewer.cam.lookat[:] = (self.data.xipos[1, 0] if slides else 0.0, 0.0, height)
        viewer.cam.distance, viewer.cam.azimuth, viewer.cam.elevation = distance, 90, -8
        return viewer.render("rgb_array")

    def _open(self) -> Any:
        choose_opengl()
        try:
            from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

            self.viewer = OffScreenViewer(self.machine.model, self.data, *self.size)
        except Exception as error:
            raise ConfigError(
                f"cannot draw: OpenGL failed ({error}); set MUJOCO_GL to glfw, egl or osmesa"
            ) from error
        return self.viewer

    def close(self) -> None:
        if self.viewer is not None:
            self.viewer.close()
            self.viewer = None
