"""The two rule sets as values: Roboschool's own, and those of its port to PyBullet."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Rules:
    """What Roboschool paid and showed, and what its port to PyBullet does instead."""

    name: str
    joint_in_velocity: bool  # planar robots see the first joint's speed in their own
    limit_cost: float  # per joint at its limit
    strike_cost: float  # per foot that touches another limb
    cheetah_falls: bool  # HalfCheetah's episodes end
    start_yaw: float  # rad, to either side: Humanoid's first heading
    floor_counts: bool  # the mean of all parts has the floor in it, and the torso


ROBOSCHOOL = Rules("roboschool", True, -0.2, -1.0, True, math.pi / 16, False)
BULLET = Rules("bullet", False, -0.1, 0.0, False, 0.0, True)
RULES = {rules.name: rules for rules in (ROBOSCHOOL, BULLET)}
