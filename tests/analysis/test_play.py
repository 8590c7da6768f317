"""`penfac play` as a user calls it: a video, a strip, and one line where it cannot."""

import json
import shutil
import time
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from tests.faults.commands import TINY, command, command_alone

from penfac.analysis.play import Played, beside, show
from penfac.envs.opengl import choose_opengl
from penfac.errors import ConfigError
from penfac.policy import Policy

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


@pytest.mark.slow
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
    assert first["returns"][0] == pytest.approx(report["episodes"][0]["return"])


@pytest.mark.slow
def test_the_best_policy_is_played_if_asked(run, tmp_path):
    """It is another policy here, which always pushes."""
    home = shutil.copytree(run / "seed-0", tmp_path / "run")
    policy = Policy.load(home)
    matrix, bias = policy.weights.layers.pop()
    policy.weights.layers.append((matrix, bias + np.float32(9)))
    (home / "policy-best" / "policy.safetensors").write_bytes(policy.to_bytes())
    words = (f"--strip={tmp_path / 'a.png'}", "--size=64x64", "--json")
    last, best = (
        json.loads(command("play", home, *which, *words).out)["episodes"][0]["return"]
        for which in ((), ("--best",))
    )
    assert last != best
    judged = command("eval", home, "--best", "--episodes=1", "--json")
    assert json.loads(judged.out)["mean"] == pytest.approx(best)


@pytest.mark.slow
def test_each_seed_has_its_own_episode(run, tmp_path):
    said = [
        command("play", run, f"--seed={s}", f"--strip={tmp_path / 'a.png'}").out
        for s in (0, 1)
    ]
    assert said[0] != said[1]
    pictures = imageio.imread(tmp_path / "a.png")
    assert pictures.dtype == np.uint8


def test_several_policies_side_by_side(run, tmp_path):
    """Two runs: twice as wide, two rows, both told; the shorter one stands still."""
    video, strip = tmp_path / "both.gif", tmp_path / "both.png"
    both = [run / "seed-0", run / "seed-1"]
    words = [f"--video={video}", f"--strip={strip}", "--size=160x120", "--json"]
    done = command("play", *both, *words)
    assert (done.code, done.err) == (0, "")
    episodes = json.loads(done.out)["episodes"]
    assert [row["run"] for row in episodes] == [str(folder) for folder in both]
    assert [row["seed"] for row in episodes] == [0, 1]
    frames = imageio.imread(video, index=None)
    assert frames.shape[1:3] == (120, 320)
    assert imageio.imread(strip).shape[0] == 240


def frames_of(count: int, shade: int) -> Played:
    pictures = [np.full((4, 6, 3), shade + t, np.uint8) for t in range(count)]
    return Played(Path("a"), 0, pictures, 10.0, 0.0, "terminated")


def test_who_has_ended_stands_still():
    drawn = beside([frames_of(2, 0), frames_of(5, 100)])
    assert [int(f[0, 0, 0]) for f in drawn] == [0, 1, 1, 1, 1]
    assert [int(f[0, -1, 0]) for f in drawn] == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("closed_after", [None, 2])
def test_a_window_shows_every_frame_until_it_is_closed(closed_after):
    """A stand-in for matplotlib's window that counts what is drawn."""
    drawn = []

    class Window:
        number = 1

        def add_axes(self, _):
            return self

        def set_axis_off(self): ...

        def imshow(self, _):
            return self

        def set_data(self, frame):
            drawn.append(int(frame[0, 0, 0]))

        def figure(self, **_):
            return self

        def pause(self, seconds):
            time.sleep(seconds)
            assert seconds <= 0.1

        def fignum_exists(self, _):
            return closed_after is None or len(drawn) < closed_after

        def show(self):
            drawn.append("waits")

    show(Window(), frames_of(4, 0).frames, 10.0)
    assert drawn == ([0, 1, 2, 3, "waits"] if closed_after is None else [0, 1])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "play: no window can open here; use --video FILE.mp4 or --strip FILE.png"),
        (["--video=a.avi"], "--video a.avi: must end in .mp4 or .webm or .gif"),
        (["--strip=a.jpg"], "--strip a.jpg: must end in .png"),
        (["--strip=a.png", "--seed=7"], "has no seed 7; it has 0, 1"),
        (["--strip=a.png", "--size=9x9"], "--size 9x9: must be like 480x360"),
        (["--strip=a.png", "--steps=0"], "--steps 0: must be at least 1"),
        (["--strip=a.png", "--episode=-1"], "--episode -1: must be at least 0"),
    ],
)
def test_what_cannot_be_played_is_2(run, words, line, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    done = command("play", run, *words)
    assert done.code == 2
    assert line in done.line


def test_no_run_and_no_policy(tmp_path):
    done = command("play", tmp_path, "--strip=a.png")
    assert done.code == 2
    assert "config.json" in done.line
