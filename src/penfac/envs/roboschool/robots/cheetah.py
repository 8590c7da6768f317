"""HalfCheetah: every centre of mass on its joint, feet of 10 kg."""

import math

from penfac.envs.roboschool.robots.parts import ORIGIN, Body, Capsule, Hinge, Robot, Y


def slanted(x: float, z: float, angle: float, half: float) -> Capsule:
    """A capsule in the plane by its centre, its angle about +y and its half length."""
    dx, dz = half * math.sin(angle), half * math.cos(angle)
    return Capsule((x + dx, 0, z + dz), (x - dx, 0, z - dz), 0.046)


def limb(name, parent, pos, mass, inertia, geom, low, high, torque, stop=None) -> Body:
    joint = Hinge(name, Y, low, high, torque, stop=stop)
    return Body(name, parent, mass, ORIGIN, inertia, (geom,), (joint,), pos, parts=2)


HALF_CHEETAH = Robot(
    "HalfCheetah",
    "planar",
    (
        Body(
            "torso", "world", 9.45733, ORIGIN, (0.11851, 1.564635, 1.492756),
            (Capsule((-0.5, 0, 0), (0.5, 0, 0), 0.046), slanted(0.6, 0.1, 0.87, 0.15)),
            pos=(0, 0, 0.7), parts=4,
        ),
        limb("bthigh", "torso", (-0.5, 0, 0), 2.33553, (0.026653, 0.043289, 0.019931),
             slanted(0.1, -0.13, -3.8, 0.145), -0.52, 1.05, 108),
        limb("bshin", "bthigh", (0.16, 0, -0.25), 2.40200, (0.014835, 0.043925, 0.032479),
             slanted(-0.14, -0.07, -2.03, 0.15), -0.785, 0.785, 81),
        limb("bfoot", "bshin", (-0.28, 0, -0.14), 10, (0.079277, 0.09446, 0.02929),
             slanted(0.03, -0.097, -0.27, 0.094), -0.4, 0.785, 54),
        limb("fthigh", "torso", (0.5, 0, 0), 2.17598, (0.024567, 0.035076, 0.013579),
             slanted(-0.07, -0.12, 0.52, 0.133), -1.5, 0.8, 126),
        limb("fshin", "fthigh", (-0.14, 0, -0.24), 1.81701, (0.015169, 0.023169, 0.010563),
             slanted(0.065, -0.09, -0.6, 0.106), -1.2, 1.1, 54),
        # starts 0.2 to 0.4 rad outside its range: a limit there would kick the robot
        limb("ffoot", "fshin", (0.13, 0, -0.18), 10, (0.056433, 0.085062, 0.042736),
             slanted(0.045, -0.07, -0.6, 0.07), -3.1, -0.3, 27, stop=(-3.1, 0.1)),
    ),
    feet=("ffoot", "fshin", "fthigh", "bfoot", "bshin", "bthigh"),
    near=(0.0050, 0.0062, 0.0073, 0.0055, 0.0079, 0.0081),
    start_height=0.7,
    zero_height=0.7,
)  # fmt: skip
