"""The classes: the same bits as the commands, models that are kept, and all algorithms."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy.stats import kstest, norm
from tests.faults.commands import command, environment, same_end, status
from tests.small_models import (
    JUDGED,
    SMALL,
    Rail,
    learned,
    limited_rail,
    own_folder,
    small,
    train,
)
from tests.tiers import slow_except

import penfac
from penfac.api import KINDS
from penfac.errors import ConfigError, RunFolderBusy
from penfac.rollout.explorer import gaussian_of

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")

# the fewest steps an update of each algorithm can be made of
NETWORKS = {"actor_hidden": (4,), "critic_hidden": (4,)}
REPLAY = {
    "batch_size": 8, "replay": 1000, "learning_starts": 10, "random_steps": 10,
    "gradient_steps": 2,
}  # fmt: skip
SHORT = {
    "penfac": SMALL,
    "nfac": SMALL,
    "ddpg": NETWORKS | REPLAY,
    "td3": NETWORKS | REPLAY,
    "sac": NETWORKS | REPLAY,
    "offpenfac": SMALL | {"collect": "steps", "worlds": 1, "steps_per_world": 50},
    "ppo": NETWORKS,
    **{algo: {"rounds": 10} for algo in ("cacla", "cac", "spg", "dpg")},
}


# --- the same bits ---------------------------------------------------------------------


def test_learning_leaves_what_the_command_leaves():
    model = small(seed=3, actor_lr=0.01)
    before = model.predict([1.0, 0.0, 0.0])[0]
    model.learn(100, **JUDGED)
    assert model.predict([1.0, 0.0, 0.0])[0] != before
    run = train("--steps=100", "--seed=3", "--set=actor_lr=0.01")
    assert model.run == Path("runs/penfac/Pendulum-v1_1")
    same_end(model.run, run)
    one, other = (json.loads((p / "config.json").read_text()) for p in (model.run, run))
    for document in (one, other):
        del document["command"], document["created"]
    assert one == other
    assert {p.name for p in run.iterdir()} == {p.name for p in model.run.iterdir()}


def test_learning_twice_is_training_and_resuming():
    model = learned().learn(50)
    run = train("--steps=50")
    assert command("resume", run, "--steps=100").code == 0
    same_end(model.run, run)
    assert model.num_timesteps == 100
    told = [
        json.loads((p / "config.json").read_text())["command"] for p in (run, model.run)
    ]
    assert told[0].endswith(f" && penfac resume {run} --steps=100")
    assert told[1] == ""  # nothing was typed


@pytest.mark.slow
def test_two_halves_are_the_whole_unless_something_anneals():
    same_end(learned().learn(50).run, learned(steps=100).run)
    anneals = {"sigma": 0.4, "sigma_end": 0.01}
    halves = learned(steps=100, **anneals).learn(100)
    whole = learned(steps=200, **anneals)
    ends = [(m.run / "progress.csv").read_text() for m in (halves, whole)]
    assert ends[0] != ends[1]


@pytest.mark.slow
def test_a_saved_model_goes_on_in_another_process_with_the_same_bits():
    model = learned()
    model.save("kept/here")
    state = np.float32([0.1, -0.4, 2.0])
    program = (
        "import penfac\n"
        "model = penfac.load('kept/here')\n"
        f"print(type(model).__name__, model.predict({state.tolist()})[0].tobytes().hex())\n"
        "model.learn(50)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["PeNFAC", model.predict(state)[0].tobytes().hex()]
    same_end(Path("kept/here"), model.learn(50).run)


@pytest.mark.slow
def test_what_an_interruption_left_is_learned_without_a_number():
    whole = learned(steps=100)
    model = small()
    model.learn(100, lambda event: event.kind != "update", **JUDGED)
    assert model.num_timesteps == 50
    assert status(model.run)["state"] == "stopped"
    model.learn()
    assert model.num_timesteps == 100
    same_end(model.run, whole.run)


# --- acting ----------------------------------------------------------------------------


def test_predict_takes_one_state_or_a_batch():
    model = learned()
    state = np.float32([0.5, -0.5, 1.0])
    action, memory = model.predict(state)
    assert memory is None
    assert action.shape == (1,)
    np.testing.assert_array_equal(action, model.policy(state))
    np.testing.assert_array_equal(action, penfac.Policy.load(model.run)(state))
    assert model.predict(state[None])[0].shape == (1, 1)
    assert model.predict(np.stack([state] * 4))[0].shape == (4, 1)
    for wrong in (np.zeros(4), np.zeros((2, 4)), 1.0, "state"):
        with pytest.raises(ConfigError, match=r"observation .*: must hold"):
            model.predict(wrong)


def test_a_state_of_another_shape_than_flat():
    """One with a leading 1 is one state, if the space says so."""

    class Square(Rail):
        observation_space = gymnasium.spaces.Box(-9, 9, (1, 2), np.float32)

    model = small(Square, max_episode_steps=25)
    assert model.predict(np.zeros((1, 2)))[0].shape == (1,)
    assert model.predict(np.zeros((1, 1, 2)))[0].shape == (1, 1)
    assert model.predict(np.zeros((3, 1, 2)))[0].shape == (3, 1)


def test_exploring_is_repeatable_and_is_not_mu():
    model, again = learned(), learned()
    state = np.zeros((5, 3), np.float32)
    draws = [model.predict(state, deterministic=False)[0] for _ in range(2)]
    assert not np.array_equal(*draws)
    assert not np.array_equal(draws[0], model.predict(state)[0])
    assert np.all(np.abs(draws) <= 2.0)
    for draw in draws:
        np.testing.assert_array_equal(
            draw, again.predict(state, deterministic=False)[0]
        )


@pytest.mark.slow
def test_ppo_explores_with_the_sigma_that_it_learned():
    """`predict` and `penfac eval --stochastic` of a run that has ended."""
    short: dict[str, Any] = {
        "worlds": 2, "steps_per_world": 32, "minibatches": 2, "epochs": 4,
    }  # fmt: skip
    widens: dict[str, Any] = {"sigma": 0.3, "lr": 0.05, "entropy_weight": 1.0}
    model = penfac.PPO("Pendulum-v1", **NETWORKS, **short, **widens)
    model.learn(256, **JUDGED)
    (learned_sigma,) = penfac.load(model.run).policy.about["sigma"]
    assert learned_sigma > 0.5
    states = np.tile(np.float32([0.1, 1.0, 0.0]), (4000, 1))
    mean = model.predict(states[0])[0] / 2
    drawn = model.predict(states, deterministic=False)[0][:, 0] / 2
    # actions are clipped to [-1, 1]; quantiles inside do not move
    share = 0.5 + np.mean((drawn > mean) & (drawn < 1))
    wanted = norm.cdf((1 - mean[0]) / learned_sigma)
    assert share == pytest.approx(wanted, abs=0.03)


def test_sac_explores_with_the_sigma_of_each_state():
    """`predict` of a run that was loaded, at two states: artanh of the samples has the law
    that the policy file tells; `penfac eval --stochastic` plays it too."""
    model = penfac.SAC("Pendulum-v1", **SHORT["sac"], seed=3).learn(25, **JUDGED)
    again = penfac.load(model.run)
    assert "sigma" not in again.policy.about
    for state in np.float32([[0.1, 1.0, 0.0], [-1.0, 0.1, 8.0]]):
        states = np.tile(state, (4000, 1))
        drawn = again.predict(states, deterministic=False)[0][:, 0] / 2
        mean, sigma = gaussian_of(again.policy.weights, state)
        np.testing.assert_allclose(
            again.predict(state)[0], 2 * np.tanh(mean), rtol=1e-5
        )
        law = norm(mean[0], sigma[0])
        assert kstest(np.arctanh(drawn.astype(float)), law.cdf).pvalue > 1e-3
    done = command("eval", model.run, "--episodes=2", "--stochastic", "--json")
    assert done.code == 0
    assert done.out != command("eval", model.run, "--episodes=2", "--json").out


def test_what_anneals_explores_as_far_as_it_has_come():
    model = learned(sigma=0.4, sigma_end=0.01)
    states = np.zeros((2000, 3), np.float32)
    drawn = model.predict(states, deterministic=False)[0] - model.predict(states)[0]
    assert np.std(drawn) == pytest.approx(0.01 * 2, rel=0.1)  # actions span [-2, 2]
    begun = small(sigma=0.4, sigma_end=0.01)
    drawn = begun.predict(states, deterministic=False)[0] - begun.predict(states)[0]
    assert np.std(drawn) > 0.3


def test_a_model_acts_before_it_learns_as_its_run_will_begin():
    model = small()
    state = np.float32([0.5, -0.5, 1.0])
    before = model.predict(state)[0]
    model.learn(50, lambda event: False, **JUDGED)  # ends at the first evaluation
    assert model.num_timesteps == 0
    np.testing.assert_array_equal(before, model.predict(state)[0])
    assert model.num_timesteps == 0


def test_evaluate_is_the_command():
    model = learned()
    done = command("eval", model.run, "--episodes=3", "--json")
    assert model.evaluate(3) == json.loads(done.out)["seeds"][0]


# --- keeping ---------------------------------------------------------------------------


def test_saving_replaces_a_saved_model_and_nothing_else():
    model = learned()
    model.save("kept")
    before = {p.name for p in Path("kept").iterdir()}
    model.learn(50).save("kept")
    assert {p.name for p in Path("kept").iterdir()} == before
    assert penfac.load("kept").num_timesteps == 100
    assert command("eval", "kept", "--episodes=1").code == 0
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years")
    for place in ("mine", "runs", model.run / "inside"):
        with pytest.raises(ConfigError):
            model.save(place)
    assert Path("mine/thesis.txt").read_text() == "years"
    model.save(model.run)  # is there already
    assert penfac.load(model.run).num_timesteps == 100


@pytest.mark.slow
def test_what_was_replayed_is_kept_too():
    model = penfac.TD3(limited_rail, **SHORT["td3"]).learn(50, **JUDGED)
    model.save("kept")
    kept = penfac.load("kept").learn(50)
    same_end(kept.run, model.learn(50).run)


def test_one_of_several_seeds_is_named():
    train("--steps=50", "--seeds=2")
    with pytest.raises(ConfigError, match="has the seeds 0, 1; choose one with seed="):
        penfac.load("runs/penfac/command")
    model = penfac.load("runs/penfac/command", seed=1)
    assert model.run == Path("runs/penfac/command/seed-1")
    model.save("one")
    same_end(penfac.load("one").learn(50).run, learned(seed=1).learn(50).run)


def test_a_run_in_use_is_not_learned_on_twice():
    model = small()
    heard = []

    def meddles(event):
        with pytest.raises(RunFolderBusy) as error:
            penfac.load(model_run()).learn(10)
        heard.append(str(error.value))
        return False

    model_run = lambda: next(Path("runs/penfac").iterdir())  # noqa: E731
    model.learn(50, meddles, **JUDGED)
    assert "is in use by process" in heard[0]


# --- all of them -----------------------------------------------------------------------


@pytest.mark.parametrize("algo", slow_except(penfac.ALGORITHMS, "penfac", "dpg", "ppo"))
def test_every_algorithm_has_a_class_that_learns(algo):
    kind = KINDS[algo]
    assert getattr(penfac, kind.__name__) is kind
    assert kind.__doc__
    assert kind.algo == algo
    seen = []
    model = kind(limited_rail, **SHORT[algo])
    ends = lambda e: e.kind == "evaluation" or seen.append(e) or False  # noqa: E731
    model.learn(25, ends, **JUDGED)
    assert len(seen) == 1
    assert model.num_timesteps == seen[0].step > 0
    assert type(penfac.load(model.run)) is kind


def test_no_setting_has_the_name_of_a_keyword():
    keywords = set(inspect.signature(penfac.api.Model.__init__).parameters)
    for algorithm in penfac.ALGORITHMS.values():
        fields = set(algorithm.config.__dataclass_fields__)
        assert not fields & (keywords - {"config"}), algorithm.name


def test_importing_the_package_loads_nothing_heavy():
    program = (
        "import sys, penfac\n"
        "heavy = {'jax', 'numpy', 'gymnasium', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert {'PeNFAC', 'PPO', 'load', 'Policy', 'Event'} <= set(dir(penfac))\n"
        "assert penfac.PeNFAC.algo == 'penfac'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment())
