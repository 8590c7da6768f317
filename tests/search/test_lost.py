"""A search whose processes are lost: tried again, told, and no config without a policy."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.commands import command, environment, newest_checkpoint, status
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.small_runs import LQR, ended_alike, learners

from penfac.runs.csv_files import read_csv

DIES = "--env=tests.faults.rude_envs:Dies-v0"
TWO = ["--configs=2", "--halvings=0", "--seeds=7-7", "--name=test", "--processes=2"]
TUNED = Path("runs/tune/penfac/test")


def lose_the_end(home: Path) -> None:
    """As a process that was killed after it wrote its last rows and before it saved."""
    shutil.rmtree(newest_checkpoint(home))
    shutil.rmtree(home / "policy")
    told = status(home)
    update = int(newest_checkpoint(home).name.split("-")[1])
    told |= {"state": "running", "exit_code": None, "last_checkpoint": update}
    (home / "status.json").write_text(json.dumps(told))


def test_a_config_that_went_has_its_policy():
    """Its process was killed when its rows were written and its policy was not: what was
    lost is learned again, though the config is eliminated by then."""
    words = ["--configs=4", "--halvings=1", "--seeds=1000-1001", "--name=test"]
    assert command("tune", *LQR, *words, "--stop-after=0s", "--slice=8").code == 0
    again = ["resume", TUNED, "--checkpoint-every=0s", "--slice=8"]
    assert command(*again).code == 0
    shutil.copytree(TUNED, "whole")
    rows = read_csv(TUNED / "search.csv")
    gone = [r["config"] for r in rows if r["rung"] == "0" and r["kept"] == "0"]
    for home in learners(TUNED / gone[0]):
        lose_the_end(home)
    lose_the_end(learners(TUNED / rows[-1]["config"])[0])  # and one that stayed
    assert command(*again).code == 0
    ended_alike(TUNED, Path("whole"))
    assert (TUNED / "search.csv").read_bytes() == Path("whole/search.csv").read_bytes()


@pytest.mark.slow
def test_an_environment_that_leaves_is_no_score(monkeypatch):
    """SystemExit fails the config, whatever its code."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    result = command("tune", *LQR, "--env=tests.faults.rude_envs:Leaves-v0", *TWO)
    assert result.code == 4
    assert [row["score"] for row in read_csv(TUNED / "search.csv")] == ["failed"] * 2
    told = [status(file.parent) for file in TUNED.rglob("status.json")]
    assert any("step raised SystemExit: 0" in x["error"] for x in told)


@pytest.mark.slow
def test_processes_whose_folder_changes(monkeypatch):
    """One process trains config after config, wherever the environment leads it."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    words = ["--configs=3", "--halvings=0", "--seeds=7-7", "--name=test"]
    moves = "--env=tests.faults.rude_envs:Moves-v0"
    result = command("tune", *LQR, moves, *words, "--processes=1")
    assert (result.code, result.err) == (0, "")
    assert f"preset: {TUNED / 'best.toml'}" in result.out
    assert len(learners(TUNED)) == 3


@pytest.mark.slow
def test_a_process_that_is_lost_is_tried_again(monkeypatch, tmp_path):
    """It is told, and the search ends as if nothing had been."""
    for key, value in environment(DIES_ONCE=str(tmp_path / "died")).items():
        monkeypatch.setenv(key, value)
    result = command("tune", *LQR, DIES, *TWO)
    assert (result.code, result.err) == (0, "")
    assert "its process was killed by SIGSEGV; it is tried again" in result.out
    assert (TUNED / "best.toml").is_file()


@pytest.mark.slow
def test_a_process_that_is_always_lost_stops_the_search(monkeypatch):
    """One line that says how it ended; the search can go on."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    result = command("tune", *LQR, DIES, *TWO)
    assert result.code == 1
    assert "its process was killed by SIGSEGV, 3 times" in result.line
    assert not (TUNED / "search.csv").exists()
