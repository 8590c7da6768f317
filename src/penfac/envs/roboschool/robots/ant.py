"""Ant."""

from penfac.envs.roboschool.robots.parts import (
    ORIGIN,
    Body,
    Capsule,
    Robot,
    Z,
    alike,
    degrees,
    sphere,
)


def ant_leg(name, number, sx, sy, ankle_axis, low, high) -> tuple[Body, ...]:
    foot = {1: "front_left_foot", 2: "front_right_foot", 3: "left_back_foot",
            4: "right_back_foot"}[number]  # fmt: skip
    near = (Capsule(ORIGIN, (0.2 * sx, 0.2 * sy, 0), 0.08),)
    mass, inertia = 7.83155, (0.16394, 0.16394, 0.252698)
    middle = (0.1 * sx, 0.1 * sy, 0)
    return (
        Body(name, "torso", mass, middle, inertia, near, parts=1, mean=middle),
        Body(
            f"aux_{number}", name, mass, middle, inertia, near,
            (degrees(f"hip_{number}", Z, -40, 40, 250),), (0.2 * sx, 0.2 * sy, 0),
            parts=2, mean=(0.05 * sx, 0.05 * sy, 0),
        ),
        Body(
            foot, f"aux_{number}", 13.51844, (0.2 * sx, 0.2 * sy, 0),
            (0.526318, 0.526318, 0.922859),
            (Capsule(ORIGIN, (0.4 * sx, 0.4 * sy, 0), 0.08),),
            (degrees(f"ankle_{number}", ankle_axis, low, high, 250),),
            (0.2 * sx, 0.2 * sy, 0), parts=2, mean=middle,
        ),
    )  # fmt: skip


ANT = Robot(
    "Ant",
    "free",
    (
        Body(
            "torso", "world", 65.44985, ORIGIN, alike(1.636246), (sphere(ORIGIN, 0.25),)
        ),
        *ant_leg("front_left_leg", 1, 1, 1, (-1, 1, 0), 30, 100),
        *ant_leg("front_right_leg", 2, -1, 1, (1, 1, 0), -100, -30),
        *ant_leg("left_back_leg", 3, -1, -1, (-1, 1, 0), -100, -30),
        *ant_leg("right_back_leg", 4, 1, -1, (1, 1, 0), 30, 100),
    ),
    feet=("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"),
    near=(0.0094,) * 4,
    friction=1.2,
    # a pyramid's edges lie otherwise in MJX than in C, and this robot goes sideways
    cone="elliptic",
    # ankles begin 0.42 to 0.62 rad beyond their limits: pushed back, the legs would lift
    # a robot that in Roboschool lies on its belly and ends if it does nothing
    only_stops=True,
    start_height=0.75,
    zero_height=0.75,
)
