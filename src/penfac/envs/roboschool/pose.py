"""Where a walker's torso is: height, attitude and velocity of its centre of mass."""

import math
from typing import NamedTuple

from penfac.envs.roboschool.records import Array
from penfac.envs.roboschool.robots.parts import Body


class Pose(NamedTuple):
    """The torso's centre of mass: height, attitude, velocity in the world."""

    height: Array
    roll: Array
    pitch: Array
    yaw: Array
    vx: Array
    vy: Array
    vz: Array


def bounded(xp, x: Array, most: float) -> Array:
    """Clipped to [-most, most]; a NaN stays one."""
    return xp.minimum(xp.maximum(x, -most), most)


def rotate(q, v):
    """A vector turned by a quaternion (w, x, y, z), component by component."""
    w, x, y, z = q
    a, b, c = v
    # t = 2 (x, y, z) x v; v + w t + (x, y, z) x t
    ta, tb, tc = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return (
        a + w * ta + y * tc - z * tb,
        b + w * tb + z * ta - x * tc,
        c + w * tc + x * tb - y * ta,
    )


def planar_pose(
    xp, body: Body, qpos: Array, qvel: Array, joint_in_velocity: bool
) -> Pose:
    """Of a torso that moves in the plane: qpos begins with x, z and the pitch."""
    pitch, spin = qpos[..., 2], qvel[..., 2]
    sin, cos = xp.sin(pitch), xp.cos(pitch)
    arm, base = body.com[2], body.pos[2]
    along = arm * spin  # the torso's own x axis
    if joint_in_velocity:
        along = along + qvel[..., 3]
    forward, up = qvel[..., 0] + along * cos, qvel[..., 1] - along * sin
    # upside down is a half turn of roll and yaw with the pitch back within 90 degrees
    over = xp.where(cos > 0, 0.0, math.pi)
    return Pose(
        base + qpos[..., 1] + arm * cos, over, xp.arcsin(sin), over,
        forward, xp.zeros_like(forward), up,
    )  # fmt: skip


def free_pose(xp, body: Body, qpos: Array, qvel: Array) -> Pose:
    """Of a torso that moves in space: qpos begins with x, y, z and a quaternion."""
    w, x, y, z = (qpos[..., k] for k in (3, 4, 5, 6))
    roll = xp.arctan2(2 * (y * z + x * w), -x * x - y * y + z * z + w * w)
    pitch = xp.arcsin(bounded(xp, -2 * (x * z - y * w), 1.0))
    yaw = xp.arctan2(2 * (x * y + z * w), x * x - y * y - z * z + w * w)
    a, _, c = body.com  # y is 0 for both robots
    wx, wy, wz = (qvel[..., k] for k in (3, 4, 5))
    across = (wy * c, wz * a - wx * c, -wy * a)  # spin x arm, in the body's frame
    turned = rotate((w, x, y, z), across)
    vx, vy, vz = (qvel[..., k] + turned[k] for k in (0, 1, 2))
    height = qpos[..., 2] + rotate((w, x, y, z), (a, 0.0, c))[2]
    return Pose(height, roll, pitch, yaw, vx, vy, vz)
