"""The robots as Bullet saw them: geometry, mass, centre of mass, inertia, limits, motors.

Bullet read its models with rules of its own (density 1000 everywhere, the inertia of a
bounding box, the centre of mass of a link's last geom), so the mass figures are written
down, not derived. Lengths in m, masses in kg, inertias in kg m^2 along the body's axes.
"""

import math
from typing import NamedTuple

Vector = tuple[float, float, float]
ORIGIN: Vector = (0, 0, 0)
X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
MINUS_X, MINUS_Y, MINUS_Z = (-1, 0, 0), (0, -1, 0), (0, 0, -1)


class Capsule(NamedTuple):
    a: Vector
    b: Vector
    radius: float


class Hinge(NamedTuple):
    """A motor's joint. `stop` is where MuJoCo pushes back, if not at the limits that the
    observation is scaled by: Bullet does not push back a joint far outside its range.

    Bullet keeps an axis as long as it is written: its link moves `length` times as fast
    in every force, drag and contact as the joint's angle does.
    """

    name: str
    axis: Vector
    low: float  # rad
    high: float
    torque: float  # N m at action 1
    at: Vector = ORIGIN
    stop: tuple[float, float] | None = None

    @property
    def length(self) -> float:
        return math.sqrt(sum(x * x for x in self.axis))


class Body(NamedTuple):
    name: str
    parent: str
    mass: float
    com: Vector
    inertia: Vector
    geoms: tuple[Capsule, ...]  # a sphere is a capsule whose ends meet
    joints: tuple[Hinge, ...] = ()
    pos: Vector = ORIGIN
    quat: tuple[float, float, float, float] = (1, 0, 0, 0)
    parts: int = 0  # links that Bullet made of it and its joints ...
    mean: Vector = ORIGIN  # ... and their mean position


class Robot(NamedTuple):
    """One robot; the first body is its torso."""

    name: str
    root: str  # planar: slides x and z, hinge y; free; slider: the cart
    bodies: tuple[Body, ...]
    feet: tuple[str, ...] = ()  # bodies whose touch of the floor is observed
    near: tuple[float, ...] = ()  # ... when closer than this: Bullet's contact margin
    friction: float = 0.64  # 0.8 of the robot times 0.8 of the floor
    cone: str = "pyramidal"
    limbs: tuple[str, ...] = ()  # what a foot must not strike, its own leg aside
    self_contact: tuple[tuple[str, str], ...] = ()  # bodies that may touch each other
    # a joint beyond its limit is stopped and not pushed back, as in Bullet beyond 0.04 rad
    only_stops: bool = False
    start_height: float = 0.0  # of the torso's centre of mass at reset
    zero_height: float = 0.0  # what the observed height is counted from


def sphere(at: Vector, radius: float) -> Capsule:
    return Capsule(at, at, radius)


def alike(x: float) -> Vector:
    return (x, x, x)


def degrees(name, axis, low, high, torque, at=ORIGIN) -> Hinge:
    return Hinge(name, axis, math.radians(low), math.radians(high), torque, at)


# --- Hopper and Walker2d: all body frames at the origin, the root's hinge at floor level ---

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

# --- HalfCheetah: every centre of mass on its joint, feet of 10 kg ------------------------


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

# --- Ant ----------------------------------------------------------------------------------


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

# --- Humanoid -----------------------------------------------------------------------------

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

# --- the cart and its pole ----------------------------------------------------------------

PENDULUM = Robot(
    "InvertedPendulum",
    "slider",
    (
        Body(
            "cart", "world", 10.47198, ORIGIN, (0.069813, 0.174533, 0.174533),
            (Capsule((-0.1, 0, 0), (0.1, 0, 0), 0.1),),
        ),
        Body(
            "pole", "cart", 5.01859, (0.0005, 0, 0.3), (0.26639, 0.26654, 0.026651),
            (Capsule(ORIGIN, (0.001, 0, 0.6), 0.049),),
        ),
    ),
)  # fmt: skip
