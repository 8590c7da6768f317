"""Gymnasium's Pendulum-v1 and MountainCarContinuous-v0 as pure functions.

The same dynamics, rewards, bounds and initial states; tests step both side by side.
"""

import jax
import jax.numpy as jnp
import numpy as np

from penfac.envs.base import JaxEnv, Outcome
from penfac.types import EnvSpec

# pendulum
GRAVITY, MASS, LENGTH, DT = 10.0, 1.0, 1.0, 0.05
MAX_SPEED, MAX_TORQUE = 8.0, 2.0
TORQUE = np.full(1, MAX_TORQUE, np.float32)


def _pendulum_reset(key):
    """Draw an angle in the whole circle and a speed."""
    high = jnp.array([jnp.pi, 1.0])
    return jax.random.uniform(key, (2,), minval=-high, maxval=high)


def _pendulum_observe(state):
    angle, speed = state
    return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])


def _pendulum_step(state, action, key):
    angle, speed = state
    torque = jnp.clip(action[0], -MAX_TORQUE, MAX_TORQUE)
    upright = ((angle + jnp.pi) % (2 * jnp.pi)) - jnp.pi
    cost = upright**2 + 0.1 * speed**2 + 0.001 * torque**2
    pull = 3 * GRAVITY / (2 * LENGTH) * jnp.sin(angle)
    push = 3.0 / (MASS * LENGTH**2) * torque
    speed = jnp.clip(speed + (pull + push) * DT, -MAX_SPEED, MAX_SPEED)
    return Outcome(jnp.stack([angle + speed * DT, speed]), -cost, jnp.bool_(False))


PENDULUM = JaxEnv(
    spec=EnvSpec(
        "penfac/Pendulum-v0",
        3,
        -TORQUE,
        TORQUE,
        200,
        np.array([-1, -1, -MAX_SPEED], np.float32),
        np.array([1, 1, MAX_SPEED], np.float32),
    ),
    reset=_pendulum_reset,
    observe=_pendulum_observe,
    step=_pendulum_step,
    summary="Gymnasium's Pendulum-v1 in JAX",
)

# mountain car
MIN_POSITION, MAX_POSITION, MAX_CAR_SPEED, GOAL = -1.2, 0.6, 0.07, 0.45
POWER = 0.0015
FORCE = np.ones(1, np.float32)


def _car_reset(key):
    position = jax.random.uniform(key, (), minval=-0.6, maxval=-0.4)
    return jnp.stack([position, jnp.zeros(())])


def _car_step(state, action, key):
    position, velocity = state
    force = jnp.clip(action[0], -1.0, 1.0)
    velocity = velocity + force * POWER - 0.0025 * jnp.cos(3 * position)
    velocity = jnp.clip(velocity, -MAX_CAR_SPEED, MAX_CAR_SPEED)
    position = jnp.clip(position + velocity, MIN_POSITION, MAX_POSITION)
    at_wall = (position == MIN_POSITION) & (velocity < 0)
    velocity = jnp.where(at_wall, 0.0, velocity)
    arrived = (position >= GOAL) & (velocity >= 0)
    reward = jnp.where(arrived, 100.0, 0.0) - 0.1 * action[0] ** 2
    return Outcome(jnp.stack([position, velocity]), reward, arrived)


MOUNTAIN_CAR = JaxEnv(
    spec=EnvSpec(
        "penfac/MountainCarContinuous-v0",
        2,
        -FORCE,
        FORCE,
        999,
        np.array([MIN_POSITION, -MAX_CAR_SPEED], np.float32),
        np.array([MAX_POSITION, MAX_CAR_SPEED], np.float32),
    ),
    reset=_car_reset,
    observe=lambda state: state,
    step=_car_step,
    summary="Gymnasium's MountainCarContinuous-v0 in JAX",
)
