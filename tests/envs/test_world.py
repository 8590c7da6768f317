"""A Gymnasium environment held to its contract, where no command line is needed."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from penfac.envs.gym import (
    EnvOptions,
    GymWorld,
    Watch,
    check_id,
    open_world,
    time_step,
)
from penfac.errors import ConfigError, EnvironmentFault
from penfac.policy import ActionScale

finite = st.floats(-1e6, 1e6, width=32)


class Picture(gymnasium.Env):
    """A picture of bytes in, a matrix of actions out; remembers what it got."""

    observation_space = spaces.Box(0, 255, (2, 3), np.uint8)
    action_space = spaces.Box(-2, 1, (2, 2), np.float64)

    def __init__(self, start: int = 0):
        self.start, self.got = start, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.arange(6, dtype=np.uint8).reshape(2, 3) + self.start, {}

    def step(self, action):
        self.got.append(action)
        return np.full((2, 3), 7, np.uint8), np.float32(0.5), np.bool_(False), False, {}


class Broken(Picture):
    def step(self, action):
        raise RuntimeError("broken")


def world(env, **options) -> GymWorld:
    return GymWorld("tests/Picture-v0", env, EnvOptions(**options), Watch())


def test_observations_come_flat_in_float32_in_the_order_of_memory():
    w = world(Picture())
    obs = w.reset(0)
    assert (obs.dtype, obs.shape, w.obs_dim) == (np.float32, (6,), 6)
    np.testing.assert_array_equal(obs, np.arange(6))


class Reusing(gymnasium.Env):
    """Hands out one array and writes into it."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.buffer = np.zeros(2, np.float32)
        return self.buffer, {}

    def step(self, action):
        self.buffer += 1
        return self.buffer, 0.0, False, False, {}


def test_the_first_observation_is_a_copy():
    """It does not change when the environment goes on (what steps give is copied by the
    collector, see tests/rollout)."""
    w = world(Reusing())
    first = w.reset(0)
    w.step(np.zeros(1, np.float32))
    assert first.tolist() == [0, 0]


def test_actions_leave_in_the_shape_and_type_of_the_space():
    w = world(Picture())
    w.reset(0)
    unit = np.array([[-1, 0, 1, 0.5]], np.float32)
    (action,) = w.actions.to_env(unit)
    obs, reward, terminated, truncated, _ = w.step(action)
    (got,) = w.env.got
    assert (got.shape, got.dtype) == ((2, 2), np.float64)
    np.testing.assert_allclose(got, [[-2, -0.5], [1, 0.25]])
    assert w.env.action_space.contains(got)
    assert type(reward) is float
    assert reward == 0.5
    assert terminated is truncated is False
    np.testing.assert_array_equal(obs, np.full(6, 7))


@given(st.tuples(finite, finite).filter(lambda b: b[0] < b[1]), st.floats(-2, 2))
def test_no_action_leaves_the_box(bounds, unit):
    """For any bounds the ends are reached exactly and never passed."""
    low, high = (np.array([b], np.float32) for b in bounds)
    scale = ActionScale(low, high, (1,))
    for u, end in ((-1.0, low), (1.0, high)):
        assert scale.to_env(np.array([u])).tobytes() == end.tobytes()
    inside = scale.to_env(np.array([unit]))
    assert low <= inside <= high


def test_own_bounds_narrow_and_never_widen():
    w = world(Picture(), action_bounds=(-1.0, 3.0))
    np.testing.assert_array_equal(w.actions.low, np.full(4, -1.0))
    np.testing.assert_array_equal(w.actions.high, np.full(4, 1.0))


def test_the_watch_rests_when_the_environment_is_left():
    """Whatever happens inside, the watchdog does not see it as still entered."""
    w = world(Broken())
    w.reset(0)
    with pytest.raises(EnvironmentFault, match="step raised RuntimeError: broken"):
        w.step(np.zeros((2, 2)))
    assert w.watch.entered is None


def test_options_reach_gymnasium():
    """A time limit of one's own replaces the registered one, arguments are passed on."""
    w = open_world("Pendulum-v1", EnvOptions(max_episode_steps=17, kwargs={"g": 3.0}))
    assert w.spec().horizon == 17
    assert w.env.unwrapped.g == 3.0
    w.reset(0)
    ends = [w.step(np.zeros(1, np.float32))[2:4] for _ in range(17)]
    assert ends == [(False, False)] * 16 + [(False, True)]
    w.close()


def test_what_learning_may_know():
    spec = open_world("Pendulum-v1", EnvOptions()).spec()
    assert (spec.id, spec.obs_dim, spec.action_dim, spec.horizon) == (
        "Pendulum-v1",
        3,
        1,
        200,
    )
    assert (spec.action_low, spec.action_high) == (-2, 2)


@pytest.mark.parametrize(
    ("env_id", "seconds"),
    [
        ("Hopper-v5", 0.008),
        ("HalfCheetah-v5", 0.05),
        ("MountainCarContinuous-v0", None),
    ],
)
def test_the_time_step_is_what_the_environment_says(env_id, seconds):
    opened = open_world(env_id, EnvOptions())
    assert opened.spec().time_step == pytest.approx(seconds)
    opened.close()


@pytest.mark.parametrize("dt", ["fast", 0.0, -1.0, np.nan, np.inf, None])
def test_a_time_step_that_is_none_is_not_known(dt):
    env = Picture()
    env.dt = dt
    assert time_step(env) is None


def test_a_reset_seed_repeats_an_episode():
    w = open_world("Pendulum-v1", EnvOptions())
    first, other, again = w.reset(1), w.reset(2), w.reset(1)
    assert first.tobytes() == again.tobytes() != other.tobytes()


@pytest.mark.parametrize("env_id", ["penfac/LQR-v0", "penfac.envs:penfac/LQR-v0"])
def test_known_ids_pass(env_id):
    check_id(env_id)


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("Pendulun-v1", "nearest: Pendulum-v1"),
        ("penfac/LQR-v7", "no such environment"),
        ("no_such_module:Some-v0", "cannot import no_such_module"),
        ("not a module:Some-v0", "is not the name of a module"),
    ],
)
def test_unknown_ids_are_refused_with_a_hint(env_id, said):
    with pytest.raises(ConfigError, match=said):
        check_id(env_id)
