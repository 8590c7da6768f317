"""Five environments with known values; each tests one more part of learning.

1 a constant: the critic.  2 the observation: its input.  3 two steps: the discount.
4 an action: the actor.  5 an action for each observation: both together.
"""

import jax
import jax.numpy as jnp
import numpy as np

from penfac.envs.base import JaxEnv, Outcome
from penfac.types import EnvSpec

BEST_ACTION = 0.3  # of probe 4
BEST_SLOPE = 0.5  # of probe 5: mu*(s) = s / 2


def _spec(name: str, horizon: int) -> EnvSpec:
    one = np.ones(1, np.float32)
    return EnvSpec(f"penfac/{name}", 1, -one, one, horizon)


def _zero(key):
    return jnp.zeros(1)


def _sign(key):
    return jnp.where(jax.random.bernoulli(key), 1.0, -1.0)[None]


def _itself(state):
    return state


def _one_step(reward):
    """An episode of one step with reward `reward(s, a)`."""

    def step(state, action, key):
        return Outcome(state, reward(state[0], action[0]), jnp.bool_(True))

    return step


def _delayed(state, action, key):
    """Reward 0, then 1 a step later: V(0) = gamma, V(1) = 1."""
    second = state[0] > 0
    return Outcome(jnp.ones(1), jnp.where(second, 1.0, 0.0), second)


PROBES = (
    JaxEnv(
        _spec("ProbeConstant-v0", 1), _zero, _itself, _one_step(lambda s, a: 1.0 + 0 * s),
        "one state, reward 1: V = 1",
    ),
    JaxEnv(
        _spec("ProbeObservation-v0", 1), _sign, _itself, _one_step(lambda s, a: s),
        "the reward is the observation, +1 or -1: V(s) = s",
    ),
    JaxEnv(
        _spec("ProbeDelay-v0", 2), _zero, _itself, _delayed,
        "reward 1 after two steps: V of the first is gamma",
    ),
    JaxEnv(
        _spec("ProbeAction-v0", 1), _zero, _itself,
        _one_step(lambda s, a: -((a - BEST_ACTION) ** 2)),
        "one state, one best action: mu = 0.3",
    ),
    JaxEnv(
        _spec("ProbeBoth-v0", 1), _sign, _itself,
        _one_step(lambda s, a: -((a - BEST_SLOPE * s) ** 2)),
        "a best action for each observation: mu(s) = s / 2",
    ),
)  # fmt: skip
