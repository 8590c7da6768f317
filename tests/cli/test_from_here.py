"""A module of the current folder, where the user names it or trusts who does."""

import sys

import pytest
from tests.faults.commands import TINY, command
from tests.small_models import own_folder

__all__ = ["own_folder"]  # a fixture
MODULE = """
import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv
gymnasium.register("FromHere-v0", entry_point=PendulumEnv, max_episode_steps=20)
"""


@pytest.mark.usefixtures("own_folder")
def test_it_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    """As of the command `penfac`, whose own folder is the first of the path."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", ".")])
    (tmp_path / "from_here.py").write_text(MODULE)
    done = command("train", "--env=from_here:FromHere-v0", *TINY, "--name=run")
    assert (done.code, done.err) == (0, "")
    assert sys.path[0] == str(tmp_path)
    sys.path.pop(0)
    del sys.modules["from_here"]  # as in a process of its own
    done = command("eval", "runs/penfac/run", "--episodes=1")
    assert done.code == 2
    assert "add --trust" in done.line
    assert str(tmp_path) not in sys.path
    assert command("eval", "runs/penfac/run", "--episodes=1", "--trust").code == 0
