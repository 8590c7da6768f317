"""Both algorithms solve the five probes: each needs one part of learning more.

A run is a hundred updates of 64 steps; compiled, it takes about a tenth of a second.
"""

import numpy as np
import pytest
from tests.full_batch import FULL_BATCH
from tests.learning.loop import Learner
from tests.tiers import slow_except

from penfac.envs.builtin import BUILT_IN
from penfac.envs.probes import BEST_ACTION, BEST_SLOPE

GAMMA, SIGMA, STEPS, UPDATES = 0.9, 0.2, 64, 100
SETTINGS = FULL_BATCH | {
    "gamma": GAMMA,
    "lam": 0.9,
    "actor_hidden": (16,),
    "critic_hidden": (16,),
    "actor_lr": 3e-3,
    "actor_steps": 5,
    "critic_lr": 1e-2,
    "fitted_iterations": 5,
    "critic_steps": 5,
    "sigma": SIGMA,
    "min_steps_per_update": 1,
}
PLUS_MINUS = np.array([[-1.0], [1.0]])
each = pytest.mark.parametrize("algo", ["penfac", "nfac"])
seeds = pytest.mark.parametrize("seed", slow_except(range(3), 0))


def learner(probe: str, algo: str, seed: int) -> Learner:
    env = BUILT_IN[f"penfac/Probe{probe}-v0"]
    episodes = STEPS // env.spec.horizon  # every probe fills the same batch
    settings = SETTINGS | {"episodes_per_update": episodes}
    return Learner(env, algo, seed, **settings)


@each
@seeds
def test_constant(algo, seed):
    """The critic finds V = 1; it starts elsewhere."""
    one = learner("Constant", algo, seed)
    assert abs(one.value([[0.0]]) - 1) > 0.2
    np.testing.assert_allclose(one.update(UPDATES).value([[0.0]]), 1, atol=0.01)


@each
@seeds
def test_observation(algo, seed):
    """The critic sees its input: V(s) = s."""
    v = learner("Observation", algo, seed).update(UPDATES).value(PLUS_MINUS)
    np.testing.assert_allclose(v, [-1, 1], atol=0.02)


@each
@seeds
def test_delay(algo, seed):
    """The discount: V(0) = gamma, V(1) = 1."""
    v = learner("Delay", algo, seed).update(UPDATES).value([[0.0], [1.0]])
    np.testing.assert_allclose(v, [GAMMA, 1], atol=0.02)


@each
@seeds
def test_action(algo, seed):
    """The actor: mu = 0.3, and V is what the noise costs there, -sigma^2."""
    one = learner("Action", algo, seed)
    assert abs(one.mu([[0.0]])[0, 0] - BEST_ACTION) > 0.2
    one.update(UPDATES)
    np.testing.assert_allclose(one.mu([[0.0]]), [[BEST_ACTION]], atol=0.04)
    np.testing.assert_allclose(one.value([[0.0]]), -(SIGMA**2), atol=0.02)


@each
@seeds
def test_both(algo, seed):
    """Actor and critic together: mu(s) = s / 2, V(s) = -sigma^2 for both states."""
    one = learner("Both", algo, seed).update(UPDATES)
    np.testing.assert_allclose(one.mu(PLUS_MINUS), BEST_SLOPE * PLUS_MINUS, atol=0.06)
    np.testing.assert_allclose(one.value(PLUS_MINUS), -(SIGMA**2), atol=0.03)


def test_the_wrong_sign_would_be_seen():
    """Rewarded for the opposite, the same learner goes the other way: the thresholds
    above tell a solved probe from an unsolved one."""
    env = BUILT_IN["penfac/ProbeAction-v0"]

    def opposite(state, action, key):
        outcome = env.step(state, action, key)
        return outcome._replace(reward=-outcome.reward)

    bad = env._replace(step=opposite, spec=env.spec._replace(id="tests/Opposite-v0"))
    settings = SETTINGS | {"episodes_per_update": STEPS}
    one = Learner(bad, "penfac", 0, **settings)
    assert abs(one.update(UPDATES).mu([[0.0]])[0, 0] - BEST_ACTION) > 0.3
