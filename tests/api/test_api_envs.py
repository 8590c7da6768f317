"""Environments from Python, and every wrong thing in one line."""

import json
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tests.faults.commands import same_end
from tests.small_models import (
    JUDGED,
    Dictionary,
    Rail,
    learned,
    limited_rail,
    own_folder,
    small,
)

import penfac
from penfac.envs import own
from penfac.errors import ConfigError, EnvironmentFault, PenfacError, RunFolderBusy

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")


# --- environments ----------------------------------------------------------------------


def test_a_function_an_object_and_copies_of_it_play_the_same():
    by_function = learned(limited_rail)
    by_class = learned(Rail, max_episode_steps=25)
    by_copies = learned(limited_rail())
    ends = [
        np.concatenate([np.ravel(x) for pair in m.policy.weights.layers for x in pair])
        for m in (by_function, by_class, by_copies)
    ]
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
    assert by_function.evaluate(2)["returns"] == by_copies.evaluate(2)["returns"]
    assert [m.policy.about["environment"] for m in (by_function, by_class)] == [
        "penfac-own/limited-rail-v0",
        "penfac-own/Rail-v0",
    ]


def test_arguments_reach_a_function():
    model = small(limited_rail, env_kwargs={"force": 0.5}).learn(50, **JUDGED)
    document = json.loads((model.run / "config.json").read_text())
    assert document["env_options"]["kwargs"] == {"force": 0.5}


def test_an_object_made_by_gymnasium_is_its_id():
    """With its arguments and its time limit; how it is drawn does not matter."""
    env = gymnasium.make(
        "Pendulum-v1", max_episode_steps=25, g=9.81, render_mode="rgb_array"
    )
    document = json.loads((learned(env).run / "config.json").read_text())
    assert document["env"] == "Pendulum-v1"
    assert document["env_options"]["kwargs"] == {"g": 9.81}
    assert document["env_options"]["max_episode_steps"] == 25


def test_an_object_in_wrappers_is_made_again_from_its_spec():
    env = gymnasium.make("Pendulum-v1", max_episode_steps=25)
    env = gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    model = learned(env)
    assert model.policy.about["environment"] == "penfac-own/PendulumEnv-v0"
    np.testing.assert_array_equal(model.policy.actions.high, [1.0])


def test_two_of_one_name_do_not_meet():
    def made(force):
        return lambda: limited_rail(force)

    one, other = small(made(0.1)), small(made(0.9))
    assert "'penfac-own/lambda-v0'" in repr(one)
    assert "'penfac-own/lambda-2-v0'" in repr(other)


def test_a_model_of_an_own_environment_elsewhere(monkeypatch):
    """It predicts; to learn or to be judged it needs the environment once more, unless
    this process saved it."""
    learned(limited_rail, seed=1).save("kept")
    penfac.load("kept").evaluate(1)
    monkeypatch.setattr(own, "_SOURCES", {})  # as in a process of its own
    model = penfac.load("kept")
    model.predict(np.zeros(2))
    for verb in (lambda: model.learn(50), lambda: model.evaluate(2)):
        with pytest.raises(ConfigError, match="made by another program; pass"):
            verb()
    model = penfac.load("kept", env=limited_rail)
    model.evaluate(2)
    same_end(model.learn(50).run, learned(limited_rail, 50, seed=1).learn(50).run)


def test_a_fault_of_the_environment_is_raised_as_one():
    class Breaks(Rail):
        def step(self, action):
            raise RuntimeError("broken")

    model = small(Breaks, max_episode_steps=25)
    with pytest.raises(EnvironmentFault, match="step raised RuntimeError: broken"):
        model.learn(50, **JUDGED)


def test_a_dictionary_of_observations_can_be_predicted_from():
    model = small(Dictionary, max_episode_steps=25, flatten_obs=True)
    np.testing.assert_array_equal(
        model.predict({"all": np.float32([1, 2])})[0],
        model.predict(np.float32([1, 2]))[0],
    )


# --- wrong things ----------------------------------------------------------------------


def unlimited():
    return small(Rail)


WRONG = {
    "a setting": (lambda: small(actor_lrr=1), "actor_lrr: no such setting; did you mean"),
    "a value": (lambda: small(lam=2.0), "lam = 2.0: must be at least 0"),
    "an id": (lambda: penfac.PeNFAC("Pendlum-v1"), "no such environment; nearest: Pend"),
    "a preset": (lambda: small(preset="tunde"), "preset tunde: must be one of"),
    "a seed": (lambda: small(seed=-1), "seed -1: must be 0 to"),
    "no seed": (lambda: small(seed=None), "seed None: must be a whole number"),
    "a place": (lambda: small(on="gpu"), "on gpu: must be auto, cpu or device"),
    "a name": (lambda: small(name="a/b"), "name a/b: must be a plain folder name"),
    "no environment": (lambda: small(3), "env is a int: must be an id, a gymnasium.Env"),
    "a vector of another kind": (
        lambda: small(type("VecEnv", (), {"num_envs": 2})()),
        "VecEnv: holds several environments; pass",
    ),
    "a maker of none": (lambda: small(dict), "dict: returned a dict; must return a gymnasium.Env"),
    "no copies": (
        lambda: small(Rail(holds=threading.Lock())),
        "Rail: cannot be copied (cannot pickle '_thread.lock' object); pass a function",
    ),
    "no time limit": (unlimited, "set one with max_episode_steps=N"),
    "a dict": (
        lambda: small(Dictionary, max_episode_steps=5),
        "flatten_obs=True joins its parts",
    ),
    "discrete": (
        lambda: small("CartPole-v1"),
        "the action space is Discrete; it must be a Box of floats",
    ),
    "bounds": (lambda: small(action_bounds=3), "action_bounds 3: must be two numbers"),
    "arguments": (lambda: small(env_kwargs={"f": print}), "env_kwargs: Object of type"),
    "no steps": (lambda: small().learn(0), "total_timesteps 0: must be at least 1"),
    "half a step": (lambda: small().learn(0.5), "must be a whole number"),
    "first learn": (lambda: small().learn(), "the first call must say the number of steps"),
    "a new count": (
        lambda: small().learn(50, reset_num_timesteps=True),
        "reset_num_timesteps=True: a run cannot start again; make a new model",
    ),
    "a callback": (lambda: small().learn(50, 3), "callback is a int: must be a function"),
    "one of two callbacks": (lambda: small().learn(50, [print, 3]), "callback is a int: must"),
    "saving nothing": (lambda: small().save("x"), "save: the model has not learned yet"),
    "judging nothing": (lambda: small().evaluate(), "evaluate: the model has not learned yet"),
    "no run": (lambda: penfac.load("nowhere"), "nowhere: no such run folder"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told_in_one_line(wrong):
    do, message = WRONG[wrong]
    with pytest.raises(PenfacError) as error:
        do()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)
    assert not Path("runs").exists()


def test_what_does_not_fit_a_run_is_told_in_one_line():
    model = learned()
    with pytest.raises(ConfigError, match="eval_every 7: must stay 50"):
        model.learn(50, eval_every=7)
    with pytest.raises(
        ConfigError, match=r"was trained with penfac; load it with penfac\.load"
    ):
        penfac.TD3.load(model.run)
    with pytest.raises(ConfigError, match="was trained on Pendulum-v1, not on"):
        penfac.load(model.run, env=limited_rail)
    with pytest.raises(RunFolderBusy, match="choose another name, or continue it"):
        small(name=model.run.name).learn(50)
    assert penfac.load(model.run, env="Pendulum-v1").num_timesteps == 50
