"""The cart and pole: what is observed, what is paid, when it ends, how it begins."""

import dataclasses

import numpy as np

from penfac.envs.roboschool.model import Machine
from penfac.envs.roboschool.records import START_NOISE, Array, Scene, TaskStep


@dataclasses.dataclass(frozen=True, eq=False)
class PendulumTask:
    """A pole on a cart: keep it up, or swing it up first. Both rule sets agree on it."""

    machine: Machine
    swing_up: bool

    sub_steps = 1
    joints = 1
    obs_dim = 5
    draws = 1

    def initial(self, xp, u: Array) -> Array:
        angle = START_NOISE * (2 * u[..., 0] - 1) + (3.1415 if self.swing_up else 0.0)
        return xp.stack([xp.zeros_like(angle), angle], -1)

    def touching(self, xp, sensors: Array) -> Array:
        return sensors[..., :0] > 0

    def observe(self, xp, scene: Scene, flags: Array) -> Array:
        angle = scene.qpos[..., 1]
        parts = [
            scene.qpos[..., 0], scene.qvel[..., 0], xp.cos(angle), xp.sin(angle),
            scene.qvel[..., 1],
        ]  # fmt: skip
        return xp.stack(parts, -1).astype(np.float32)

    def score(self, xp, before: Array, flags: Array, after: Scene, action: Array):
        angle = after.qpos[..., 1]
        obs = self.observe(xp, after, flags)
        if self.swing_up:
            terms = {"upright": xp.cos(angle)}
            fallen = xp.zeros_like(angle, dtype=bool)
        else:
            terms = {"alive": xp.ones_like(angle)}
            fallen = xp.abs(angle) > 0.2
        return TaskStep(obs, terms, fallen, flags)
