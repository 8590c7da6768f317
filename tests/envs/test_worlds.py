"""Many worlds at once: whatever they are made of, they give what one world gives."""

import gymnasium
import numpy as np
import pytest

import penfac.envs  # noqa: F401  registers the ids
from penfac.envs.options import EnvOptions
from penfac.envs.worlds import GymWorlds, RoboschoolWorlds, open_worlds
from penfac.errors import ConfigError

HOPPER = "RoboschoolHopper-v2"


@pytest.mark.parametrize("env_id", [HOPPER, "Pendulum-v1", "HalfCheetah-v5"])
def test_a_world_among_others_is_the_environment_itself(env_id):
    """Same seed, same actions: the observations, rewards and ends of gymnasium.make,
    in any order of rows and with any neighbours."""
    worlds = open_worlds(env_id, EnvOptions(), 3)
    env, rng = gymnasium.make(env_id), np.random.default_rng(0)
    obs, _ = env.reset(seed=5)
    seen = [worlds.reset(w, seed) for w, seed in ((0, 1), (2, 5), (1, 9))]
    np.testing.assert_array_equal(seen[1], obs.astype(np.float32))
    over = False
    while not over:
        rows = rng.permutation(3) if rng.random() < 0.5 else np.array([2])
        actions = rng.uniform(-1, 1, (len(rows), *env.action_space.shape))
        actions = actions.astype(np.float32)
        mine = int(np.flatnonzero(rows == 2)[0])
        got = worlds.step(rows, actions)
        obs, reward, terminated, truncated, info = env.step(actions[mine])
        np.testing.assert_array_equal(got.obs[mine], obs.astype(np.float32))
        assert got.reward[mine] == reward
        assert (got.terminated[mine], got.truncated[mine]) == (terminated, truncated)
        for name, term in got.terms.items():
            assert term[mine] == info[name]
        over = terminated or truncated
    worlds.close()


def test_the_threaded_engine_plays_the_roboschool_tasks():
    """... unless an argument asks for what only the environment itself has."""
    assert isinstance(open_worlds(HOPPER, EnvOptions(), 2), RoboschoolWorlds)
    bullet = open_worlds(HOPPER, EnvOptions(kwargs={"rules": "bullet"}), 2)
    assert isinstance(bullet, RoboschoolWorlds)
    assert not bullet.task.rules.joint_in_velocity
    drawn = EnvOptions(kwargs={"width": 64})
    assert isinstance(open_worlds(HOPPER, drawn, 1), GymWorlds)
    with pytest.raises(ConfigError, match="rules = v9: must be roboschool or bullet"):
        open_worlds(HOPPER, EnvOptions(kwargs={"rules": "v9"}), 1)


@pytest.mark.parametrize("limit", [3, None])
def test_a_time_limit_truncates(limit):
    """The task's own, or the user's; a robot that stands does not terminate."""
    env_id = "RoboschoolInvertedPendulumSwingup-v2"
    worlds = open_worlds(env_id, EnvOptions(max_episode_steps=limit), 2)
    assert worlds.spec().horizon == (limit or 1000)
    worlds.reset(0, 0)
    for t in range(worlds.spec().horizon):
        got = worlds.step(np.array([0]), np.zeros((1, 1), np.float32))
        assert got.truncated[0] == (t + 1 == worlds.spec().horizon)
        assert not got.terminated[0]


def test_a_world_that_blows_up_is_named_and_the_others_go_on():
    worlds = open_worlds(HOPPER, EnvOptions(), 4)
    assert isinstance(worlds, RoboschoolWorlds)
    for w in range(4):
        worlds.reset(w, w)
    worlds.worlds.physics[2, -1] = 1e12
    got = worlds.step(np.arange(4), np.zeros((4, 3), np.float32))
    assert list(got.faults) == [2]
    assert "became non-finite" in str(got.faults[2])
    worlds.replace(2)
    worlds.reset(2, 7)
    again = worlds.step(np.arange(4), np.zeros((4, 3), np.float32))
    assert not again.faults
    assert np.isfinite(again.obs).all()


def test_more_worlds_when_more_are_needed():
    for env_id in (HOPPER, "Pendulum-v1"):
        worlds = open_worlds(env_id, EnvOptions(), 1)
        worlds.grow(3)
        assert worlds.count == 3
        worlds.grow(2)
        assert worlds.count == 3
        worlds.reset(2, 0)
