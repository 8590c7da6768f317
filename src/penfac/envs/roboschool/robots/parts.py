"""The records that a robot is made of."""

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
