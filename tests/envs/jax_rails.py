"""JAX environments of a user: functions, and stand-ins with the methods of gymnax and
Brax, whose own packages tests do not need."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import penfac

LIMIT = 20


def reset(key):
    return {"x": jax.random.uniform(key, (2,), minval=-1.0), "key": key, "t": 0}


def observe(state):
    return {"place": state["x"][:1], "speed": state["x"][1:]}


def step(state, action, key):
    mine, use = jax.random.split(state["key"])
    speed = state["x"][1] + 0.1 * action[0] + 0.01 * jax.random.normal(use)
    x = jnp.stack([state["x"][0] + 0.1 * speed, speed])
    after = {"x": x, "key": mine, "t": state["t"] + 1}
    return after, -(x[0] ** 2), jnp.abs(x[0]) > 3.0


RAIL: dict[str, Any] = {
    "reset": reset, "step": step, "observe": observe, "action_low": -1.0,
    "action_high": [1.0], "max_episode_steps": LIMIT,
}  # fmt: skip
penfac.register_jax_env("JaxRail-v0", **RAIL)


class Params(NamedTuple):
    max_steps_in_episode: int = LIMIT

    def replace(self, **changes):
        return self._replace(**changes)


class Place(NamedTuple):
    x: Any
    time: Any


class Space:
    low, high, shape = -2.0, 2.0, (1,)


class GymnaxLike:
    """Its `done` is a fall or the end of the time, as gymnax has it; raw keys."""

    default_params = Params()

    def action_space(self, params):
        return Space

    def reset_env(self, key, params):
        assert key.dtype == np.uint32
        state = Place(jax.random.uniform(key, (2,), minval=-1.0), 0)
        return state.x, state

    def step_env(self, key, state, action, params):
        x = state.x + 0.1 * action
        after = Place(x, state.time + 1)
        done = (jnp.abs(x[0]) > 3.0) | (after.time >= params.max_steps_in_episode)
        return x, after, -jnp.sum(x**2), done, {}


class State(NamedTuple):
    pipeline_state: Any
    obs: Any
    reward: Any
    done: Any
    info: dict


class BraxLike:
    """Playground's form: a key in `info`, a dict of observations, `done` as a number."""

    action_size = 1

    def reset(self, rng):
        x = jax.random.uniform(rng, (2,), minval=-1.0)
        obs = {"state": x, "privileged_state": jnp.zeros(5)}
        return State(x, obs, jnp.zeros(()), jnp.zeros(()), {"rng": rng})

    def step(self, state, action):
        rng, _ = jax.random.split(state.info["rng"])
        x = state.pipeline_state + 0.1 * action
        obs = {"state": x, "privileged_state": jnp.zeros(5)}
        fell = jnp.where(jnp.abs(x[0]) > 3.0, 1.0, 0.0)
        return State(x, obs, -jnp.sum(x**2), fell, {"rng": rng})
