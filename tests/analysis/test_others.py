"""Controllers of other programs beside ours."""

import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tests.faults.commands import command
from tests.small_models import Dictionary, learned, own_folder, small, train

from penfac.errors import ConfigError, EnvironmentFault

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
MODULE = """
import numpy as np

class Still:
    def predict(self, obs):
        return np.zeros(1, np.float32)

class Copy:
    def __init__(self, path="runs/penfac/command"):
        from penfac import Policy
        self.policy = Policy.load(path)
    def predict(self, obs, deterministic=True):
        return self.policy.predict(obs, deterministic=deterministic)

still = Still()
nothing = 3
"""


class Still:
    """Does nothing, which anybody may compare with."""

    def __init__(self, action=0.0):
        self.action = np.full(1, action, np.float32)

    def predict(self, obs):
        return self.action


def compared(*argv: object) -> dict:
    done = command("eval", *argv, "--compare", "--episodes=60", "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", ".")])
    (tmp_path / "agents_of_others.py").write_text(MODULE)
    yield "agents_of_others"
    sys.modules.pop("agents_of_others", None)


def test_the_same_policy_from_outside_has_the_same_returns(module):
    """On the same initial states, more than are played at once."""
    run = train("--steps=50")
    report = compared(run, f"{module}:Copy")
    ours, theirs = (judged["seeds"][0]["returns"] for judged in report["runs"])
    assert theirs == pytest.approx(ours, rel=1e-6)
    assert report["unit"] == "episode"
    assert report["runs"][1]["run"] == f"{module}:Copy"
    turned = compared(f"{module}:still", run)
    assert turned["runs"][1]["seeds"][0]["returns"] == ours
    assert turned["difference"] != 0
    shown = command("eval", run, f"{module}:still", "--compare", "--episodes=2").out
    assert f"{run} minus {module}:still:" in shown


def test_a_model_is_compared_with_any_object():
    model = learned()
    found = model.compare(Still(), 60)
    assert found["low"] <= found["difference"] <= found["high"]
    means = found["ours"]["mean"] - found["theirs"]["mean"]
    assert found["difference"] == pytest.approx(means)
    assert model.compare(model, 2)["difference"] == 0
    with pytest.raises(ConfigError, match="other is a int: has no predict"):
        model.compare(3)
    with pytest.raises(EnvironmentFault, match="which is not in the action space"):
        model.compare(Still(action=9.0), 2)


def test_it_sees_observations_as_its_environment_gives_them():
    class Reads(Still):
        def predict(self, obs):
            assert obs["all"].shape == (2,)
            return self.action

    model = small(Dictionary, max_episode_steps=25, flatten_obs=True)
    model.learn(50, eval_every=50, eval_episodes=1)
    assert model.compare(Reads(), 2)["theirs"]["lengths"] == [25, 25]


def test_what_cannot_be_compared_is_told_in_one_line(module):
    run = train("--steps=50")
    Path("model.zip").write_bytes(b"no zip")
    wrong = {
        "nowhere_at_all:agent": "nowhere_at_all",
        f"{module}:missing": "missing",
        f"{module}:nothing": "is a int, which has no predict",
        "sb3:PPO:none.zip": "no file none.zip; write sb3:PPO:model.zip",
        "sb3:PPO:model.zip": "if you trust it, add --trust",
    }
    for word, line in wrong.items():
        done = command("eval", run, word, "--compare", "--episodes=2")
        assert done.code == 2, word
        assert line in done.line, word
    two = command("eval", f"{module}:still", f"{module}:still", "--compare")
    assert "needs a run of penfac" in two.line


@pytest.mark.slow
def test_a_model_of_stable_baselines3():
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("Pendulum-v1", max_episode_steps=25)
    theirs = sb3.PPO("MlpPolicy", env, n_steps=32, batch_size=32).learn(32)
    theirs.save("model.zip")
    run = train("--steps=50")
    report = compared(run, "sb3:PPO:model.zip", "--trust")
    assert len(report["runs"][1]["seeds"][0]["returns"]) == 60
    found = learned().compare(theirs, 60)["theirs"]["returns"]
    assert found == report["runs"][1]["seeds"][0]["returns"]
