"""`penfac bench device`: steps per second of the Roboschool tasks on MJX on this
device.

A step includes observation, reward and drag; the bare engine runs the same physics
without them.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp

from penfac.bench.figures import Figures, Say
from penfac.envs.roboschool.mjx import MjxEngine, MjxState, roboschool_env
from penfac.envs.roboschool.task import make_task

ROBOTS = ("Hopper", "HalfCheetah", "Humanoid")
AIMS = {"Hopper": 0.6, "HalfCheetah": 0.35, "Humanoid": 0.15}  # million steps a second


def run(quick: bool, say: Say) -> dict[str, Any]:
    device = jax.devices()[0]
    accelerated = device.platform != "cpu"
    sizes = (4096, 8192, 16384) if accelerated else (64,)
    budgets = (4,) if quick else (4, 10, 2, 1)
    figures = Figures(say)

    for robot in ROBOTS:
        for iterations in budgets:
            found = {}
            for worlds in sizes if iterations == 4 else sizes[1:2] or sizes:
                found[worlds] = rate(robot, worlds, iterations, bare=False)
                say(f"  {robot}, {worlds} worlds: {found[worlds]:,.0f}/s")
            best = max(found, key=lambda worlds: found[worlds])
            whole = found[best]
            bare = rate(robot, best, iterations, bare=True) if iterations == 4 else None
            share = "" if bare is None else f", {100 * whole / bare:.0f} % of bare MJX"
            figures.add(
                f"{robot}, {iterations} Newton iterations",
                f"{whole:,.0f} steps/s with {best} worlds{share}",
                f"{AIMS[robot]} M" if iterations == 4 and accelerated else "-",
            )
    return {"figures": figures, "device": device.device_kind}


def rate(
    robot: str, count: int, iterations: int | None, bare: bool, steps: int = 64
) -> float:
    """Return control steps per second of `count` worlds under random actions, with
    resets."""
    env = roboschool_env(f"Roboschool{robot}-v2", iterations=iterations)
    physics = MjxEngine.of(make_task(robot), iterations)

    def one(world: MjxState, key):
        action = jax.random.uniform(key, (env.spec.action_dim,), minval=-1.0)
        if bare:
            scene = physics.play(world, action)
            return MjxState(*scene, world.flags, world.obs)
        outcome = env.step(world, action, key)
        again = env.reset(key)
        over = outcome.terminated | outcome.broken
        return jax.tree.map(
            lambda new, old: jnp.where(over, new, old), again, outcome.state
        )

    @jax.jit
    def many(worlds, key):
        def step(worlds, key):
            return jax.vmap(one)(worlds, jax.random.split(key, count)), None

        return jax.lax.scan(step, worlds, jax.random.split(key, steps))[0]

    keys = jax.random.split(jax.random.key(0), count)
    worlds = jax.block_until_ready(jax.jit(jax.vmap(env.reset))(keys))
    worlds = jax.block_until_ready(many(worlds, jax.random.key(1)))  # compiles
    started = time.perf_counter()
    jax.block_until_ready(many(worlds, jax.random.key(2)))
    return count * steps / (time.perf_counter() - started)
