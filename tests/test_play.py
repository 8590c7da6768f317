"""`penfac play` as a user calls it: a video, a strip, and one line where it cannot."""

import json
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from tests.faults.commands import TINY, command, command_alone

from penfac.envs.opengl import choose_opengl
from penfac.errors import ConfigError

try:
    choose_opengl()
except ConfigError:
    pytest.skip("no OpenGL here", allow_module_level=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two seeds of a small run."""
    folder = tmp_path_factory.mktemp("played")
    words = ["--env=RoboschoolInvertedPendulum-v2", "--seeds=2"]
    done = command("train", *words, *TINY, f"--out={folder}", "--name=run")
    assert (done.code, done.err) == (0, "")
    return folder / "penfac" / "run"


def test_a_video_and_a_strip(run, tmp_path):
    """Both files are there under their names, as big as asked; the episode is one that
    `penfac eval` plays, and nothing is left beside them."""
    files = [tmp_path / "new" / "out.mp4", tmp_path / "out.gif"]
    strip = tmp_path / "out.png"
    size = "--size=160x120"
    for file in files:
        words = ["play", run, f"--video={file}", f"--strip={strip}", size, "--json"]
        done = command_alone(*words, cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        report = json.loads(done.out)
        assert report["files"] == [str(file), str(strip)]
        frames = imageio.imread(file, index=None)
        assert frames.shape[1:] == (120, 160, 3)
        assert len(frames) > 3
        assert frames[0].std() > 5, "a blank picture"
    assert imageio.imread(strip).shape[0] == 120
    assert not list(tmp_path.rglob(".*"))
    judged = command("eval", run, "--episodes=1", "--json")
    first = json.loads(judged.out)["seeds"][0]
    assert first["returns"][0] == pytest.approx(report["return"])


def test_each_seed_has_its_own_episode(run, tmp_path):
    said = [
        command("play", run, f"--seed={s}", f"--strip={tmp_path / 'a.png'}").out
        for s in (0, 1)
    ]
    assert said[0] != said[1]
    pictures = imageio.imread(tmp_path / "a.png")
    assert pictures.dtype == np.uint8


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "play: say where to, --video FILE.mp4 or --strip FILE.png"),
        (["--video=a.avi"], "--video a.avi: ends in .mp4, .webm, .gif"),
        (["--strip=a.jpg"], "--strip a.jpg: ends in .png"),
        (["--strip=a.png", "--seed=7"], "has no seed 7; it has 0, 1"),
        (["--strip=a.png", "--size=9x9"], "--size 9x9: write 480x360"),
        (["--strip=a.png", "--steps=0"], "--steps 0: needs at least 1"),
        (["--strip=a.png", "--episode=-1"], "--episode -1: needs at least 0"),
    ],
)
def test_what_cannot_be_played_is_2(run, words, line):
    done = command("play", run, *words)
    assert done.code == 2
    assert line in done.line


def test_no_run_and_no_policy(tmp_path):
    done = command("play", tmp_path, "--strip=a.png")
    assert done.code == 2
    assert "config.json" in done.line
