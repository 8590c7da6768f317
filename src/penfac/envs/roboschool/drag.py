"""The drag that Bullet puts on every link of every robot: -0.04 m v (1 + |v|)."""

from typing import Any

import numpy as np

from penfac.envs.roboschool.model import Machine

Array = Any  # numpy or JAX


def drag_coefficients(machine: Machine) -> np.ndarray:
    """[bodies, 2] of (mass, inertia) times Bullet's 0.04. One inertia a body: that of its
    only axis in the plane, the mean of three in space."""
    robot, drag = machine.robot, machine.physics.drag
    turn = (lambda i: sum(i) / 3) if robot.root == "free" else (lambda i: i[1])
    return drag * np.array([(body.mass, turn(body.inertia)) for body in robot.bodies])


def drag(xp, coefficients: np.ndarray, sensors: Array, places: int) -> Array:
    """[..., 6 bodies] force and torque at each centre of mass: -c v (1 + |v|)."""
    v = sensors[..., places:].reshape((*sensors.shape[:-1], *coefficients.shape, 3))
    speed = xp.sqrt((v * v).sum(-1))
    force = v * (-coefficients * (1 + speed))[..., None]
    return force.reshape((*sensors.shape[:-1], 6 * coefficients.shape[0]))
