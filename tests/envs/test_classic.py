"""Pendulum and mountain car against Gymnasium's own, step by step from the same states."""

import gymnasium
import jax
import numpy as np
import pytest

from penfac.envs.classic import MOUNTAIN_CAR, PENDULUM

PAIRS = {
    PENDULUM.spec.id: (PENDULUM, "Pendulum-v1"),
    MOUNTAIN_CAR.spec.id: (MOUNTAIN_CAR, "MountainCarContinuous-v0"),
}
KEY = jax.random.key(0)  # neither environment draws anything in a step


@pytest.fixture(scope="module")
def steppers():
    """Compiled (step, observe) of each."""
    return {k: (jax.jit(e.step), jax.jit(e.observe)) for k, (e, _) in PAIRS.items()}


def follow(steppers, env_id: str, act, seed: int, from_state=None):
    """Play Gymnasium's episode and ours along it: each step starts from Gymnasium's
    state. Yields (ours, theirs) as (obs, reward, terminated)."""
    ours, name = PAIRS[env_id]
    step, observe = steppers[env_id]
    env = gymnasium.make(name)
    obs, _ = env.reset(seed=seed)
    inner = env.unwrapped
    if from_state is not None:
        inner.state = np.asarray(from_state, np.float64)
    over, played = False, 0
    while not over:
        action = act(inner.state, played)
        state = np.asarray(inner.state, np.float32)
        outcome = step(state, action, KEY)
        obs, reward, terminated, truncated, _ = env.step(action)
        mine = (observe(outcome.state), outcome.reward, outcome.terminated)
        yield mine, (obs, reward, terminated)
        over, played = terminated or truncated, played + 1
    assert terminated or played == ours.spec.horizon


def agree(mine, theirs, places=1e-5) -> None:
    np.testing.assert_allclose(mine[0], theirs[0], rtol=places, atol=places)
    np.testing.assert_allclose(mine[1], theirs[1], rtol=places, atol=places)
    assert bool(mine[2]) == theirs[2]


@pytest.mark.parametrize("env_id", PAIRS)
@pytest.mark.parametrize("reach", [1.0, 3.0])
def test_random_episodes_agree_step_by_step(steppers, env_id, reach):
    """Whole episodes under random actions, inside the bounds and up to three times
    beyond them: observation, reward and end are Gymnasium's to float32."""
    ours, _ = PAIRS[env_id]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        high = reach * ours.spec.action_high

        def act(state, t, rng=rng, high=high):
            return rng.uniform(-high, high).astype(np.float32)

        steps = list(follow(steppers, env_id, act, seed))
        assert len(steps) == ours.spec.horizon
        for mine, theirs in steps:
            agree(mine, theirs)


def test_the_car_reaches_its_goal_as_gymnasium_s(steppers):
    """Pumped up the hill the car ends its episode with the reward of 100 there, and only
    there; on the way it meets the left wall."""
    seen = []
    for seed in range(3):
        steps = list(
            follow(
                steppers,
                MOUNTAIN_CAR.spec.id,
                lambda s, t: np.float32([-1 if s[1] < 0 else 1]),
                seed,
            )
        )
        for mine, theirs in steps:
            agree(mine, theirs)
        ends = [bool(mine[2]) for mine, _ in steps]
        assert ends == [False] * (len(steps) - 1) + [True]
        rewards = [float(mine[1]) for mine, _ in steps]
        np.testing.assert_allclose(rewards[-1], 100 - 0.1, rtol=1e-6)
        np.testing.assert_allclose(rewards[:-1], -0.1, rtol=1e-6)
        seen += [float(mine[0][0]) for mine, _ in steps]
    assert len(steps) < MOUNTAIN_CAR.spec.horizon
    assert min(seen) == np.float32(-1.2)


@pytest.mark.parametrize(
    ("state", "push"),
    [
        ([-1.19, -0.07], -1.0),  # into the wall: stops there
        ([-1.2, 0.0], 1.0),  # away from it
        ([0.44, 0.07], 1.0),  # over the goal
        ([0.44, 0.005], -1.0),  # just not
        ([0.6, 0.07], 1.0),  # at the right end
        ([0.46, -0.001], -1.0),  # past the goal but rolling back: no end
        ([0.0, 0.0699], 1.0),  # the speed limit
        ([0.0, -0.0699], -1.0),
    ],
)
def test_the_car_at_its_bounds(steppers, state, push):
    """One step from each corner of the state space."""
    act = lambda s, t: np.float32([push])  # noqa: E731
    mine, theirs = next(follow(steppers, MOUNTAIN_CAR.spec.id, act, 0, state))
    agree(mine, theirs, places=1e-6)
    space = gymnasium.make("MountainCarContinuous-v0").observation_space
    assert space.contains(np.asarray(mine[0]))


@pytest.mark.parametrize(
    ("state", "push"),
    [
        ([np.pi, 0.0], 0.0),  # hanging: the angle is +-pi, the cost pi^2
        ([-np.pi, 0.0], 0.0),
        ([0.0, 0.0], 2.0),
        ([1.0, 8.0], 2.0),  # the speed limit
        ([-1.0, -8.0], -2.0),
        ([7.5 * np.pi, 1.0], 1.0),  # wound up several turns
        ([-9.2 * np.pi, -1.0], 5.0),
    ],
)
def test_the_pendulum_at_its_bounds(steppers, state, push):
    """One step from angles beyond a turn and speeds at the limit."""
    act = lambda s, t: np.float32([push])  # noqa: E731
    mine, theirs = next(follow(steppers, PENDULUM.spec.id, act, 0, state))
    agree(mine, theirs, places=2e-5)
    assert abs(float(mine[0][2])) <= 8


@pytest.mark.parametrize("env_id", PAIRS)
def test_bounds_and_limits_are_gymnasium_s(env_id):
    """Action bounds, observation size and time limit are the originals'."""
    ours, name = PAIRS[env_id]
    env = gymnasium.make(name)
    np.testing.assert_array_equal(ours.spec.action_low, env.action_space.low)
    np.testing.assert_array_equal(ours.spec.action_high, env.action_space.high)
    assert (ours.spec.obs_dim,) == env.observation_space.shape
    assert ours.spec.horizon == env.spec.max_episode_steps


@pytest.mark.parametrize(
    ("env_id", "low", "high"),
    [
        (PENDULUM.spec.id, [-np.pi, -1], [np.pi, 1]),
        (MOUNTAIN_CAR.spec.id, [-0.6, 0], [-0.4, 0]),
    ],
)
def test_initial_states_are_uniform_on_gymnasium_s_ranges(env_id, low, high):
    """2000 resets stay inside, fill the range and have the mean and variance of the
    uniform law; Gymnasium's own resets stay inside the same range."""
    low, high = np.array(low), np.array(high)
    ours, name = PAIRS[env_id]
    states = np.asarray(jax.vmap(ours.reset)(jax.random.split(KEY, 2000)))
    env = gymnasium.make(name).unwrapped
    theirs = []
    for seed in range(200):
        env.reset(seed=seed)
        theirs.append(np.array(env.state))
    width = high - low
    for drawn in (states, np.array(theirs)):
        assert (drawn >= low - 1e-6).all()
        assert (drawn <= high + 1e-6).all()
        error = width / np.sqrt(12 * len(drawn))
        assert (np.abs(drawn.mean(0) - (low + high) / 2) <= 4 * error).all()
        np.testing.assert_allclose(drawn.std(0), width / np.sqrt(12), rtol=0.15)
    assert len(np.unique(states, axis=0)) == 2000
