"""What environments may do wrong, and what they may do that is only odd."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.faults import bad_envs
from tests.faults.commands import (
    BAD,
    TINY,
    command,
    command_alone,
    newest_state,
    same_end,
    status,
)
from tests.tiers import slow_cases, slow_except

from penfac.envs.gym import open_world
from penfac.envs.options import EnvOptions
from penfac.policy import Policy
from penfac.randomness import Stream, env_seed
from penfac.runs.csv_files import read_csv

RUN = Path("runs/penfac/test")


def train(env: str, *more: object, name: str = "test"):
    return command("train", "--env", f"{BAD}{env}-v0", *TINY, "--name", name, *more)


def reset_seeds(seed: int, *episodes: int) -> list[int]:
    """What the training episodes with these numbers are reset with."""
    return [env_seed(seed, Stream.TRAIN_RESET, e) for e in episodes]


# --- environments that break the contract ---------------------------------------------

FAULTS = {  # environment -> what the line must say
    "RaisesBuilding": "making it raised RuntimeError: no licence for this robot",
    "RaisesResetting": "reset raised RuntimeError: the gripper is stuck",
    "RaisesStepping": "step raised RuntimeError: the motor burned and the gearbox",
    "NanAtReset": "observation[1] is nan at reset",
    "NanAtStep": "observation[2] is nan after step 4 of episode 2",
    "InfAtStep": "observation[1] is -inf after step 4 of episode 2",
    "NanInFinal": "observation[0] is nan after step 9 of episode 2",
    "HugeObservation": "inf after step 4 of episode 2",
    "NanReward": "reward is nan after step 4 of episode 2",
    "InfReward": "reward is -inf after step 4 of episode 2",
    "NoneReward": "step returned the reward None; it must be a number",
    "BoolReward": "step returned the reward True; it must be a number",
    "WordReward": "step returned the reward '1.0'; it must be a number",
    "TwoRewards": "step returned the reward array([0., 0.]); it must be a number",
    "WrongShape": "of shape (4,); it must be an array of shape (3,), as its space says",
    "ObjectObservation": "an observation of type object; it must hold numbers",
    "ListObservation": "an observation of type list, not an array",
    "ArrayFlag": "terminated = array([False, False])",
    "OldInterface": "step raised ValueError: not enough values to unpack",
}


def test_an_environment_that_cannot_be_closed_loses_nothing():
    """It is closed when all is learned and saved."""
    result = train("RaisesClosing")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("env", FAULTS)
def test_environment_fault_is_3(env):
    result = train(env)
    assert result.code == 3
    assert FAULTS[env] in result.line
    assert f"{BAD}{env}-v0" in result.line
    assert "Traceback" not in result.out
    assert status(RUN)["state"] == "failed"
    assert status(RUN)["exit_code"] == 3
    assert status(RUN)["resumable"]
    assert "Traceback" in (RUN / "log.txt").read_text()


def test_a_fault_keeps_the_last_update_and_says_how_to_meet_it_again():
    result = train("RaisesInChosen", "--env-arg", f"chosen={reset_seeds(0, 7)}")
    assert result.code == 3
    assert "continue: penfac resume runs/penfac/test" in result.out
    assert "finished" not in result.out
    assert [row["update"] for row in read_csv(RUN / "progress.csv")] == ["1"]
    assert status(RUN)["last_checkpoint"] == 1
    fault = json.loads((RUN / "fault.json").read_text())
    assert (fault["seed"], fault["episode"], fault["step"]) == (0, 7, 2)
    assert fault["reset_seed"] == reset_seeds(0, 7)[0]
    assert bad_envs.Plain.action_space.contains(np.array(fault["action"], np.float32))
    # going on meets it again, with the same action: the same bits were played
    again = command("resume", RUN)
    assert again.code == 3
    assert json.loads((RUN / "fault.json").read_text()) == fault


def test_a_fault_in_an_evaluation_is_3():
    result = train("NanAtStep", "--env-arg", "at=3")
    assert result.code == 3
    assert "observation[2] is nan after step 2 of an evaluation episode" in result.line


def test_a_return_that_overflows_is_no_result():
    result = train("HugestReward", "--env-arg", "at=1")
    assert result.code == 3
    assert "return is inf after step 1 of an evaluation episode" in result.line


@pytest.mark.parametrize("env", ["HugeReward", "HugerReward", "HugestReward"])
def test_rewards_too_large_to_sum_diverge(env):
    result = train(env)
    assert result.code == 4
    assert "became non-finite in update 1" in result.line
    assert all(np.isfinite(x).all() for x in newest_state(RUN).values())


HANGING = ("Hangs", "HangsResetting", "HangsBuilding")


@pytest.mark.parametrize("env", slow_except(HANGING, "Hangs"))
def test_a_hanging_environment_is_left(env, tmp_path):
    argv = ("train", "--env", f"{BAD}{env}-v0", *TINY, "--name", "test")
    result = command_alone(*argv, "--env-timeout", "0.5s", cwd=tmp_path)
    assert result.code == 3
    assert "a call lasted more than 0.5 s" in result.line
    assert "--env-timeout" in result.line
    assert status(RUN)["state"] == "failed"


# --- replacing broken worlds ----------------------------------------------------------


def test_env_restarts_replaces_a_broken_world(tmp_path):
    broke = tmp_path / "broke"
    result = train("RaisesOnce", "--env-arg", f"path={broke}", "--env-restarts", 1)
    assert (result.code, result.err) == (0, "")
    assert broke.exists()
    rows = read_csv(RUN / "progress.csv")
    assert [row["faults"] for row in rows] == ["1", "1"]
    # the episode that broke is thrown away as a whole and another one takes its place
    assert int(rows[0]["batch_steps"]) % bad_envs.LIMIT == 0
    assert int(rows[0]["episode"]) == int(rows[0]["batch_steps"]) / bad_envs.LIMIT + 1


def test_env_restarts_are_counted():
    three = ("--env-arg", f"chosen={reset_seeds(0, 1, 3, 7)}")
    result = train("RaisesInChosen", *three, "--env-restarts", 2)
    assert result.code == 3
    assert "a bad place" in result.line
    assert train("RaisesInChosen", *three, "--env-restarts", 3, name="more").code == 0
    rows = read_csv(RUN.parent / "more" / "progress.csv")
    assert [row["faults"] for row in rows] == ["2", "3"]


def test_env_restarts_covers_reset(tmp_path):
    broke = tmp_path / "broke"
    env_args = ("--env-arg", f"path={broke}", "--env-arg", "at=20")
    assert train("RaisesResettingOnce", *env_args).code == 3
    broke.unlink()
    result = train("RaisesResettingOnce", *env_args, "--env-restarts", 1, name="again")
    assert (result.code, result.err) == (0, "")
    assert read_csv(RUN.parent / "again" / "progress.csv")[-1]["faults"] == "1"


@pytest.mark.parametrize("collect", ["episodes", "steps"])
def test_a_batch_thrown_away_never_reaches_learning(collect):
    """Episodes that break leave no trace: not in the batch, not in its statistics."""
    more = ("--set", f"collect={collect}", "--set", "worlds=2")
    more += ("--set", "steps_per_world=40")
    chosen = ("--env-arg", f"chosen={reset_seeds(0, 1, 3, 7)}")
    result = train("NanInChosen", *more, *chosen, "--env-restarts", 20)
    assert (result.code, result.err) == (0, "")
    assert all(np.isfinite(x).all() for x in newest_state(RUN).values())
    assert read_csv(RUN / "progress.csv")[-1]["faults"] == "3"


def test_a_batch_with_nothing_left_is_3():
    chosen = reset_seeds(0, *range(50))
    more = ("--set", "collect=steps", "--set", "worlds=1", "--set", "steps_per_world=9")
    more += ("--set", "minibatches=3")
    result = train(
        "RaisesInChosen", "--env-arg", f"chosen={chosen}", *more, "--env-restarts", 40
    )
    assert result.code == 3
    assert "there is nothing to learn from" in result.line


def test_faults_are_counted_across_a_resume():
    chosen = reset_seeds(0, 1)
    more = ("--env-arg", f"chosen={chosen}", "--env-restarts", 1)
    assert train("RaisesInChosen", *more).code == 0
    assert train("RaisesInChosen", *more, "-n", 50, name="halved").code == 0
    halved = RUN.parent / "halved"
    assert command("resume", halved, "-n", 100).code == 0
    assert [row["faults"] for row in read_csv(RUN / "progress.csv")] == ["1", "1"]
    same_end(RUN, halved)


# --- one of several -------------------------------------------------------------------


@pytest.mark.parametrize(("env", "code"), [("RaisesInChosen", 3), ("HugeInChosen", 4)])
def test_a_seed_that_fails_stops_alone(env, code):
    """Seed 1 fails in its second update; the others end as if it were not there."""
    chosen = ("--env-arg", f"chosen={reset_seeds(1, 7)}")
    result = train(env, *chosen, "--seeds", 3)
    assert result.code == code
    assert result.line.startswith("penfac: seed 1: ")
    assert "1 of 3 seeds failed" in result.out
    assert train(env, *chosen, "--seeds", "0,2", name="others").code == 0
    for seed in (0, 2):
        same_end(RUN / f"seed-{seed}", RUN.parent / "others" / f"seed-{seed}")
        assert status(RUN / f"seed-{seed}")["state"] == "finished"
    failed = RUN / "seed-1"
    assert status(failed)["exit_code"] == code
    assert status(failed)["last_checkpoint"] == 1
    assert [row["update"] for row in read_csv(failed / "progress.csv")] == ["1"]
    assert all(np.isfinite(x).all() for x in newest_state(failed).values())


def test_a_seed_that_diverges_in_its_evaluation_stops_alone():
    judged = env_seed(1, Stream.EVAL_RESET, 0, 0)
    raw = (
        "--set=normalise_actor=none",
        "--set=actor_output=linear",
        "--set=exploration=gaussian",
        "--set=activation=leaky_relu",
        "--env-arg",
        f"chosen=[{judged}]",
    )
    result = train("FarInChosen", *raw, "--seeds", 2)
    assert result.code == 4
    assert result.line.startswith("penfac: seed 1: an action became non-finite")
    assert status(RUN / "seed-0")["state"] == "finished"
    assert status(RUN / "seed-1")["exit_code"] == 4


@pytest.mark.parametrize("setting", ["actor_lr", "critic_lr"])
def test_divergence_is_4_and_keeps_what_was_good(setting):
    result = train("Plain", "--set", f"{setting}=1e30", "-n", 2000)
    assert result.code == 4
    assert "became non-finite" in result.line
    assert "a smaller actor_lr" in result.line
    update = status(RUN)["last_checkpoint"]
    assert len(read_csv(RUN / "progress.csv")) == update
    assert all(np.isfinite(x).all() for x in newest_state(RUN).values())
    Policy.load(RUN)  # refuses what is not finite


# --- spaces we cannot learn in --------------------------------------------------------

REFUSED = {
    "Discrete": ("Discrete", "must be a Box"),
    "MultiDiscrete": ("MultiDiscrete", "must be a Box"),
    "IntActions": ("Box of int32", "must be a Box of floats"),
    "Unbounded": ("no bounds", "--action-bounds LOW,HIGH"),
    "HalfBounded": ("no bounds", "--action-bounds LOW,HIGH"),
    "NoRoom": ("action 1 has low = 2.0 and high = 2.0", "low must be below high"),
    "NanBounds": ("bounds of its actions", "must not be NaN"),
    "Dictionary": ("dict of place, speed", "--flatten-obs"),
    "Tuple": ("Tuple", "--flatten-obs"),
    "Endless": ("no time limit", "--max-episode-steps N"),
}


@pytest.mark.parametrize("env", REFUSED)
def test_unfit_space_is_2_and_leaves_nothing(env):
    result = train(env)
    assert result.code == 2
    for words in REFUSED[env]:
        assert words in result.line
    assert not Path("runs").exists()


# --- odd, but legal -------------------------------------------------------------------

LEGAL = {
    "Plain": (),
    "OneStep": (),
    "BothFlags": (),
    "ArrayReward": (),
    "ScalarArrayReward": (),
    "IntReward": (),
    "ZeroReward": (),
    "Float64Observation": (),
    "Strided": (),
    "ReusedBuffer": (),
    "Image": (),
    "Asymmetric": (),
    "Shaped": (),
    "Scalar": (),
    "Endless": ("--max-episode-steps", 7),
    "Unbounded": ("--action-bounds", "-2,3"),
    "HalfBounded": ("--action-bounds", "-2,3"),
    "Dictionary": ("--flatten-obs",),
    "Plain-shorter": ("--max-episode-steps", 3),
}


@pytest.mark.parametrize("env", slow_cases(LEGAL, "Asymmetric", "Image"))
def test_odd_but_legal_trains(env):
    result = train(env.split("-")[0], *LEGAL[env])
    assert (result.code, result.err) == (0, "")
    assert status(RUN) == {
        "state": "finished",
        "exit_code": 0,
        "resumable": False,
        "last_checkpoint": len(read_csv(RUN / "progress.csv")),
        "error": None,
    }
    lengths = {float(row["train_length"]) for row in read_csv(RUN / "progress.csv")}
    expected = {"OneStep": 1, "Endless": 7, "Plain-shorter": 3}
    assert lengths == {expected.get(env, bad_envs.LIMIT)}


def same_bits(*names: str, options: dict[str, tuple] | None = None) -> None:
    """Runs on these environments end with the same weights."""
    ends = []
    for name in names:
        more = (options or {}).get(name, ())
        assert train(name, *more, name=name).code == 0
        state = newest_state(RUN.parent / name)
        learned = state.keys() - {"policy-best"}  # which names its environment
        ends.append({k: state[k].tobytes() for k in learned})
    assert all(end == ends[0] for end in ends)


def test_how_a_number_is_wrapped_does_not_matter():
    """float64, a strided view, a buffer used again, a reward in an array: same bits."""
    names = ("Float64Observation", "Strided", "ReusedBuffer", "ScalarArrayReward")
    same_bits("Plain", *names)


def test_an_observation_is_ours_once_it_is_given():
    world = open_world("ReusedBuffer-v0", EnvOptions())
    first = world.reset(0)
    kept = first.copy()
    world.step(np.ones(1, np.float32))
    assert first.tobytes() == kept.tobytes()


def test_the_order_of_a_dict_does_not_matter():
    flat = ("--flatten-obs",)
    same_bits("Dictionary", "Swapped", options={"Dictionary": flat, "Swapped": flat})


def test_own_bounds_only_narrow():
    assert train("HalfBounded", "--action-bounds", "-2,3").code == 0
    policy = Policy.load(RUN)
    assert policy.actions.low.tolist() == [0, 0]
    assert policy.actions.high.tolist() == [3, 3]


def test_own_bounds_outside_the_space_are_2():
    result = train("HalfBounded", "--action-bounds", "-3,-1")
    assert result.code == 2
    assert "action 0 has low = 0.0 and high = -1.0" in result.line


def test_both_ends_of_asymmetric_bounds_are_reached():
    assert train("Asymmetric").code == 0
    actions = Policy.load(RUN).actions
    space = bad_envs.Asymmetric.action_space
    for unit, end in ((-1, space.low), (1, space.high)):
        action = actions.to_env(np.full(2, unit, np.float32))
        assert action.dtype == np.float64
        assert action.tobytes() == end.tobytes()
