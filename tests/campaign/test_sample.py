"""A sample of the campaign: the first cases of every group but the soak, seed by seed alike."""

import json
import subprocess
import sys

import pytest
from tests.campaign.tables import ROOT
from tests.faults.commands import environment

GROUPS = "kills,writes,damage,environments,places,signals,faults"
SECONDS = 180


@pytest.mark.slow
def test_a_sample_holds(tmp_path):
    said = tmp_path / "campaign.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaign", "--only", GROUPS, "--sample", str(SECONDS),
         "--json", str(said), "--home", str(tmp_path / "home")],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = json.loads(said.read_text())["groups"]
    for name in GROUPS.split(","):
        assert found[name]["tried"] > 0, name
