"""RoboschoolInvertedPendulumSwingup-v2 in closed form: a pole to swing up on a cart.

The same masses, drag, rail ends and time step as the MuJoCo model; two coordinates and
one limit need no engine. Tests step both side by side.

    M(angle) acceleration = force + drag + centrifugal + gravity + the rail's end
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from penfac.envs.base import JaxEnv, Outcome
from penfac.envs.roboschool.robots.cart import PENDULUM
from penfac.types import EnvSpec

CART, POLE = PENDULUM.bodies
X, _, Z = POLE.com  # of the pole's centre of mass from its hinge, pole upright
INERTIA = POLE.inertia[1]
GRAVITY, DT, FORCE, REACH = 9.8, 0.0165, 100.0, 1.0
DRAG = 0.04  # -0.04 m v (1 + |v|) on a body, and so the torque
START_ANGLE, START_NOISE = 3.1415, 0.1
HORIZON = 1000
# The rail's end, as MuJoCo models a soft limit: a spring and damper that act through an
# impedance between D_NEAR and D_DEEP, over WIDTH metres of depth.
D_NEAR, D_DEEP, WIDTH = 0.9, 0.99, 0.001
LIMIT_TIME = 2 * DT  # MuJoCo lets no limit be faster than two of its steps
PUSH = np.ones(1, np.float32)


class Cart(NamedTuple):
    """All there is of one world: x and the angle, their speeds, and the speeds that drag
    is computed from: those of one step before, as the engine's sensors tell them."""

    place: Array  # [2]
    speed: Array  # [2]
    felt: Array  # [4] of the cart, of the pole's centre along x and z, of its turning


def reset(key: Array) -> Cart:
    noise = jax.random.uniform(key, (), minval=-START_NOISE, maxval=START_NOISE)
    place = jnp.array([0.0, START_ANGLE + noise])
    return Cart(place, jnp.zeros(2), jnp.zeros(4))


def observe(cart: Cart) -> Array:
    (x, angle), (dx, turning) = cart.place, cart.speed
    return jnp.array([x, dx, jnp.cos(angle), jnp.sin(angle), turning])


def step(cart: Cart, action: Array, key: Array) -> Outcome:
    across, height = pole_centre(cart.place[1])
    force = jnp.array([FORCE, 0.0]) * jnp.clip(action[0], -1, 1)
    force += drag(cart.felt, across, height)
    turning = cart.speed[1]
    force += POLE.mass * across * jnp.array([turning**2, GRAVITY])
    inverse = inverse_mass(height)
    acceleration = inverse @ force
    acceleration += inverse[:, 0] * rail_end(cart, acceleration[0], inverse[0, 0])
    felt = speeds(cart.speed, across, height)
    speed = cart.speed + DT * acceleration
    new = Cart(cart.place + DT * speed, speed, felt)
    return Outcome(new, jnp.cos(new.place[1]), jnp.bool_(False))


def pole_centre(angle: Array) -> tuple[Array, Array]:
    """Of the pole's centre of mass from its hinge: along the rail, and upwards. Each is
    the other's derivative in the angle, but for the sign."""
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    return X * cosine + Z * sine, Z * cosine - X * sine


def inverse_mass(height: Array) -> Array:
    """The inverse of [[m + M, m height], [m height, I + m |centre|^2]]."""
    total, lever = CART.mass + POLE.mass, POLE.mass * height
    swing = INERTIA + POLE.mass * (X**2 + Z**2)
    return jnp.array([[swing, -lever], [-lever, total]]) / (total * swing - lever**2)


def speeds(speed: Array, across: Array, height: Array) -> Array:
    """Of the cart, of the pole's centre along x and z, and of its turning."""
    dx, turning = speed
    return jnp.array([dx, dx + height * turning, -across * turning, turning])


def drag(felt: Array, across: Array, height: Array) -> Array:
    """Forces along x and in the angle, of -0.04 m v (1 + |v|) on both bodies."""
    cart, along, up, turning = felt
    size = jnp.sqrt(along**2 + up**2)
    on_cart = -DRAG * CART.mass * cart * (1 + jnp.abs(cart))
    on_pole = -DRAG * POLE.mass * (1 + size) * jnp.array([along, up])
    torque = -DRAG * INERTIA * turning * (1 + jnp.abs(turning))
    swing = height * on_pole[0] - across * on_pole[1] + torque
    return jnp.array([on_cart + on_pole[0], swing])


def rail_end(cart: Cart, free: Array, inverse: Array) -> Array:
    """The force of the rail's end on the cart, which never pulls. `free` is what the cart
    would be accelerated without it, `inverse` by how much a newton changes that."""
    x, dx = cart.place[0], cart.speed[0]
    side = -jnp.sign(x)  # towards the middle
    depth = REACH - jnp.abs(x)  # negative beyond the end
    d = impedance(-depth)
    spring = d / (D_DEEP * LIMIT_TIME) ** 2
    damper = 2 / (D_DEEP * LIMIT_TIME)
    wanted = -damper * side * dx - spring * depth
    softness = (1 - d) / d * AT_REST
    push = (wanted - side * free) / (inverse + softness)
    return jnp.where(depth < 0, side * jnp.maximum(push, 0), 0.0)


def impedance(depth: Array) -> Array:
    """From D_NEAR at the surface to D_DEEP, along two parabolas that meet half way."""
    u = jnp.clip(depth / WIDTH, 0, 1)
    smooth = jnp.where(u < 0.5, 2 * u**2, 1 - 2 * (1 - u) ** 2)
    return D_NEAR + (D_DEEP - D_NEAR) * smooth


def cart_inverse_mass() -> float:
    """With the pole upright: what MuJoCo takes for the inverse inertia at a limit."""
    total, swing = CART.mass + POLE.mass, INERTIA + POLE.mass * (X**2 + Z**2)
    return swing / (total * swing - (POLE.mass * Z) ** 2)


AT_REST = cart_inverse_mass()
SWING_UP = JaxEnv(
    spec=EnvSpec("penfac/InvertedPendulumSwingup-v0", 5, -PUSH, PUSH, HORIZON),
    reset=reset,
    observe=observe,
    step=step,
    summary="RoboschoolInvertedPendulumSwingup-v2 in closed form",
)
