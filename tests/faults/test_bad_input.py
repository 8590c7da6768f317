"""Nonsense on the command line gets one clear line and exit code 2."""

import json
import sys
import time
from pathlib import Path

import pytest
from tests.faults.commands import BAD, TINY, command

RUN = Path("runs/penfac/test")


# --- environments by name -------------------------------------------------------------


def test_unknown_environment_suggests_three():
    began = time.monotonic()
    result = command("train", "--env", "Pendulm-v1")
    assert time.monotonic() - began < 2
    assert result.code == 2
    nearest = result.line.split("nearest: ")[1].split(" (")[0].split(", ")
    assert len(nearest) == 3
    assert "Pendulum-v1" in nearest
    assert "penfac envs" in result.line
    assert not Path("runs").exists()


def test_missing_extra_is_named():
    if any(Path(p, "pybullet_envs_gymnasium").is_dir() for p in sys.path):
        pytest.skip("PyBullet is here")
    result = command("train", "--env", "HopperBulletEnv-v0")
    assert result.code == 2
    assert 'pip install "penfac[pybullet]"' in result.line
    assert not Path("runs").exists()


def test_a_package_the_environment_lacks_is_2():
    """Gymnasium's own word for what is missing reaches the user."""
    result = command("train", "--env", "HalfCheetah-v3", *TINY)
    assert result.code == 2
    assert "gymnasium-robotics" in result.err.splitlines()[-1]
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("no_such_module:Robot-v0", "cannot import no_such_module"),
        ("./robot.py:Robot-v0", "./robot.py is not the name of a module"),
        ("", "no such environment"),
        ("Pendulum", "Pendulum-v1"),
        ("Pendulum-v99", "Pendulum-v1"),
        ("CartPole-v1", "Discrete"),
    ],
)
def test_environments_that_cannot_be(env, words):
    result = command("train", "--env", env)
    assert result.code == 2
    assert words in result.line
    assert not Path("runs").exists()


def test_a_module_that_raises_is_3(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = command("train", "--env", "broken_module:Robot-v0")
    assert result.code == 3
    assert "importing broken_module raised ZeroDivisionError" in result.line


# --- nonsense on the command line -----------------------------------------------------

NONSENSE = [  # options -> what the line must say: the value, then the rule
    (["--set", "gamma=1.5"], ["gamma = 1.5", "at least 0 and at most 1"]),
    (["--set", "gamma=nan"], ["gamma = nan", "at most 1"]),
    (["--set", "lam=-1"], ["lam = -1", "at least 0"]),
    (["--set", "gama=0.9"], ["gama", "did you mean gamma?", "penfac presets"]),
    (["--set", "gamma=high"], ["gamma = high", "not a number"]),
    (["--set", "gamma"], ["--set gamma", "key=value"]),
    (["--set", "minibatches=30"], ["minibatches = 30", "must divide", "2048"]),
    (["--set", "actor_steps=0"], ["actor_steps = 0", "at least 1"]),
    (["--set", "fitted_iterations=0"], ["fitted_iterations = 0", "at least 1"]),
    (["--set", "ratio_limit=-0.1"], ["ratio_limit = -0.1", "above 0"]),
    (["--set", "softness=-1"], ["softness = -1", "at least 0"]),
    (["--set", "softness=inf"], ["softness = inf", "finite"]),
    (["--set", "d_target_start=-0.1"], ["d_target_start = -0.1", "above 0"]),
    (["--set", "ratio_limit_start=-1"], ["ratio_limit_start = -1", "above 0"]),
    (["--set", "rates_end=1.5"], ["rates_end = 1.5", "at most 1"]),
    (["--set", "exploration=truncated"], ["truncated", "actor_output=tanh"]),
    (["--set", "actor_steps=1.5"], ["actor_steps = 1.5", "not a whole number"]),
    (
        ["--set", "actor_hidden=64,0"],
        ["actor_hidden = 0", "at least 1 and at most 65536"],
    ),
    (["--set", "actor_lr=0"], ["actor_lr = 0", "above 0"]),
    (["--set", "critic_lr=inf"], ["critic_lr = inf", "finite"]),
    (["--set", "trust_region=maybe"], ["trust_region = maybe", "true or false"]),
    (["--set", "collect=sometimes"], ["collect = sometimes", "episodes, steps"]),
    (["--set", "beta_min=3", "--set", "beta_max=2"], ["beta_min = 3", "beta_max = 2"]),
    (["--seeds", "0-"], ["--seeds 0-", "8, 10-19 or 3,5,8"]),
    (["--seeds", "5-3"], ["--seeds 5-3", "FIRST-LAST"]),
    (["--seeds", "0"], ["--seeds 0", "1 to 100 000"]),
    (["--seeds", "-3"], ["--seeds -3", "1 to 100 000"]),
    (["--seeds", "0-999999"], ["--seeds 0-999999", "100 000"]),
    (["--seeds", "many"], ["--seeds many", "8, 10-19 or 3,5,8"]),
    (["--seeds", "3,5,3"], ["3", "listed twice"]),
    (["--seeds", ","], ["--seeds", "at least 1"]),
    (["--seed", "-1"], ["--seed -1", "0 to 4294967295"]),
    (["--seed", "4294967296"], ["--seed 4294967296", "0 to 4294967295"]),
    (["--seed", "1.5"], ["--seed 1.5", "whole number"]),
    (["-n", "-5"], ["--steps -5", "at least 1"]),
    (["-n", "0"], ["--steps 0", "at least 1"]),
    (["-n", "ten"], ["--steps ten", "whole number"]),
    (["-n", "inf"], ["--steps inf", "whole number"]),
    (["-n", "nan"], ["--steps nan", "whole number"]),
    (["-n", "1.2345k"], ["--steps 1.2345k", "whole number"]),
    (["--preset", "best"], ["--preset best", "tuned, authors, paper"]),
    (["--preset", "no/such.toml"], ["--preset no/such.toml", "No such file"]),
    (["--algo", "penfak"], ["--algo penfak", "did you mean penfac?"]),
    (["--frobnicate"], ["--frobnicate", "penfac train --help"]),
    (["--stop-after", "soon"], ["--stop-after soon", "90s, 9m or 1.5h"]),
    (["--checkpoint-every", "-1s"], ["--checkpoint-every -1s", "90s, 9m or 1.5h"]),
    (["--env-timeout", "0"], ["--env-timeout 0", "above 0"]),
    (["--env-workers", "-1"], ["--env-workers -1", "0 or more, or auto"]),
    (["--env-workers", "all"], ["--env-workers all", "0 or more, or auto"]),
    (["--eval-every", "0"], ["--eval-every 0", "at least 1"]),
    (["--eval-episodes", "0"], ["--eval-episodes 0", "at least 1"]),
    (["--eval-protocol", "mine"], ["--eval-protocol mine", "steps or authors"]),
    (["--max-episode-steps", "0"], ["--max-episode-steps 0", "at least 1"]),
    (["--env-restarts", "-1"], ["--env-restarts -1", "at least 0"]),
    (["--env-restarts", "x"], ["--env-restarts", "integer"]),
    (["--action-bounds", "1"], ["--action-bounds 1", "LOW,HIGH"]),
    (["--action-bounds", "a,b"], ["--action-bounds a,b", "LOW,HIGH"]),
    (["--action-bounds", "2,1"], ["--action-bounds 2.0,1.0", "low below high"]),
    (["--action-bounds", "-inf,inf"], ["--action-bounds -inf,inf", "finite"]),
    (["--action-bounds", "nan,1"], ["--action-bounds nan,1", "finite"]),
    (["--env-arg", "g"], ["--env-arg g", "key=value"]),
    (["--env-arg", "g=NaN"], ["--env-arg", "finite"]),
    (["--env-arg", "g=1e999"], ["--env-arg", "finite"]),
    (["--on", "tpu"], ["--on tpu", "auto, cpu or device"]),
    (["--on", "device"], ["--on device", "penfac/Pendulum-v0"]),
    (["--name", "a/b"], ["--name a/b", "plain folder name"]),
    (["--name", ""], ["--name", "plain folder name"]),
    (["unexpected"], ["unexpected", "penfac train --help"]),
]


@pytest.mark.parametrize(("options", "words"), NONSENSE, ids=lambda x: " ".join(x))
def test_nonsense_is_2(options, words):
    result = command("train", "--env", "Pendulum-v1", *options)
    assert result.code == 2
    for word in words:
        assert word in result.line
    assert not result.out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["frobnicate"], ["frobnicate", "penfac --help"]),
        (["resume"], ["RUN", "penfac resume --help"]),
        (["resume", "nowhere"], ["nowhere", "no such run folder"]),
        (["resume", "."], [".", "no config.json"]),
        (["eval", "."], [".", "no config.json"]),
        (["eval", ".", "--episodes", "0"], ["--episodes 0", "at least 1"]),
        (["presets", "sarsa"], ["sarsa", "penfac, nfac"]),
        (["bench", "mine"], ["bench mine", "--env ID"]),
    ],
    ids=lambda x: " ".join(x),
)
def test_nonsense_of_other_commands_is_2(argv, words):
    result = command(*argv)
    assert result.code == 2
    for word in words:
        assert word in result.line


def test_a_current_folder_that_was_removed_is_7(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        result = command("train", "--env", "Pendulum-v1")
    finally:
        monkeypatch.chdir(tmp_path)
    assert result.code == 7
    assert "current folder was removed" in result.line


def test_no_command_shows_the_help():
    result = command()
    assert (result.code, result.err) == (2, "")
    for heading in ("Learn:", "Look:", "Share:", "Study:", "Catalogue:"):
        assert heading in result.out


@pytest.mark.parametrize("option", [("--action-bounds", "-1,1"), ("--env-arg", "g=1")])
def test_what_a_built_in_environment_cannot_do_is_not_ignored(option):
    result = command("train", "--env", "penfac/Pendulum-v0", *option)
    assert result.code == 2
    assert option[0] in result.line
    assert "--on cpu" in result.line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gamma = 1.5", "gamma = 1.5"),
        ("gama = 0.5", "did you mean gamma?"),
        ('gamma = "0.9"', "gamma = '0.9'"),
        ("actor_steps = 2.5", "actor_steps = 2.5"),
        ("actor_hidden = [2.5]", "actor_hidden"),
        ("gamma = ", "--preset"),
    ],
)
def test_a_preset_of_ones_own_is_checked(text, words):
    Path("mine.toml").write_text(text)
    result = command("train", "--env", "Pendulum-v1", "--preset", "mine.toml")
    assert result.code == 2
    assert words in result.line


def test_a_table_in_a_preset_that_names_no_task_is_2():
    Path("mine.toml").write_text("[hoper]\ngamma = 0.5\n")
    argv = ("--env", f"{BAD}Plain-v0", *TINY, "--preset", "mine.toml")
    result = command("train", *argv)
    assert result.code == 2
    assert "hoper" in result.line


def test_a_preset_may_have_windows_line_ends():
    text = "gamma = 0.9\r\nactor_hidden = [4]\r\n"
    Path("mine.toml").write_bytes(text.encode())
    argv = ("--env", f"{BAD}Plain-v0", *TINY, "--name", "test", "--preset", "mine.toml")
    assert command("train", *argv).code == 0
    config = json.loads((RUN / "config.json").read_text())["config"]
    assert config["gamma"] == 0.9
