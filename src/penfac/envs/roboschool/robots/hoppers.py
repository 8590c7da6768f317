"""Hopper and Walker2d: all body frames at the origin, the root's hinge at floor level."""

from penfac.envs.roboschool.robots.parts import (
    MINUS_Y,
    Body,
    Capsule,
    Robot,
    Vector,
    degrees,
)

TORSO = Body(
    "torso", "world", 3.66519, (0, 0, 1.25), (0.112644, 0.112644, 0.019792),
    (Capsule((0, 0, 1.45), (0, 0, 1.05), 0.05),), parts=4, mean=(0, 0, 0.3125),
)  # fmt: skip


def leg(side: str, foot: Body, torques: Vector) -> tuple[Body, ...]:
    """Thigh, leg and foot below the torso; `side` ends their names."""
    thigh, shin = f"thigh{side}", f"leg{side}"
    joints = (
        degrees(f"thigh{side}_joint", MINUS_Y, -150, 0, torques[0], (0, 0, 1.05)),
        degrees(f"leg{side}_joint", MINUS_Y, -150, 0, torques[1], (0, 0, 0.6)),
        degrees(f"foot{side}_joint", MINUS_Y, -45, 45, torques[2], (0, 0, 0.1)),
    )
    return (
        Body(
            thigh, "torso", 4.05789, (0, 0, 0.825), (0.145171, 0.145171, 0.021913),
            (Capsule((0, 0, 1.05), (0, 0, 0.6), 0.05),), joints[:1], parts=2,
            mean=(0, 0, 0.9375),
        ),
        Body(
            shin, thigh, 2.78136, (0, 0, 0.35), (0.106897, 0.106897, 0.011867),
            (Capsule((0, 0, 0.6), (0, 0, 0.1), 0.04),), joints[1:2], parts=2,
            mean=(0, 0, 0.475),
        ),
        foot._replace(name=f"foot{side}", parent=shin, joints=joints[2:]),
    )  # fmt: skip


HOPPER_FOOT = Body(
    "foot", "leg", 5.31557, (0.065, 0, 0.1), (0.035437, 0.171915, 0.171915),
    (Capsule((-0.13, 0, 0.1), (0.26, 0, 0.1), 0.06),), parts=2, mean=(0.0325, 0, 0.1),
)  # fmt: skip
WALKER_FOOT = Body(
    "foot", "leg", 3.16673, (0.1, 0, 0.1), (0.021112, 0.052779, 0.052779),
    (Capsule((0, 0, 0.1), (0.2, 0, 0.1), 0.06),), parts=2, mean=(0.05, 0, 0.1),
)  # fmt: skip

HOPPER = Robot(
    "Hopper", "planar", (TORSO, *leg("", HOPPER_FOOT, (75, 75, 75))),
    feet=("foot",), near=(0.0065,), start_height=1.25, zero_height=1.25,
)  # fmt: skip
WALKER2D = Robot(
    "Walker2d",
    "planar",
    (
        TORSO,
        *leg("", WALKER_FOOT, (40, 40, 12)),
        *leg("_left", WALKER_FOOT, (40, 40, 12)),
    ),
    feet=("foot", "foot_left"),
    near=(0.0049, 0.0049),
    start_height=1.25,
    zero_height=1.25,
)
