"""A time limit is not an end: the critic learns which of the two it was told.

One state, reward 1 at every step, a time limit after T. Bootstrapping, every state is
worth 1 / (1 - gamma). Taking the limit for an end, n steps before it are worth
(1 - gamma^n) / (1 - gamma), and a critic that cannot tell time finds their mean.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.engines.jobs import finish, make_job, never
from tests.full_batch import FULL_BATCH
from tests.learning.loop import Learner, value_of
from tests.rollout.worlds import CONSTANT, CONSTANT_LIMIT

from penfac.engines.host import HostEngine
from penfac.envs.base import JaxEnv, Outcome
from penfac.types import EnvSpec

pytestmark = pytest.mark.slow

GAMMA, T, UPDATES = 0.9, CONSTANT_LIMIT, 100
INFINITE = 1 / (1 - GAMMA)
FINITE = np.mean([(1 - GAMMA**n) / (1 - GAMMA) for n in range(1, T + 1)])
SETTINGS = FULL_BATCH | {
    "gamma": GAMMA,
    "lam": 1.0,
    "actor_hidden": (16,),
    "critic_hidden": (16,),
    "actor_steps": 1,
    "critic_lr": 1e-2,
    "fitted_iterations": 5,
    "critic_steps": 5,
    "episodes_per_update": 8,
    "min_steps_per_update": 1,
}
DEVICE = JaxEnv(
    EnvSpec("tests/Constant-v0", 1, -np.ones(1), np.ones(1), T),
    reset=lambda key: jnp.zeros(1),
    observe=lambda state: state,
    step=lambda state, action, key: Outcome(state, jnp.ones(()), jnp.bool_(False)),
    summary="",
)
ZERO = np.zeros((1, 1), np.float32)


def on_host(compiled: dict, time_limit: str) -> float:
    steps = UPDATES * 8 * T
    job = make_job(CONSTANT, steps=steps, **(SETTINGS | {"time_limit": time_limit}))
    # a time limit is a number: the program is the same
    engine = HostEngine(job, [0], compiled)
    finish(engine, 1, never(steps))
    state = engine.learners[0].state
    return float(value_of(state, ZERO, engine.plan, engine.numbers)[0])


def on_device(compiled: dict, time_limit: str) -> float:
    one = Learner(DEVICE, "penfac", 0, **(SETTINGS | {"time_limit": time_limit}))
    return float(one.update(UPDATES).value(ZERO)[0])


@pytest.mark.parametrize("learn", [on_host, on_device])
def test_the_critic_learns_what_a_time_limit_means(learn):
    """bootstrap finds 1 / (1 - gamma), terminal the finite sums; both within 3 %, where
    they are a factor of more than two apart."""
    compiled: dict = {}
    assert INFINITE > 2 * FINITE
    assert learn(compiled, "bootstrap") == pytest.approx(INFINITE, rel=0.03)
    assert learn(compiled, "terminal") == pytest.approx(FINITE, rel=0.03)
