# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""MuJoCo models of the robots, built from their parts.

One model serves both engines. A task reads sensors: the places of sites, then the
velocities of bodies. A world is its state and its sensors, nothing else.
"""

from typing import Any, NamedTuple

import mujoco
import numpy as np

from penfac.envs.roboschool.contacts import add_contacts, geom_of
from penfac.envs.roboschool.physics import Physics
from penfac.envs.roboschool.robots.parts import Body, Robot
from penfac.envs.roboschool.scenery import add_scenery

NO_SPRING = 1e-3  # 1/s^2: MuJoCo wants both numbers negative
CART_FORCE = 100.0  # N at action 1
CART_REACH = 1.0  # m


class Sensors(NamedTuple):
    """Where things are in sensordata: [sites x 3, then bodies x (linear 3, angular 3)]."""

    places: int  # numbers before the velocities
    # the first sites are the means of Bullet's links, body after body; then come
    ends: dict[str, list[tuple[int, int]]]  # body -> the end sites of its capsules

    @property
    def sites(self) -> int:
        return self.places // 3


class Machine(NamedTuple):
    """A robot ready to run."""

    robot: Robot
    physics: Physics
    model: Any  # mujoco.MjModel
    sensors: Sensors


DEFAULT = Physics()


def build(robot: Robot, physics: Physics = DEFAULT) -> Machine:
    spec = mujoco.MjSpec()
    spec.modelname = robot.name
    spec.compiler.degree = False
    spec.option.timestep = physics.sub_step
    spec.option.gravity = [0, 0, -physics.gravity]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.iterations = physics.iterations
    spec.option.ls_iterations = physics.line_search
    spec.option.cone = (
        mujoco.mjtCone.mjCONE_ELLIPTIC
        if robot.cone == "elliptic"
        else mujoco.mjtCone.mjCONE_PYRAMIDAL
    )
    # MJX solves for as many, the deepest; C, for all there are
    spec.add_numeric(name="max_contact_points", data=[physics.contacts])
    add_scenery(spec, robot, physics)
    made = {"world": spec.worldbody}
    for body in robot.bodies:
        made[body.name] = add_body(made[body.parent], body, robot, physics)
        for hinge in body.joints:
            # the torque of an angle is `length` times that of the speed in the model
            add_motor(spec, hinge.name, hinge.torque / hinge.length)
    if robot.root == "slider":
        add_motor(spec, "slider", CART_FORCE)
    if physics.self_contact:
        for a, b in robot.self_contact:
            add_contacts(spec, robot, a, b, physics)
    sensors = add_sensors(spec, made, robot)
    return Machine(robot, physics, spec.compile(), sensors)


def add_body(parent: Any, body: Body, robot: Robot, physics: Physics) -> Any:
    made = parent.add_body(name=body.name, pos=body.pos, quat=body.quat)
    made.explicitinertial = True
    made.mass, made.ipos, made.inertia = body.mass, body.com, body.inertia
    if body.parent == "world":
        add_root(made, robot, physics)
    for hinge in body.joints:
        low, high = hinge.stop or (hinge.low, hinge.high)
        made.add_joint(
            name=hinge.name,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=hinge.axis,
            pos=hinge.at,
            armature=physics.armature,
            damping=physics.damping,
            **limit_law(low, high, robot, physics),
        )
    if body.name == "pole":
        made.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 1, 0))
    for k, capsule in enumerate(body.geoms):
        made.add_geom(name=f"{body.name}_{k}", **geom_of(capsule, body, robot, physics))
    return made


def add_root(made: Any, robot: Robot, physics: Physics) -> None:
    """How the first body moves in the world."""
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    if robot.root == "free":
        made.add_freejoint(name="root")
        made.pos = (0, 0, robot.start_height - robot.bodies[0].com[2])
    elif robot.root == "planar":
        made.add_joint(name="root_x", type=slide, axis=(1, 0, 0))
        made.add_joint(name="root_z", type=slide, axis=(0, 0, 1))
        made.add_joint(name="root_y", type=hinge, axis=(0, 1, 0))
    else:
        reach = limit_law(-CART_REACH, CART_REACH, robot, physics)
        made.add_joint(name="slider", type=slide, axis=(1, 0, 0), **reach)


def limit_law(
    low: float, high: float, robot: Robot, physics: Physics
) -> dict[str, Any]:
    law = ((physics.limit_time, 1), physics.impedance)
    if robot.only_stops:  # all speed is gone after one sub-step, and there is no spring
        firm = physics.stop
        law = ((-NO_SPRING, -firm / physics.sub_step), (firm, firm, 0.001))
    return {
        "limited": mujoco.mjtLimited.mjLIMITED_TRUE,
        "range": (low, high),
        "solref_limit": law[0],
        "solimp_limit": (*law[1], 0.5, 2),
    }


def add_motor(spec: Any, joint: str, torque: float) -> None:
    spec.add_actuator(
        name=joint,
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        gear=(torque, 0, 0, 0, 0, 0),
        ctrllimited=mujoco.mjtLimited.mjLIMITED_TRUE,
        ctrlrange=(-1, 1),
    )


def add_sensors(spec: Any, made: dict[str, Any], robot: Robot) -> Sensors:
    """Sites for each body's mean and for the ends of feet and limbs; velocities last."""
    names, ends = [], {}
    for body in robot.bodies:
        made[body.name].add_site(name=f"{body.name}_mean", pos=body.mean, group=4)
        names.append(f"{body.name}_mean")
    for body in robot.bodies:
        if body.name not in (*robot.feet, *robot.limbs):
            continue
        ends[body.name] = []
        for k, capsule in enumerate(body.geoms):
            pair = []
            for end, at in (("a", capsule.a), ("b", capsule.b)):
                if end == "b" and capsule.b == capsule.a:
                    pair.append(pair[0])
                    continue
                name = f"{body.name}_{k}{end}"
                made[body.name].add_site(name=name, pos=at, group=4)
                pair.append(len(names))
                names.append(name)
            ends[body.name].append(tuple(pair))
    add, kind, of = spec.add_sensor, mujoco.mjtSensor, mujoco.mjtObj
    for name in names:
        add(type=kind.mjSENS_FRAMEPOS, objtype=of.mjOBJ_SITE, objname=name)
    for body in robot.bodies:
        for sensor in (kind.mjSENS_FRAMELINVEL, kind.mjSENS_FRAMEANGVEL):
            add(type=sensor, objtype=of.mjOBJ_BODY, objname=body.name)
    return Sensors(3 * len(names), ends)


def joint_limits(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """[m] of the motors' joints, as the observation is scaled by."""
    hinges = [hinge for body in robot.bodies for hinge in body.joints]
    return np.array([h.low for h in hinges]), np.array([h.high for h in hinges])


def axis_lengths(robot: Robot) -> np.ndarray:
    """[m] of the motors' joints: how many times as fast as its angle each moves its link."""
    hinges = [hinge for body in robot.bodies for hinge in body.joints]
    return np.array([hinge.length for hinge in hinges])


def excess_turn(machine: Machine) -> np.ndarray | None:
    """[m] rad by which MuJoCo turns each joint too far in a sub-step, for every rad/s in
    qvel: an angle goes at 1/length of the speed there (`Hinge`). None where all are 1."""
    lengths = axis_lengths(machine.robot)
    if (lengths == 1).all():
        return None
    return (1 - 1 / lengths) * machine.physics.sub_step
