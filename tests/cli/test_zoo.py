"""`penfac zoo`: the policies that come along, and how entries are made from runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs import make_zoo
from tests.faults.commands import BAD, ROOT, TINY, command, environment
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import LQR

from penfac import Policy, zoo
from penfac.errors import ConfigError, CorruptFile
from penfac.runs.run import Run

ENTRIES = zoo.entries()
RUN = Path("runs/penfac/test")


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_is_whole_and_small(name):
    """A config that is read today, a policy that acts, and both say the same as the entry."""
    folder, entry = zoo.folder_of(name), ENTRIES[name]
    config, policy = Run.open(folder).config, Policy.load(folder)
    assert (config.env, config.algo, config.seeds) == (
        entry.env, entry.algo, (entry.seed,)
    )  # fmt: skip
    assert (policy.about["step"], policy.about["seed"]) == (entry.steps, entry.seed)
    assert np.isfinite(policy(np.zeros(len(policy.weights.mean)))).all()
    assert sum(f.stat().st_size for f in folder.rglob("*")) < 1.1 * make_zoo.LARGEST
    assert {f.name for f in folder.iterdir()} == {"config.json", "entry.json", "policy"}


def test_list():
    shown, document = command("zoo", "list"), command("zoo", "list", "--json")
    assert (shown.code, shown.err) == (0, "")
    rows = json.loads(document.out)
    assert [row["name"] for row in rows] == list(ENTRIES)
    assert len(rows) >= 2
    for name in ENTRIES:
        assert name in shown.out


def test_eval():
    """Below its return by at most what ten episodes scatter."""
    name = next(iter(ENTRIES))
    result = command("zoo", "eval", name, "--episodes=2", "--json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    entry = ENTRIES[name]
    assert report["run"] == name
    assert report["stated"]["mean"] == entry.mean
    assert report["mean"] == pytest.approx(entry.mean, abs=4 * entry.std + 1)
    shown = command("zoo", "eval", name, "--episodes=1")
    assert f"zoo: {entry.mean:.1f}" in shown.out


@pytest.mark.slow
def test_play():
    words = ["cartpole-penfac", "--strip=cart.png", "--steps=20"]
    result = command("zoo", "play", *words)
    assert (result.code, result.err) == (0, "")
    assert "cartpole-penfac seed 0" in result.out
    assert Path("cart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("verb", ["eval", "play"])
def test_an_unknown_name(verb):
    result = command("zoo", verb, "../../etc")
    assert (result.code, result.out) == (2, "")
    assert "../../etc: is not in the zoo; there are " in result.line


def test_a_damaged_entry(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / zoo.FILE).write_text('{"env": 5}')
    with pytest.raises(CorruptFile, match="is no entry of the zoo"):
        zoo.entries(tmp_path)


# --- the maker --------------------------------------------------------------------------------


def test_an_entry_is_made_from_a_run(tmp_path):
    """The policy of a seed, byte for byte; its return is that of `penfac eval`."""
    words = ["train", *LQR, "--seeds=2", "--name=test"]
    assert command(*words).code == 0
    folder = make_zoo.make(RUN, "lqr-penfac", seed=1, episodes=3, home=tmp_path)
    file = "policy/policy.safetensors"
    assert (folder / file).read_bytes() == (RUN / "seed-1" / file).read_bytes()
    entry = zoo.entries(tmp_path)["lqr-penfac"]
    said = json.loads(command("eval", RUN, "--episodes=3", "--json").out)
    assert entry.mean == said["seeds"][1]["mean"]
    assert (entry.seed, entry.steps, entry.episodes) == (1, 200, 3)
    with pytest.raises(ConfigError, match="exists; remove it first"):
        make_zoo.make(RUN, "lqr-penfac", home=tmp_path)
    shutil.rmtree(folder)
    assert zoo.entries(tmp_path) == {}
    best = make_zoo.make(RUN, "lqr-best", best=True, episodes=1, home=tmp_path)
    wanted = (RUN / "seed-0/policy-best/policy.safetensors").read_bytes()
    assert (best / file).read_bytes() == wanted


def test_what_makes_no_entry(tmp_path, monkeypatch):
    """A name that is no folder, an environment that others have not, no run."""
    assert command("train", "--env", f"{BAD}Plain-v0", *TINY, "--name=test").code == 0
    for run, name, told in (
        (RUN, "Bad Name", "small letters"),
        (RUN, "plain", "exists in your program only"),
        (Path("nowhere"), "plain", "no such run folder"),
    ):
        with pytest.raises(ConfigError, match=told):
            make_zoo.make(run, name, home=tmp_path)
    assert list(tmp_path.glob("*/entry.json")) == []
    words = [sys.executable, "-m", "docs.make_zoo", "nowhere", "plain"]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "make_zoo: nowhere: no such run folder\n"
