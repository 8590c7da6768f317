"""A run begun before PeNFAC had minibatches: it is read, resumed and judged as it was.

`earlier/run` is the folder that the version before left of four updates on the regulator.
"""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.commands import command, status

from penfac.runs.csv_files import read_csv
from penfac.settings.registry import SETTINGS

EARLIER = SETTINGS["penfac"].earlier
FOLDER = Path(__file__).with_name("earlier") / "run"


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "run"))


def test_it_goes_on_with_the_settings_it_had(run):
    before = (run / "progress.csv").read_bytes()
    assert command("resume", run, "-n", 800).code == 0
    assert status(run)["state"] == "finished"
    rows = read_csv(run / "progress.csv")
    assert [int(row["update"]) for row in rows] == list(range(1, 9))
    assert (run / "progress.csv").read_bytes().startswith(before)  # the same columns
    config = json.loads((run / "config.json").read_text())["config"]
    assert {key: config[key] for key in EARLIER} == EARLIER


def test_its_policy_is_judged_and_exported(run, tmp_path):
    assert command("eval", run, "--episodes", 2).code == 0
    assert command("export", run, "--c", tmp_path / "policy.h").code == 0


def test_its_finished_folder_is_left_alone(run):
    before = (run / "progress.csv").read_bytes(), (run / "evaluations.csv").read_bytes()
    assert command("resume", run).code == 0
    after = (run / "progress.csv").read_bytes(), (run / "evaluations.csv").read_bytes()
    assert after == before
