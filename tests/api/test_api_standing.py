"""A model inside a callback is the learner as it stands; callbacks that are ready."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from tests.faults.commands import same_end
from tests.small_models import JUDGED, learned, limited_rail, own_folder, small

import penfac
from penfac.errors import ConfigError

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
STATE = np.float32([0.5, -0.5, 1.0])


def test_the_model_acts_counts_and_saves_as_it_stands():
    model, seen = small(), []

    def looks(event):
        seen.append((model.num_timesteps, float(model.predict(STATE)[0][0])))
        assert event.model is model
        assert model.num_timesteps == event.step
        assert model.policy.about["step"] == event.step
        if event.kind == "update" and event.step == 50:
            model.save("half")

    model.learn(100, looks, **JUDGED)
    assert [step for step, _ in seen] == [0, 50, 50, 100, 100]
    acted = dict(seen)
    assert len(set(acted.values())) == 3
    half = penfac.load("half")
    assert half.num_timesteps == 50
    assert half.predict(STATE)[0] == np.float32(acted[50])
    assert model.predict(STATE)[0] == np.float32(acted[100])
    same_end(half.learn().run, model.run)  # what was saved goes on with the same bits
    same_end(model.run, learned(steps=100).run)  # and looking changed nothing


def test_the_model_is_evaluated_as_it_stands():
    model, found = small(), {}

    def judges(event):
        if event.kind == "update":
            found[event.step] = model.evaluate(2)["returns"]

    model.learn(100, judges, **JUDGED)
    assert found[100] == model.evaluate(2)["returns"]
    assert found[50] == learned(steps=50).evaluate(2)["returns"]


def test_a_callback_cannot_learn():
    model = small()
    with pytest.raises(ConfigError, match="learn: this model is learning"):
        model.learn(50, lambda event: model.learn(50), **JUDGED)


def test_several_callbacks_are_called_in_turn_and_one_stops_all():
    heard = []
    model = small()
    model.learn(
        100, [heard.append, lambda e: e.kind != "update", heard.append], **JUDGED
    )
    assert [event.kind for event in heard] == ["evaluation"] * 2 + ["update"] * 2
    assert model.num_timesteps == 50


def test_checkpoints_are_models():
    saves = penfac.CheckpointCallback(60, "kept", "mine")
    model = small().learn(200, saves, **JUDGED)
    names = sorted(path.name for path in Path("kept").iterdir())
    assert names == ["mine_100_steps", "mine_150_steps", "mine_200_steps"]
    half = penfac.load("kept/mine_100_steps")
    assert half.num_timesteps == 100
    same_end(half.learn().run, model.run)


def test_a_threshold_stops_the_run():
    stops = penfac.StopTrainingOnRewardThreshold(-1e9)
    assert small().learn(200, [stops], **JUDGED).num_timesteps == 0
    stops = penfac.StopTrainingOnRewardThreshold(0.0)
    assert small().learn(100, stops, **JUDGED).num_timesteps == 100


def test_evaluating_on_an_environment_of_its_own():
    """As EvalCallback of Stable-Baselines3: best_model, evaluations.npz, children."""
    heard = []
    judge = penfac.EvalCallback(
        limited_rail(0.3), n_eval_episodes=2, eval_freq=50, callback_after_eval=heard.append,
        log_path="logs", best_model_save_path="logs",
    )  # fmt: skip
    model = small(limited_rail).learn(150, judge, **JUDGED)
    log = np.load("logs/evaluations.npz")
    assert list(log["timesteps"]) == [50, 100, 150]
    assert log["results"].shape == log["ep_lengths"].shape == (3, 2)
    means = log["results"].mean(axis=1)
    assert [event.mean for event in heard] == pytest.approx(list(means))
    assert judge.best_mean_reward == pytest.approx(max(means))
    best = penfac.load("logs/best_model")
    assert best.num_timesteps == log["timesteps"][np.argmax(means)]
    again = best.evaluate(2, env=lambda: limited_rail(0.3))
    assert again["mean"] == pytest.approx(max(means))
    assert fmean(model.evaluate(2)["returns"]) != means[-1]  # on the own environment


def test_a_child_of_the_evaluation_stops_the_run():
    stops = penfac.StopTrainingOnRewardThreshold(-1e9)
    judge = penfac.EvalCallback(limited_rail, stops, eval_freq=100, n_eval_episodes=1)
    assert small(limited_rail).learn(300, judge, **JUDGED).num_timesteps == 100
