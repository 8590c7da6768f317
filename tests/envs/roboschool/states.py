"""States of the robots made by hand, and what a task says of them."""

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from penfac.envs.roboschool.records import Scene
from penfac.envs.roboschool.task import PENDULUMS, WALKS

PLANAR, FREE = ("Hopper", "Walker2d", "HalfCheetah"), ("Ant", "Humanoid")
WALKERS, TASKS = (*PLANAR, *FREE), (*WALKS, *PENDULUMS)
JOINTS = {"Hopper": 3, "Walker2d": 6, "HalfCheetah": 6, "Ant": 8, "Humanoid": 17}
SEEN = {"Hopper": 15, "Walker2d": 22, "HalfCheetah": 26, "Ant": 28, "Humanoid": 44}


def data_at(task, qpos, qvel=None) -> mujoco.MjData:
    data = mujoco.MjData(task.machine.model)
    data.qpos[:] = qpos
    if qvel is not None:
        data.qvel[:] = qvel
    mujoco.mj_forward(task.machine.model, data)
    return data


def scene_at(task, qpos, qvel=None) -> Scene:
    data = data_at(task, qpos, qvel)
    return Scene(*(np.array(x) for x in (data.qpos, data.qvel, data.sensordata)))


def any_state(task, rng) -> tuple[np.ndarray, np.ndarray]:
    """Any attitude, joints around their range, all moving."""
    model, m = task.machine.model, task.joints
    qpos, qvel = rng.uniform(-1, 1, model.nq), rng.normal(0, 2, model.nv)
    if task.machine.robot.root == "free":
        qpos[3:7] = Rotation.random(rng=rng).as_quat(scalar_first=True)
    if task.machine.robot.root != "slider":
        qpos[-m:] = task.middle + rng.uniform(-1.2, 1.2, m) / task.per_range
    return qpos, qvel


def lengths(task) -> np.ndarray:
    """[m] of the axes as the tables write them."""
    bodies = task.machine.robot.bodies
    return np.linalg.norm([h.axis for body in bodies for h in body.joints], axis=1)


def standing(task) -> np.ndarray:
    """qpos of the first pose without its noise."""
    return task.initial(np, np.full(task.draws, 0.5))


def no_flags(task) -> np.ndarray:
    return np.zeros(len(task.machine.robot.feet), bool)


def judged(task, qpos, qvel=None, flags=None, action=None, before=None):
    scene = scene_at(task, qpos, qvel)
    flags = no_flags(task) if flags is None else flags
    action = np.zeros(task.joints) if action is None else action
    return task.score(
        np, scene.sensors if before is None else before, flags, scene, action
    )
