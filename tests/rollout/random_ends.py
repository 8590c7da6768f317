"""Linear policies on an environment whose episodes end at random, on the device."""

import jax
import jax.numpy as jnp
import numpy as np

from penfac.core.noise import Exploration
from penfac.envs.base import JaxEnv, Outcome
from penfac.randomness import Stream
from penfac.rollout.device import (
    collect_episodes,
    collect_steps,
    play_episodes,
)
from penfac.rollout.device_step import Noise
from penfac.types import EnvSpec, Transitions

HORIZON = 8
BOUNDS = np.array([[-1.0, -3.0], [1.0, 5.0]], np.float32)  # the second asymmetric


def random_step(state, action, key):
    """A walk that may end at any step, and pays where it stands and what it does."""
    place = state[:2] + action
    ends = jax.random.bernoulli(key, 0.15)
    return Outcome(jnp.append(place, state[2] + 1), place[0] - action[1], ends)


RANDOM_END = JaxEnv(
    EnvSpec("tests/RandomEnd-v0", 3, *BOUNDS, HORIZON),
    reset=lambda key: jnp.append(jax.random.normal(key, (2,)), 0.0),
    observe=lambda state: state,  # (x, y, t)
    step=random_step,
    summary="",
)
SEEDS = jnp.array([3, 1, 4], jnp.uint32)
SIGMA = jnp.array([0.3, 0.3, 0.3])
ALL = jnp.ones(3, bool)  # active
EPISODES = 60  # whole ones
W, STEPS = 6, 9  # worlds that go on, and how far in a batch


def gains(seeds=SEEDS):
    """Each learner has a linear policy of its own; it belongs to its seed."""
    return 0.1 * jnp.asarray(seeds, jnp.float32)[:, None, None] * jnp.ones((1, 3, 2))


def linear_mu(gain):
    return lambda obs: jnp.tanh(jnp.einsum("lwn,lnm->lwm", obs, gain))


def around_mu(sigma) -> Noise:
    """Truncated noise of every learner, no uniform actions."""
    sigma = jnp.asarray(sigma)
    return Noise(Exploration("truncated"), sigma, jnp.zeros(len(sigma), bool))


@jax.jit
def episodes_of(gain, sigma, seeds, first, active=None):
    active = jnp.ones(len(seeds), bool) if active is None else active
    return collect_episodes(
        RANDOM_END, linear_mu(gain), around_mu(sigma), seeds, first, active, EPISODES
    )


@jax.jit
def steps_of(gain, sigma, seeds, worlds):
    return collect_steps(
        RANDOM_END, linear_mu(gain), around_mu(sigma), seeds, worlds, STEPS
    )


@jax.jit
def evaluation_of(gain, seeds, evaluation, active=None):
    active = jnp.ones(len(seeds), bool) if active is None else active

    def act(obs, keys, t):
        return linear_mu(gain)(obs)

    stream = Stream.EVAL_RESET
    return play_episodes(RANDOM_END, act, seeds, stream, evaluation, active, EPISODES)


def first_number(*numbers: int):
    return jnp.array(numbers, jnp.int32)


def rows(batch: Transitions, learner: int, count: int) -> Transitions:
    """[W, T, ...] of one learner."""
    return jax.tree.map(
        lambda x: np.asarray(x[learner]).reshape(count, -1, *x.shape[2:]), batch
    )


def bits(tree, learner: int) -> list[bytes]:
    return [np.asarray(x[learner]).tobytes() for x in jax.tree.leaves(tree)]
