"""A model that was loaded with an environment: it is used, or refused."""

import gymnasium
import numpy as np
import pytest
from tests.small_models import JUDGED, Rail, learned, limited_rail, own_folder, small

import penfac
from penfac.errors import ConfigError

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")


def pendulum(gravity: float, limit: int = 25) -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1", g=gravity, max_episode_steps=limit)


def test_the_given_environment_is_the_one_that_is_played():
    model = learned(pendulum(10.0))
    model.save("m")
    found = [
        penfac.load("m", env=pendulum(g)).evaluate(2)["returns"] for g in (10.0, 2.0)
    ]
    assert found[0] == model.evaluate(2)["returns"]
    assert found[1] != found[0]
    assert model.evaluate(2, env=pendulum(2.0))["returns"] == found[1]
    assert penfac.load("m").evaluate(2)["returns"] == found[0]


def test_its_time_limit_and_its_wrappers_count():
    model = learned(pendulum(10.0))
    assert model.evaluate(1, env=pendulum(10.0, 40))["lengths"] == [40]

    class Halved(gymnasium.RewardWrapper):
        def reward(self, reward):
            return reward / 2

    halved = penfac.load(model.run, env=Halved(pendulum(10.0))).evaluate(2)
    assert halved["mean"] == pytest.approx(model.evaluate(2)["mean"] / 2)


def test_a_run_goes_on_in_its_own_environment_only():
    model = learned(pendulum(10.0))
    same = penfac.load(model.run, env=pendulum(10.0)).learn(50)
    assert same.num_timesteps == 100
    other = penfac.load(model.run, env=pendulum(2.0))
    with pytest.raises(ConfigError, match=r"own environment \(kwargs: \{.*make a new"):
        other.learn(50)


def test_other_spaces_are_refused():
    model = learned()
    with pytest.raises(
        ConfigError, match=r"3 inputs and 1 actions from .* environment 2"
    ):
        penfac.load(model.run, env=limited_rail)
    scaled = gymnasium.wrappers.RescaleAction(
        pendulum(10.0), np.float32(-1), np.float32(1)
    )
    with pytest.raises(
        ConfigError, match=r"\[-1.0\] to \[1.0\]; pass one with the same"
    ):
        model.evaluate(1, env=scaled)


def test_evaluating_elsewhere_leaves_the_own_environment_alone():
    """Both have the same class, so both could have had the same id."""
    model = learned(limited_rail)
    before = model.evaluate(2)["returns"]
    assert model.evaluate(2, env=lambda: limited_rail(0.9))["returns"] != before
    assert model.evaluate(2)["returns"] == before


def test_a_model_knows_its_spaces_and_makes_its_environment():
    model = small(Rail, max_episode_steps=25)
    assert model.observation_space == Rail.observation_space
    assert model.action_space == Rail.action_space
    env = model.get_env()
    obs, _ = env.reset(seed=0)
    assert model.action_space.contains(model.predict(obs)[0])
    loaded = penfac.load(model.learn(50, **JUDGED).run)
    assert loaded.observation_space == Rail.observation_space


def test_every_call_of_learn_learns():
    model = small().learn(10, **JUDGED)
    assert model.num_timesteps == 50  # an update has 50 steps
    assert model.learn(10).num_timesteps == 100
    assert model.learn(50).num_timesteps == 150
