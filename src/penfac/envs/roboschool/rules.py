"""The two rule sets as values: Roboschool's, and those of its port to PyBullet."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rewards and observations of Roboschool, or of its port to PyBullet."""

    name: str
    joint_in_velocity: bool  # planar robots: velocity includes the first joint's
    limit_cost: float  # per joint at its limit
    strike_cost: float  # per foot that touches another limb
    cheetah_falls: bool  # HalfCheetah's episodes end when it falls on shin or thigh
    start_yaw: float  # rad, to either side: Humanoid's initial heading
    floor_counts: bool  # the mean of all parts includes the floor and the torso


ROBOSCHOOL = Rules("roboschool", True, -0.2, -1.0, True, math.pi / 16, False)
BULLET = Rules("bullet", False, -0.1, 0.0, False, 0.0, True)
RULES = {rules.name: rules for rules in (ROBOSCHOOL, BULLET)}
