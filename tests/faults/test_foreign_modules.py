"""A module that only a file names is never imported unasked: an import runs its code."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.commands import TINY, command, command_alone
from tests.studies.small_study import run_study, small
from tests.studies.study_folders import run_nothing

import penfac
from penfac.errors import ConfigError, PenfacError

MODULE = """\
from pathlib import Path
import gymnasium
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv


class Guest(PendulumEnv):
    def render(self):
        return np.zeros((32, 48, 3), np.uint8)


with open({mark!r}, "a") as file:
    file.write("imported ")
if "Guest-v0" not in gymnasium.registry:
    gymnasium.register("Guest-v0", Guest, max_episode_steps=25)
"""
ENV = "guest_env:Guest-v0"


@pytest.fixture(scope="module")
def guests(tmp_path_factory) -> Path:
    """A folder with a module that leaves a mark when it is imported, and a run on it."""
    home = tmp_path_factory.mktemp("guests")
    (home / "guest_env.py").write_text(MODULE.format(mark=str(home / "mark")))
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(home)
        run = ("--env", ENV, *TINY, "--out", home / "runs", "--name", "one")
        done = command("train", *run)
        assert done.code == 0, done.err
        # what it says next works as it stands
        assert f"next: penfac eval {home}/runs/penfac/one --trust" in done.out
        assert command("tune", "--env", ENV, *SEARCH, "--out", home / "runs").code == 0
    return home


SEARCH = [
    "--configs=2", "--halvings=0", "--seeds=3", "--processes=1", "--name=two",
    *(word for word in TINY if not word.startswith("--set=sigma")), "--stop-after=0s",
]  # fmt: skip


@pytest.fixture
def mark(guests, tmp_path, monkeypatch) -> Iterator[Path]:
    """A file that is there once the module was imported; its runs are in runs/."""
    monkeypatch.syspath_prepend(guests)
    monkeypatch.delitem(sys.modules, "guest_env", raising=False)
    shutil.copytree(guests / "runs", tmp_path / "runs")
    (guests / "mark").unlink(missing_ok=True)
    yield guests / "mark"
    sys.modules.pop("guest_env", None)


RUN, TUNED = Path("runs/penfac/one"), Path("runs/tune/penfac/two")
COMMANDS = {
    "eval": ("eval", RUN, "--episodes", 1),
    "compare": ("eval", RUN, RUN, "--compare", "--episodes", 2),
    "play": ("play", RUN, "--strip", "strip.png"),
    "resume": ("resume", RUN, "-n", 150),
    "resume a search": ("resume", TUNED, "--stop-after", "0s"),
    "resume a bundle": ("resume", "packed", "-n", 150),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_module_is_imported_on_request_only(name, mark):
    assert command("runs", "pack", RUN, "packed").code == 0
    refused = command(*COMMANDS[name])
    assert refused.code == 2
    assert "importing guest_env runs its code" in refused.line
    assert "--trust" in refused.line
    assert not mark.exists()
    assert command(*COMMANDS[name], "--trust").err == ""
    assert mark.exists()


@pytest.mark.parametrize(
    "argv",
    [("card", RUN), ("plot", RUN), ("export", RUN, "--c", "x.h"),
     ("runs", "pack", RUN, "packed")],
    ids=lambda argv: argv[0],
)  # fmt: skip
def test_what_needs_no_environment_imports_none(argv, mark):
    result = command(*argv)
    assert (result.code, result.err) == (0, "")
    assert not mark.exists()


def test_trust_is_no_way_around_the_checkpoint(mark):
    """A config that names another module than its run was trained with is damaged."""
    file = RUN / "config.json"
    file.write_text(file.read_text().replace(ENV, "antigravity:Pendulum-v1"))
    for argv in (("eval", RUN), ("play", RUN, "--strip", "x.png"), ("resume", RUN)):
        result = command(*argv, "--trust")
        assert result.code == 2
        assert f"env: {ENV} -> antigravity:Pendulum-v1" in result.line
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("module", ["venv.__main__", "__main__", "a/b", "os.path;x"])
def test_what_runs_as_a_program_is_no_module(module, mark):
    result = command("train", "--env", f"{module}:Pendulum-v1", *TINY)
    assert result.code == 2
    assert f"{module} is not the name of a module" in result.line
    shutil.rmtree(RUN / "checkpoints")  # nothing to compare its config with
    file = RUN / "config.json"
    file.write_text(file.read_text().replace(ENV, f"{module}:Pendulum-v1"))
    for more in ((), ("--trust",)):
        assert command("eval", RUN, *more).code == 2


@pytest.mark.parametrize("env", ["GymV21Environment-v0", "GymV26Environment-v0"])
def test_an_id_that_imports_what_its_arguments_name_is_asked_for(env, mark):
    shutil.rmtree(RUN / "checkpoints")
    file = RUN / "config.json"
    file.write_text(file.read_text().replace(ENV, env))
    assert "--trust" in command("eval", RUN).line


# --- from Python ----------------------------------------------------------------------------


def test_a_loaded_model_imports_on_request_only(mark):
    model = penfac.load(RUN)
    model.predict([0.0, 0.0, 0.0])
    for work in (lambda: model.evaluate(1), lambda: model.learn(50)):
        with pytest.raises(ConfigError, match="trust=True to penfac"):
            work()
    assert not mark.exists()
    penfac.load(RUN, trust=True).evaluate(1)
    assert mark.exists()
    model.evaluate(1)  # it is imported: nothing is run any more


def test_an_environment_that_is_named_again_is_asked_for(mark):
    assert penfac.load(RUN, env=ENV).evaluate(1)["mean_length"] == 25
    assert mark.exists()


# --- studies --------------------------------------------------------------------------------


def test_a_study_folder_is_read_without_its_environments(mark, monkeypatch):
    run_nothing(monkeypatch)
    run_study(Path("study"), small(envs=(ENV,)))  # its user names it
    assert mark.read_text()
    mark.unlink()
    sys.modules.pop("guest_env")
    for verb in ("status", "report"):
        result = command("study", verb, "study")
        assert (result.code, result.err) == (0, "")
    assert not mark.exists()
    # no other environment comes in by its study.json
    file = Path("study/study.json")
    file.write_text(file.read_text().replace(ENV, "antigravity:Pendulum-v1"))
    with pytest.raises(PenfacError):
        run_study(Path("study"), small(envs=(ENV,)))
    assert "antigravity" not in sys.modules


@pytest.mark.slow
def test_a_new_process_imports_on_request_only(mark, tmp_path):
    """As on the command line, where nothing is imported yet."""
    refused = command_alone("eval", RUN, cwd=tmp_path)
    assert refused.code == 2
    assert "importing guest_env" in refused.line
    assert not mark.exists()
