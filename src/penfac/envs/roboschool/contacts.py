# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""The shapes of a robot, and how they touch the floor and each other."""

from typing import Any

import mujoco

from penfac.envs.roboschool.physics import Physics
from penfac.envs.roboschool.robots.parts import Body, Capsule, Robot

PALETTE = {  # colours in a picture
    "torso": (0.90, 0.55, 0.20, 1), "right": (0.24, 0.50, 0.76, 1),
    "left": (0.47, 0.72, 0.44, 1),
}  # fmt: skip


def geom_of(
    capsule: Capsule, body: Body, robot: Robot, physics: Physics
) -> dict[str, Any]:
    """Robots touch the floor (1 meets 1); the cart and its pole touch nothing."""
    is_ball = capsule.a == capsule.b
    kind = mujoco.mjtGeom
    is_left = "left" in body.name or body.name in ("fthigh", "fshin", "ffoot")
    shape: dict[str, Any] = (
        {"type": kind.mjGEOM_SPHERE, "pos": capsule.a, "size": (capsule.radius, 0, 0)}
        if is_ball
        else {
            "type": kind.mjGEOM_CAPSULE,
            "fromto": (*capsule.a, *capsule.b),
            "size": (capsule.radius, 0, 0),
        }
    )
    is_trunk = body.name in ("torso", "lwaist", "pelvis", "cart")
    return shape | contact_law(robot, physics) | {
        "contype": 0 if robot.root == "slider" else 1,
        "conaffinity": 0,
        "rgba": PALETTE["torso" if is_trunk else "left" if is_left else "right"],
    }  # fmt: skip


def contact_law(robot: Robot, physics: Physics) -> dict[str, Any]:
    return {
        "friction": (robot.friction, 0.005, 0.0001),  # the last two unused: condim 3
        "condim": 3,
        "solref": (physics.contact_time, 1),
        "solimp": (*physics.impedance, 0.5, 2),
    }


def add_contacts(spec: Any, robot: Robot, a: str, b: str, physics: Physics) -> None:
    bodies = {body.name: body for body in robot.bodies}
    slide = robot.friction
    for i, one in enumerate(bodies[a].geoms):
        for j, other in enumerate(bodies[b].geoms):
            spheres = one.a == one.b and other.a == other.b
            law = sphere_law(physics) if spheres else contact_law(robot, physics)
            spec.add_pair(
                geomname1=f"{a}_{i}",
                geomname2=f"{b}_{j}",
                condim=3,
                friction=(slide, slide, 0.005, 0.0001, 0.0001),
                solref=law["solref"],
                solimp=law["solimp"],
            )


def sphere_law(physics: Physics) -> dict[str, Any]:
    """How two feet meet in Bullet: after one sub-step of h an overlap d goes back at
    undo d / h. Capsules stay soft: deep in each other they would throw the robot up."""
    h, firm = physics.sub_step, physics.firm
    return {
        # negative numbers are stiffness and damping as they are
        "solref": (-physics.undo * firm / h**2, -firm / h),
        "solimp": (firm, firm, 0.001, 0.5, 2),
    }
