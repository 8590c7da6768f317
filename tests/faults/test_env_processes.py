"""Whole runs whose environments are in other processes: the same files, kills included."""

import json
from pathlib import Path

import pytest
from tests.faults.commands import (
    BAD,
    TINY,
    at,
    command,
    command_alone,
    met_by_signals,
    newest_state,
    same_end,
    status,
)
from tests.faults.test_bad_envs import reset_seeds

from penfac.runs.csv_files import read_csv

THREE = [*TINY, "--set=episodes_per_update=3", "--set=min_steps_per_update=1"]
STEPS = [*TINY, "--set=collect=steps", "--set=worlds=3", "--set=steps_per_world=14"]


def train(env: str, name: str, workers: int, *more: object):
    words = "--env", f"{BAD}{env}-v0", "--name", name, "--env-workers", workers
    return command("train", *words, *more)


@pytest.mark.parametrize("how", [THREE, STEPS], ids=["episodes", "steps"])
def test_a_run_ends_the_same_with_any_number_of_processes(how):
    for workers in (0, 2):
        assert train("Plain", f"w{workers}", workers, *how).code == 0
    assert "2 processes step" in Path("runs/penfac/w2/log.txt").read_text()
    same_end(Path("runs/penfac/w0"), Path("runs/penfac/w2"))


def test_a_process_that_dies_is_an_environment_fault():
    """Message, exit code, fault.json and what is saved: as if the world had raised."""
    chosen = "--env-arg", f"chosen={reset_seeds(0, 7)}"
    raised, died = (
        train(f"{kind}InChosen", kind, 2, *THREE, *chosen)
        for kind in ("Raises", "Dies")
    )
    assert raised.code == died.code == 3
    assert "its process was killed by SIGKILL" in died.line
    faults = [
        json.loads(Path(f"runs/penfac/{kind}/fault.json").read_text())
        for kind in ("Raises", "Dies")
    ]
    for key in ("seed", "episode", "step", "reset_seed", "action"):
        assert faults[0][key] == faults[1][key], key
    assert status(Path("runs/penfac/Dies"))["resumable"]


def test_restarts_count_the_processes_that_died():
    """Broken episodes are discarded, and nothing else of the run changes."""
    chosen = "--env-arg", f"chosen={reset_seeds(0, 1, 4)}", "--env-restarts", 2
    for kind in ("Raises", "Dies"):
        assert train(f"{kind}InChosen", kind, 2, *THREE, *chosen).code == 0
    raised, died = Path("runs/penfac/Raises"), Path("runs/penfac/Dies")
    for name, array in newest_state(raised).items():
        if name != "policy-best":  # which names its environment
            assert array.tobytes() == newest_state(died)[name].tobytes(), name
    rows = [read_csv(run / "progress.csv") for run in (raised, died)]
    assert rows[0] == rows[1]
    assert [row["faults"] for row in rows[0]][-1] == "2"


@pytest.mark.slow
def test_a_hanging_call_of_another_process_is_left(tmp_path):
    words = "--env", f"{BAD}Hangs-v0", *THREE, "--name", "test", "--env-workers", "2"
    result = command_alone("train", *words, "--env-timeout", "0.5s", cwd=tmp_path)
    assert result.code == 3
    assert "a call lasted more than 0.5 s" in result.line


@pytest.mark.slow
def test_a_killed_run_goes_on_with_another_number_of_processes(tmp_path):
    longer = [*STEPS, "--steps=500", "--eval-every=100"]
    assert train("Plain", "whole", 0, *longer, "--out", tmp_path / "runs").code == 0
    first = ["train", "--env", f"{BAD}Plain-v0", *longer, "--name=test"]
    again = ["resume", "runs/penfac/test", "--trust"]
    words = ["--checkpoint-every=0s", "--env-workers"]
    ends = met_by_signals(
        tmp_path,
        [
            {"argv": [*first, *words, "2"], "at": at("collect", 40)},
            {
                "argv": [*again, *words, "0"],
                "at": at("update", 2),
            },
            {"argv": [*again, *words, "3"]},
        ],
    )
    assert [end["code"] for end in ends] == [-9, -9, 0]
    same_end(tmp_path / "runs/penfac/test", tmp_path / "runs/penfac/whole")
