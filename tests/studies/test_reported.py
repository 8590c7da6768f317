"""A report made again from its own files, after the runs are gone."""

import json
import shutil
from pathlib import Path

import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.test_findings import HOME, LONG, ended, finished

from penfac.errors import ConfigError, CorruptFile
from penfac.studies import publish
from penfac.studies.findings import findings
from penfac.studies.reported import findings_again

KEPT = Path("kept")
NEW = {"folder", "gaits", "changed", "elsewhere", "acting", "newer"}  # of runs alone


@pytest.fixture
def found(monkeypatch, in_own_folder):  # noqa: F811
    """What a study found, one run of which failed; the files of its report; no runs."""
    paths = finished(monkeypatch, LONG)
    ended(paths["wide", 2], "failed", 4, "NaN <in> the critic")
    found = findings(HOME)
    publish.publish(found, KEPT)
    shutil.rmtree(HOME)
    return found


def rounded(value):
    """Numbers as curves.csv keeps them."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-4)
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def test_the_findings_are_those_of_the_runs(found):
    """Errors of failed runs and the claims of a study that is not the paper's too."""
    again = json.loads(json.dumps(findings_again(KEPT)))
    before = json.loads(json.dumps(found))
    for key in found.keys() - NEW:
        assert again[key] == rounded(before[key]), key
    assert again["counts"]["failed"] == 1
    assert again["claims"][0]["verdict"] == found["claims"][0]["verdict"]


def test_the_command_writes_the_report_again_and_changes_no_file_it_reads(found):
    read = {name: (KEPT / name).read_bytes() for name in ("curves.csv", "made.json")}
    report = (KEPT / "report.md").read_text()
    (KEPT / "report.md").unlink()
    (KEPT / "index.html").unlink()
    done = command("study", "report", KEPT, "--into", KEPT)
    assert done.code == 0, done.err
    assert "Cost" in report
    wanted = report.replace(f"- Folder: {HOME}", f"- Folder: {KEPT}")
    assert (KEPT / "report.md").read_text() == wanted
    assert "NaN &lt;in&gt; the critic" in (KEPT / "index.html").read_text()
    made = json.loads(read["made.json"])
    assert (KEPT / "curves.csv").read_bytes() == read["curves.csv"]
    assert json.loads((KEPT / "made.json").read_text()) == made


def test_arms_with_other_settings_and_a_remark_stand_at_the_head(found):
    file = KEPT / "made.json"
    made = json.loads(file.read_text())
    made["arms"][0]["config"]["lam"] = 0.123
    made["remark"] = "Two arms ran by hand."
    file.write_text(json.dumps(made))
    assert findings_again(KEPT)["changed"] == [made["arms"][0]["name"]]
    assert command("study", "report", KEPT, "--into", KEPT).code == 0
    report = (KEPT / "report.md").read_text()
    assert "> Two arms ran by hand." in report
    assert "> Other settings than the study has today: wide." in report


def test_a_report_that_cannot_be_made_again_is_refused(found):
    refused = command("study", "report", KEPT, "--with", KEPT / "curves.csv")
    assert refused.code == 2
    assert "give the folder of its study" in refused.line
    file = KEPT / "made.json"
    made = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in made.items() if k != "study"}))
    with pytest.raises(ConfigError, match="without its claims"):
        findings_again(KEPT)
    file.write_text(json.dumps(made | {"study": {"arms": 3}}))
    with pytest.raises(CorruptFile, match=r"is not a made\.json"):
        findings_again(KEPT)
    file.write_text(json.dumps({k: v for k, v in made.items() if k != "versions"}))
    with pytest.raises(CorruptFile, match=r"is not a made\.json"):
        findings_again(KEPT)
    nothing = command("study", "report", "nowhere")
    assert nothing.code == 2
