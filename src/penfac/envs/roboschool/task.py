"""The tasks by name.

A task works on arrays whose last axis is a vector and whose other axes are worlds. `xp` is
numpy or jax.numpy: the C engine and MJX run the same lines. Everything is computed row by
row, so a world sees the same bits alone and beside others.
"""

import math

from penfac.envs.roboschool.model import Physics, build
from penfac.envs.roboschool.pendulum import PendulumTask
from penfac.envs.roboschool.records import CONTROL_STEP
from penfac.envs.roboschool.robots.ant import ANT
from penfac.envs.roboschool.robots.cart import PENDULUM
from penfac.envs.roboschool.robots.cheetah import HALF_CHEETAH
from penfac.envs.roboschool.robots.hoppers import HOPPER, WALKER2D
from penfac.envs.roboschool.robots.humanoid import HUMANOID
from penfac.envs.roboschool.rules import RULES
from penfac.envs.roboschool.walker import Walk, WalkerTask

Task = WalkerTask | PendulumTask


UPRIGHT = Walk(alive=1.0, lowest=0.8, steepest=1.0)  # Hopper and Walker2d
WALKS = {
    "Hopper": (HOPPER, UPRIGHT),
    "Walker2d": (WALKER2D, UPRIGHT),
    "HalfCheetah": (
        HALF_CHEETAH,
        Walk(1.0, -math.inf, 1.0, only_feet=("fshin", "fthigh", "bshin", "bthigh")),
    ),
    "Ant": (ANT, Walk(1.0, 0.26, math.inf)),
    # 4.25 times the costs: 17 joints, of which 4 matter for walking
    "Humanoid": (
        HUMANOID,
        Walk(
            2.0, 0.78, math.inf, electricity=4.25 * -2.0, stall=4.25 * -0.1, turned=True
        ),
    ),
}
PENDULUMS = {"InvertedPendulum": False, "InvertedPendulumSwingup": True}


def make_task(
    name: str, rules: str = "roboschool", physics: Physics | None = None
) -> Task:
    """A task by name: `Hopper`, `InvertedPendulumSwingup`, ..."""
    if rules not in RULES:
        raise ValueError(f"rules = {rules}: must be {' or '.join(RULES)}")
    if name in PENDULUMS:
        physics = physics or Physics(sub_step=CONTROL_STEP)
        return PendulumTask(build(PENDULUM, physics), PENDULUMS[name])
    robot, walk = WALKS[name]
    return WalkerTask(build(robot, physics or Physics()), walk, RULES[rules])
