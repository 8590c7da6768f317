"""A run that begins with the weights of another one."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tests.faults.commands import command, newest_checkpoint, same_end
from tests.full_batch import options
from tests.small_models import JUDGED, SMALL, learned, own_folder, small, train

import penfac
from penfac.errors import ConfigError

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
STATES = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def heavy() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1", g=14.0, max_episode_steps=25)


def test_it_acts_as_the_other_and_learns_on_in_another_environment():
    other = learned(seed=3)
    model = small(heavy())
    assert not np.array_equal(model.predict(STATES)[0], other.predict(STATES)[0])
    model.set_parameters(other)
    np.testing.assert_array_equal(model.predict(STATES)[0], other.predict(STATES)[0])
    begun = []
    keeps = lambda e: begun.append(model.predict(STATES)[0]) and None  # noqa: E731
    model.learn(50, keeps, **JUDGED)
    assert model.num_timesteps == 50  # counted anew
    np.testing.assert_array_equal(begun[0], other.predict(STATES)[0])
    assert not np.array_equal(begun[-1], begun[0])
    assert other.num_timesteps == 50  # the other run is left as it was
    document = json.loads((model.run / "config.json").read_text())
    assert document["start_from"] == str(Path(other.run).resolve())


def test_the_command_does_the_same_and_goes_on_without_the_other():
    other = train("--steps=50", "--seeds=2")
    done = train_from(other, "one", "--seeds=2", "--steps=50")
    model = small(seed=1)
    model.set_parameters(other / "seed-1")
    model.learn(50, **JUDGED)
    same_end(done / "seed-1", model.run)
    other.rename("gone")  # what was taken from it is in the checkpoints
    assert command("resume", done, "-n", 100).code == 0
    same_end(done / "seed-1", model.learn(50).run)


def train_from(other: Path, name: str, *more: str) -> Path:
    words = options(SMALL)
    done = command(
        "train", "--env=Pendulum-v1", "--max-episode-steps=25", "--eval-every=50",
        "--eval-episodes=1", f"--name={name}", f"--from={other}", *words, *more,
    )  # fmt: skip
    assert done.code == 0, done.err
    return Path("runs/penfac") / name


def test_a_kill_before_the_first_update_loses_nothing():
    other = learned(seed=3)
    model = small()
    model.set_parameters(other)
    model.learn(100, lambda event: False, **JUDGED)  # at the first evaluation
    assert newest_checkpoint(model.run).name == "update-000000-evaluated"
    whole = small(name="whole")
    whole.set_parameters(other.run)
    same_end(model.learn().run, whole.learn(100, **JUDGED).run)


def test_what_does_not_fit_is_refused_and_leaves_no_folder():
    other = learned()
    before = sorted(Path("runs").rglob("*"))
    wide, fresh = small(actor_hidden=(5,)), small()
    with pytest.raises(
        ConfigError, match=r"set_parameters .*must be float32.*\(3, 5\)"
    ):
        wide.set_parameters(other)
    with pytest.raises(ConfigError, match="must be the same"):
        penfac.PPO("Pendulum-v1").set_parameters(other)
    with pytest.raises(ConfigError, match="that model has not learned yet"):
        fresh.set_parameters(small())
    with pytest.raises(ConfigError, match="nowhere: no such run folder"):
        fresh.set_parameters("nowhere")
    with pytest.raises(ConfigError, match="has learned already; make a new one"):
        other.set_parameters(other)
    assert sorted(Path("runs").rglob("*")) == before
    done = command("train", "--env=Pendulum-v1", f"--from={other.run}", "-n", 50)
    assert done.code == 2
    assert "--from" in done.line
    assert sorted(Path("runs").rglob("*")) == before
