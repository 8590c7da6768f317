# MuJoCo's names come from C, where no type checker looks
# pyright: reportAttributeAccessIssue=false
"""MuJoCo models of the robots, built from the tables.

One model serves both engines. What a task reads comes as sensors: the places of sites,
then the velocities of bodies, so that a state and its sensors are all there is to know.
"""

from typing import Any, NamedTuple

import mujoco
import numpy as np

from penfac.envs.roboschool.tables import Body, Robot

PALETTE = {  # who is what in a picture
    "torso": (0.90, 0.55, 0.20, 1), "right": (0.24, 0.50, 0.76, 1),
    "left": (0.47, 0.72, 0.44, 1), "floor": ((0.93, 0.93, 0.91), (0.85, 0.86, 0.84)),
}  # fmt: skip


class Physics(NamedTuple):
    """How MuJoCo is set up: where published Roboschool policies walk best."""

    sub_step: float = 0.0165 / 4  # s
    contacts: int = 10  # at once, on MJX
    gravity: float = 9.8  # m / s^2
    # Bullet has neither armature nor damping, but without them a world may blow up
    armature: float = 0.01  # kg m^2
    damping: float = 0.1  # N m s / rad
    limit_time: float = 0.02  # s, how fast a joint limit pushes back
    contact_time: float = 0.01  # s, how fast the floor does; at least two sub-steps
    impedance: tuple[float, float, float] = (0.9, 0.99, 0.001)
    iterations: int = 10  # of Newton's method, at most: it stops when it has converged
    line_search: int = 20  # at most; with 8 the Humanoid blows up under random torques
    drag: float = 0.04  # Bullet's on every link: -0.04 m v (1 + |v|), and so the torque
    self_contact: bool = True
    # Bullet undoes so much of an overlap of two feet within one sub-step; softer, a
    # reset that puts them into each other (one in four) throws the legs apart less
    undo: float = 0.9
    firm: float = 0.99  # impedance of that; with 0.999 meeting limbs may blow up
    stop: float = (
        0.95  # ... of limits that only stop: random actions pay as they should
    )


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
    _scenery(spec, robot, physics)
    made = {"world": spec.worldbody}
    for body in robot.bodies:
        made[body.name] = _body(made[body.parent], body, robot, physics)
        for hinge in body.joints:
            # the torque of an angle is `length` times that of the speed in the model
            _motor(spec, hinge.name, hinge.torque / hinge.length)
    if robot.root == "slider":
        _motor(spec, "slider", CART_FORCE)
    if physics.self_contact:
        for a, b in robot.self_contact:
            _may_touch(spec, robot, a, b, physics)
    sensors = _sensors(spec, made, robot)
    return Machine(robot, physics, spec.compile(), sensors)


NO_SPRING = 1e-3  # 1/s^2: MuJoCo wants both numbers negative
CART_FORCE = 100.0  # N at action 1
CART_REACH = 1.0  # m


def _body(parent: Any, body: Body, robot: Robot, physics: Physics) -> Any:
    made = parent.add_body(name=body.name, pos=body.pos, quat=body.quat)
    made.explicitinertial = True
    made.mass, made.ipos, made.inertia = body.mass, body.com, body.inertia
    if body.parent == "world":
        _root(made, robot, physics)
    for hinge in body.joints:
        low, high = hinge.stop or (hinge.low, hinge.high)
        made.add_joint(
            name=hinge.name,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=hinge.axis,
            pos=hinge.at,
            armature=physics.armature,
            damping=physics.damping,
            **_limit(low, high, robot, physics),
        )
    if body.name == "pole":
        made.add_joint(name="hinge", type=mujoco.mjtJoint.mjJNT_HINGE, axis=(0, 1, 0))
    for k, capsule in enumerate(body.geoms):
        made.add_geom(name=f"{body.name}_{k}", **_geom(capsule, body, robot, physics))
    return made


def _root(made: Any, robot: Robot, physics: Physics) -> None:
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
        reach = _limit(-CART_REACH, CART_REACH, robot, physics)
        made.add_joint(name="slider", type=slide, axis=(1, 0, 0), **reach)


def _limit(low: float, high: float, robot: Robot, physics: Physics) -> dict[str, Any]:
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


def _geom(capsule, body: Body, robot: Robot, physics: Physics) -> dict[str, Any]:
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
    return shape | _touch(robot, physics) | {
        "contype": 0 if robot.root == "slider" else 1,
        "conaffinity": 0,
        "rgba": PALETTE["torso" if is_trunk else "left" if is_left else "right"],
    }  # fmt: skip


def _touch(robot: Robot, physics: Physics) -> dict[str, Any]:
    return {
        "friction": (robot.friction, 0.005, 0.0001),  # the last two unused: condim 3
        "condim": 3,
        "solref": (physics.contact_time, 1),
        "solimp": (*physics.impedance, 0.5, 2),
    }


def _may_touch(spec: Any, robot: Robot, a: str, b: str, physics: Physics) -> None:
    bodies = {body.name: body for body in robot.bodies}
    slide = robot.friction
    for i, one in enumerate(bodies[a].geoms):
        for j, other in enumerate(bodies[b].geoms):
            spheres = one.a == one.b and other.a == other.b
            law = _apart(physics) if spheres else _touch(robot, physics)
            spec.add_pair(
                geomname1=f"{a}_{i}",
                geomname2=f"{b}_{j}",
                condim=3,
                friction=(slide, slide, 0.005, 0.0001, 0.0001),
                solref=law["solref"],
                solimp=law["solimp"],
            )


def _apart(physics: Physics) -> dict[str, Any]:
    """How two feet meet in Bullet: after one sub-step of h an overlap d goes back at
    undo d / h. Capsules stay soft: deep in each other they would throw the robot up."""
    h, firm = physics.sub_step, physics.firm
    return {
        # negative numbers are stiffness and damping as they are
        "solref": (-physics.undo * firm / h**2, -firm / h),
        "solimp": (firm, firm, 0.001, 0.5, 2),
    }


def _motor(spec: Any, joint: str, torque: float) -> None:
    spec.add_actuator(
        name=joint,
        target=joint,
        trntype=mujoco.mjtTrn.mjTRN_JOINT,
        gear=(torque, 0, 0, 0, 0, 0),
        ctrllimited=mujoco.mjtLimited.mjLIMITED_TRUE,
        ctrlrange=(-1, 1),
    )


def _sensors(spec: Any, made: dict[str, Any], robot: Robot) -> Sensors:
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


def _scenery(spec: Any, robot: Robot, physics: Physics) -> None:
    """The floor, and what a picture needs: sky, light, a camera that follows."""
    one, two = PALETTE["floor"]
    texture, role = mujoco.mjtTexture, mujoco.mjtTextureRole.mjTEXROLE_RGB
    gradient, checker = (
        mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
    )
    spec.add_texture(
        name="sky", type=texture.mjTEXTURE_SKYBOX, builtin=gradient,
        rgb1=(0.96, 0.97, 0.98), rgb2=(0.80, 0.87, 0.94), width=64, height=384,
    )  # fmt: skip
    spec.add_texture(
        name="tiles", type=texture.mjTEXTURE_2D, builtin=checker, rgb1=one, rgb2=two,
        width=128, height=128,
    )  # fmt: skip
    tiles = spec.add_material(name="tiles", texrepeat=(1, 1), texuniform=True)
    tiles.textures[role] = "tiles"
    world = spec.worldbody
    world.add_light(
        pos=(0, -3, 8), dir=(0.1, 0.35, -1), diffuse=(0.7, 0.7, 0.7),
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
    )  # fmt: skip
    spec.visual.headlight.ambient = (0.4, 0.4, 0.4)
    spec.visual.headlight.diffuse = (0.3, 0.3, 0.3)
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1920, 1080
    world.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=(0, 0, 1),
        pos=(0, 0, -0.8 if robot.root == "slider" else 0),
        material="tiles",
        contype=0,
        conaffinity=1,
        **_touch(robot, physics),
    )


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
