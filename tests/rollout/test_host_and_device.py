"""The two collectors make the same batch, and a world that breaks leaves nothing in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from tests.rollout.random_ends import (
    ALL,
    BOUNDS,
    HORIZON,
    RANDOM_END,
    SEEDS,
    SIGMA,
    STEPS,
    W,
    around_mu,
    first_number,
    gains,
    linear_mu,
    random_step,
    rows,
)
from tests.rollout.worlds import LoneWorlds, opener

from penfac.core.noise import Exploration
from penfac.envs.adapter import JaxEnvAdapter
from penfac.envs.base import Outcome
from penfac.envs.builtin import BUILT_IN
from penfac.policy import ActionScale
from penfac.randomness import Stream
from penfac.rollout.device import (
    collect_episodes,
    collect_steps,
    play_episodes,
    start_worlds,
)
from penfac.rollout.device_step import Noise, stream_keys, to_units

# --- host and device agree ---------------------------------------------------------------


def from_state(env_id: str, state) -> JaxEnvAdapter:
    """The Gymnasium adapter of a built-in environment, every reset at this state."""

    class Placed(JaxEnvAdapter):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._state = state
            return np.asarray(self._observe(state)), {}

    return Placed(env_id)


@pytest.mark.parametrize(
    ("env_id", "limit"),
    [
        ("penfac/Pendulum-v0", 40),
        ("penfac/MountainCarContinuous-v0", 200),
        ("penfac/LQR-v0", 50),
    ],
)
def test_host_and_device_collect_the_same_transitions(env_id, limit):
    """The device's actions, played again from the same states by the host collector
    through the Gymnasium adapter, give the same record to 1e-5: observations, rewards,
    ends and their order, with the padding gone. The car reaches its goal on the way."""
    env = BUILT_IN[env_id]
    env = env._replace(spec=env.spec._replace(horizon=limit))
    seeds, first, count = jnp.array([7], jnp.uint32), first_number(2), 4

    def mu(obs):  # drives the car up the hill, swings the others
        return jnp.where(obs[..., -1:] < 0, -0.9, 0.9)

    batch, _ = jax.device_get(
        jax.jit(
            lambda: collect_episodes(
                env, mu, around_mu([0.1]), seeds, first, jnp.ones(1, bool), count
            )
        )()
    )
    number = first[:, None] + jnp.arange(count)
    states = jax.vmap(env.reset)(stream_keys(seeds, Stream.TRAIN_RESET, number)[0])
    actions = rows(batch, 0, count).action

    class Replay:
        """Answers with the device's action of this world and step."""

        def __init__(self):
            self.t = 0

        def __call__(self, obs, uniform, drift):
            now = actions[self.alive(), self.t]
            self.t += 1
            return now, drift

        def alive(self):
            return np.flatnonzero(rows(batch, 0, count).mask[:, self.t])

    make = opener(lambda w: TimeLimit(from_state(env_id, states[w]), limit))
    worlds = LoneWorlds(make, 0, count)
    host, *_ = worlds.collect_episodes(Replay(), 0, count, 1)
    real = batch.mask[0]
    assert len(host.reward) == real.sum()
    for name, here, there in zip(host._fields, host, batch, strict=True):
        np.testing.assert_allclose(
            here, there[0][real], rtol=1e-5, atol=1e-5, err_msg=name
        )
    if "Car" in env_id:
        assert host.terminated.sum() == count
    else:
        assert host.truncated.sum() == count


def test_both_collectors_scale_actions_alike():
    """[-1, 1] onto the box, asymmetric or not, ends exact, values beyond clipped."""
    a = np.linspace(-1.5, 1.5, 301, dtype=np.float32)[:, None].repeat(2, 1)
    low, high = BOUNDS
    device = np.asarray(to_units(RANDOM_END, jnp.asarray(a)))
    host = ActionScale(low, high, (2,)).to_env(a)
    np.testing.assert_allclose(device, host, rtol=1e-6, atol=1e-6)
    inside = np.clip(a, -1, 1).astype(np.float64)
    np.testing.assert_allclose(
        host, (low + high) / 2 + inside * (high - low) / 2, atol=1e-6
    )
    for scaled in (device, host):
        np.testing.assert_array_equal(
            scaled[a[:, 0] <= -1], np.broadcast_to(low, (51, 2))
        )
        np.testing.assert_array_equal(
            scaled[a[:, 0] >= 1], np.broadcast_to(high, (51, 2))
        )


def test_without_clipping_both_scale_all_that_is_sampled():
    """D32: the same line beyond the box, and the collectors play it."""
    a = np.linspace(-3, 3, 61, dtype=np.float32)[:, None].repeat(2, 1)
    low, high = BOUNDS
    line = (low + high) / 2 + a * (high - low) / 2
    device = to_units(RANDOM_END, jnp.asarray(a), clip=False)
    host = ActionScale(low, high, (2,)).to_env(a, clip=False)
    np.testing.assert_allclose(device, line, atol=1e-5)
    np.testing.assert_allclose(host, line, atol=1e-5)
    wide = Noise(Exploration("gaussian", clip=False), 3 * SIGMA, jnp.zeros(3, bool))
    worlds = start_worlds(RANDOM_END, SEEDS, W)
    given = (RANDOM_END, linear_mu(gains()), wide, SEEDS)
    for batch in (
        collect_steps(*given, worlds, STEPS)[1],
        collect_episodes(*given, first_number(0, 7, 9), ALL, 4)[0],
    ):
        real = np.asarray(batch.mask)
        action, moved = batch.action[real], (batch.next_obs - batch.obs)[real]
        assert np.abs(action).max() > 1.5
        np.testing.assert_allclose(
            moved[:, :2], (low + high) / 2 + action * (high - low) / 2, atol=1e-4
        )


# --- worlds that break -------------------------------------------------------------------


def _fragile_step(state, action, key):
    """As the walk, but a world of a large start blows up at its third step."""
    outcome = random_step(state, action, key)
    broken = (state[2] == 2) & (state[3] > 0.5)
    new = jnp.append(outcome.state, state[3])
    return Outcome(
        jnp.where(broken, jnp.nan, new),
        jnp.where(broken, jnp.nan, outcome.reward),
        jnp.bool_(False),
        broken,
    )


FRAGILE = RANDOM_END._replace(
    reset=lambda key: jnp.append(jnp.zeros(3), jax.random.uniform(key)),
    observe=lambda state: state[:3],
    step=_fragile_step,
)


@pytest.mark.parametrize("whole", [True, False])
def test_a_world_that_breaks_leaves_no_data_behind(whole):
    """Its last step is masked, the step before it is cut, its episode is not counted;
    nothing non-finite is anywhere, and the other worlds are whole."""
    if whole:
        batch, finished = collect_episodes(
            FRAGILE, linear_mu(gains()), around_mu(SIGMA), SEEDS, first_number(0, 7, 9),
            ALL, 40,
        )  # fmt: skip
        count = 40
    else:
        worlds, count = start_worlds(FRAGILE, SEEDS, 12), 12
        _, batch, finished = collect_steps(
            FRAGILE, linear_mu(gains()), around_mu(SIGMA), SEEDS, worlds, 16
        )
    broken = np.asarray(finished.broken)
    assert broken.any()
    assert not (broken & np.asarray(finished.ended)).any()
    for learner in range(3):
        b = rows(batch, learner, count)
        for name, values in zip(b._fields, b, strict=True):
            assert np.isfinite(values).all(), name
        here = broken[learner]
        assert not b.mask[here].any()
        w, t = np.nonzero(here)
        assert (b.obs[w, t - 1, 2] == 1).all()  # the world's second step
        assert b.last[w, t - 1].all()
        assert not (b.terminated[w, t - 1] | b.truncated[w, t - 1]).any()
        if whole:
            assert b.mask[w].sum(1).tolist() == [2] * len(w)
            unhurt = np.setdiff1d(np.arange(count), w)
            assert (b.mask[unhurt].sum(1) == HORIZON).all()


def test_an_evaluation_with_a_broken_world_is_not_a_number():
    act = lambda obs, keys, t: jnp.zeros((*obs.shape[:2], 2))  # noqa: E731
    returns, *_ = play_episodes(
        FRAGILE, act, SEEDS, Stream.EVAL_RESET, first_number(0, 0, 0), ALL, 20
    )
    lost = np.isnan(np.asarray(returns))
    assert lost.any()
    assert not lost.all()
