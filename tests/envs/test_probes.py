"""Five environments whose values are known: every state, every ending."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.envs.builtin import BUILT_IN
from penfac.envs.probes import BEST_ACTION, BEST_SLOPE

KEY = jax.random.key(0)


def probe(name: str):
    return BUILT_IN[f"penfac/Probe{name}-v0"]


def starts(env, n: int = 200) -> np.ndarray:
    states = jax.vmap(env.reset)(jax.random.split(KEY, n))
    return np.asarray(jax.vmap(env.observe)(states))


def value(env, act, gamma: float, state) -> float:
    """The discounted return of a policy, by playing it out."""
    total, factor, terminated = 0.0, 1.0, False
    for _ in range(env.spec.horizon):
        outcome = env.step(state, jnp.atleast_1d(act(env.observe(state))), KEY)
        total, factor = total + factor * float(outcome.reward), factor * gamma
        state, terminated = outcome.state, bool(outcome.terminated)
        if terminated:
            break
    assert terminated, "a probe ends by itself: nothing depends on the time limit"
    return total


def test_constant_pays_one_whatever_is_done():
    env = probe("Constant")
    assert set(starts(env).ravel()) == {0.0}
    for a in (-1.0, 0.0, 0.7):
        assert value(env, lambda s, a=a: a, 0.9, env.reset(KEY)) == 1


def test_observation_pays_what_it_shows():
    """+1 and -1 are equally likely, and V(s) = s."""
    env = probe("Observation")
    seen = starts(env, 2000).ravel()
    assert set(seen) == {-1.0, 1.0}
    assert abs(seen.mean()) < 4 / np.sqrt(2000)
    for s in (-1.0, 1.0):
        assert value(env, lambda s: 0.5, 0.9, jnp.array([s])) == s


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_delay_pays_one_step_later(gamma):
    """V(0) = gamma, V(1) = 1."""
    env = probe("Delay")
    assert set(starts(env).ravel()) == {0.0}
    assert value(env, lambda s: 0.0, gamma, jnp.zeros(1)) == gamma
    assert value(env, lambda s: 0.0, gamma, jnp.ones(1)) == 1


def test_action_has_one_best_action():
    """r = -(a - a*)^2: nothing is lost at a* and only there."""
    env = probe("Action")
    actions = np.linspace(-1, 1, 21)
    paid = [value(env, lambda s, a=a: a, 0.9, env.reset(KEY)) for a in actions]
    np.testing.assert_allclose(paid, -((actions - BEST_ACTION) ** 2), atol=1e-6)


def test_both_has_a_best_action_for_each_observation():
    """r = -(a - s / 2)^2."""
    env = probe("Both")
    assert set(starts(env).ravel()) == {-1.0, 1.0}
    for s in (-1.0, 1.0):
        for a in np.linspace(-1, 1, 9):
            paid = value(env, lambda _, a=a: a, 0.9, jnp.array([s]))
            np.testing.assert_allclose(paid, -((a - BEST_SLOPE * s) ** 2), atol=1e-6)
