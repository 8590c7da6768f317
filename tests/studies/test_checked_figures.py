"""A study publishes what its checkpoints vouch for, and tells of the rest."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.test_findings import HOME, begun, ended, judged

from penfac.runs.checkpoints import Meta
from penfac.runs.config import read_config
from penfac.runs.folder import RunFolder
from penfac.studies import findings, progress

WEIGHTS = {"weights": np.zeros(10_000, np.float32)}


def vouched(path: Path, update: int = 3) -> None:
    """A checkpoint of the rows that are there."""
    meta = Meta(read_config(path).identity(), {"step": 10 * update}, {})
    RunFolder(path).save_checkpoint(update, WEIGHTS, meta)


@pytest.fixture
def runs(monkeypatch) -> list[Path]:
    """A study of two arms and two seeds, all finished."""
    folders = list(begun(monkeypatch, seeds=(0, 1)).values())
    for k, path in enumerate(folders):
        judged(path, [1.0 + k, 2.0 + k, 3.0 + k])
        ended(path)
        vouched(path)
    return folders


def refused(run: Path) -> None:
    """Both commands stop, and name the run."""
    for verb in ("status", "report"):
        result = command("study", verb, HOME)
        assert result.code == 5
        assert str(run) in result.line
    assert not (HOME / "report").exists()


@pytest.mark.parametrize("how", ["edited", "cut", "emptied", "removed"])
def test_rows_that_no_checkpoint_knows_are_not_published(how, runs):
    file = runs[2] / "evaluations.csv"
    data = file.read_bytes()
    if how == "removed":
        file.unlink()
    else:
        changed = {"edited": data.replace(b"3.5", b"9.5"), "cut": data[:-9]}
        file.write_bytes(changed.get(how, b""))
    refused(runs[2])
    file.write_bytes(data)
    assert command("study", "report", HOME).code == 0


def test_a_finished_seed_without_figures_is_not_dropped(runs):
    shutil.rmtree(runs[1] / "checkpoints")
    (runs[1] / "evaluations.csv").unlink()
    refused(runs[1])


def test_rows_newer_than_the_checkpoint_are_counted(runs):
    assert "newer" not in command("study", "report", HOME).out
    with open(runs[0] / "evaluations.csv", "a") as file:
        file.write("30,3,0,mean,5.0,5,0\n30,3,1,mean,6.0,5,0\n")
    for verb in ("status", "report"):
        said = command("study", verb, HOME).out
        assert "2 rows newer than the checkpoint" in said


def test_a_study_whose_runs_were_trained_otherwise_is_2(runs):
    """Edited in study.json and in config.json alike, and only the checkpoint knows."""
    for file in HOME.rglob("*.json"):
        if file.name in ("study.json", "config.json"):
            text = file.read_text()
            file.write_text(text.replace('"sigma": 0.4', '"sigma": 0.3'))
    result = command("study", "report", HOME)
    assert result.code == 2
    assert "changed since the checkpoint: config.sigma: 0.4 -> 0.3" in result.line


@pytest.mark.slow
def test_checking_a_thousand_runs_takes_seconds(monkeypatch):
    """A hundred evaluations each; a reader opens no arrays."""
    folders = begun(monkeypatch, seeds=tuple(range(600))).values()
    for path in folders:
        judged(path, [1.0] * 100)
        ended(path)
        vouched(path)
    began = time.process_time()
    findings.findings(HOME)
    progress.read_progress(HOME)
    assert time.process_time() - began < 20, json.dumps(len(folders))
