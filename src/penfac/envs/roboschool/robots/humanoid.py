"""Humanoid."""

from penfac.envs.roboschool.robots.parts import (
    MINUS_X,
    MINUS_Y,
    MINUS_Z,
    ORIGIN,
    Body,
    Capsule,
    Robot,
    X,
    Y,
    Z,
    alike,
    degrees,
    sphere,
)

LEAN = (0.999998, 0, -0.001999996, 0)  # (1, 0, -0.002, 0) at unit length
ARM_TORQUE = 30.75


def humanoid_leg(side: str, s: int) -> tuple[Body, ...]:
    """`s` is -1 on the right, +1 on the left."""
    return (
        Body(
            f"{side}_thigh", "pelvis", 4.75175, (0, -0.005 * s, -0.17),
            (0.13293, 0.131307, 0.033302),
            (Capsule(ORIGIN, (0, -0.01 * s, -0.34), 0.06),),
            (
                degrees(f"{side}_hip_x", X if s < 0 else MINUS_X, -25, 5, 41),
                degrees(f"{side}_hip_z", Z if s < 0 else MINUS_Z, -60, 35, 41),
                degrees(f"{side}_hip_y", Y, -120, 20, 123),
            ),
            (0, 0.1 * s, -0.04), parts=4, mean=(0, -0.00125 * s, -0.0425),
        ),
        Body(
            f"{side}_shin", f"{side}_thigh", 2.75570, (0, 0, -0.15),
            (0.059745, 0.059745, 0.014552), (Capsule(ORIGIN, (0, 0, -0.3), 0.049),),
            (degrees(f"{side}_knee", MINUS_Y, -160, -2, 82, (0, 0, 0.02)),),
            (0, -0.01 * s, -0.403), parts=2, mean=(0, 0, -0.065),
        ),
        Body(
            f"{side}_foot", f"{side}_shin", 1.76715, ORIGIN, alike(0.006627),
            (sphere((0, 0, 0.1), 0.075),), pos=(0, 0, -0.45), parts=1,
        ),
    )  # fmt: skip


def humanoid_arm(side: str, s: int) -> tuple[Body, ...]:
    low, high = (-85, 60) if s < 0 else (-60, 85)
    return (
        Body(
            f"{side}_upper_arm", "torso", 1.66108, (0.08, 0.08 * s, -0.08),
            alike(0.028349), (Capsule(ORIGIN, (0.16, 0.16 * s, -0.16), 0.04),),
            (
                degrees(f"{side}_shoulder1", (2, -s, 1), low, high, ARM_TORQUE),
                degrees(f"{side}_shoulder2", (0, s, 1), low, high, ARM_TORQUE),
            ),
            (0, 0.17 * s, 0.06), parts=3, mean=(0.026667, 0.026667 * s, -0.026667),
        ),
        Body(
            f"{side}_lower_arm", f"{side}_upper_arm", 1.22954, ORIGIN, alike(0.01869),
            (
                Capsule((0.01, -0.01 * s, 0.01), (0.17, -0.17 * s, 0.17), 0.031),
                sphere((0.18, -0.18 * s, 0.18), 0.04),
            ),
            (degrees(f"{side}_elbow", (0, -1, -s), -90, 50, ARM_TORQUE),),
            (0.18, 0.18 * s, -0.18), parts=2,
        ),
    )  # fmt: skip


HUMANOID = Robot(
    "Humanoid",
    "free",
    (
        Body(
            "torso", "world", 8.90746, (-0.01, 0, -0.12), (0.281773, 0.221499, 0.132127),
            (
                Capsule((0, -0.07, 0), (0, 0.07, 0), 0.07),
                sphere((0, 0, 0.19), 0.09),
                Capsule((-0.01, -0.06, -0.12), (-0.01, 0.06, -0.12), 0.06),
            ),
            mean=(-0.01, 0, -0.12),
        ),
        Body(
            "lwaist", "torso", 2.26195, ORIGIN, (0.013572, 0.005429, 0.013572),
            (Capsule((0, -0.06, 0), (0, 0.06, 0), 0.06),),
            (
                degrees("abdomen_z", Z, -45, 45, 41, (0, 0, 0.065)),
                degrees("abdomen_y", Y, -75, 30, 41, (0, 0, 0.065)),
            ),
            (-0.01, 0, -0.26), LEAN, parts=3, mean=(0, 0, 0.043333),
        ),
        Body(
            "pelvis", "lwaist", 6.61619, (-0.02, 0, 0), (0.125487, 0.074542, 0.125487),
            (Capsule((-0.02, -0.07, 0), (-0.02, 0.07, 0), 0.09),),
            (degrees("abdomen_x", X, -35, 35, 41, (0, 0, 0.1)),),
            (0, 0, -0.165), LEAN, parts=2, mean=(-0.01, 0, 0.05),
        ),
        *humanoid_leg("right", -1),
        *humanoid_leg("left", 1),
        *humanoid_arm("right", -1),
        *humanoid_arm("left", 1),
    ),
    feet=("right_foot", "left_foot"),
    near=(0.0046, 0.0046),
    limbs=tuple(
        f"{side}_{part}"
        for side in ("right", "left")
        for part in ("thigh", "shin", "foot", "upper_arm", "lower_arm")
    ),
    cone="elliptic",
    # Roboschool's legs collide, and one reset in four puts the feet into each other.
    # Its arms do too, and thigh with foot and shin: neither changes a figure here
    self_contact=(
        ("right_thigh", "left_thigh"), ("right_shin", "left_shin"),
        ("right_foot", "left_foot"), ("right_foot", "left_shin"),
        ("right_shin", "left_foot"),
    ),
    start_height=1.4,
    zero_height=0.8,
)  # fmt: skip
