"""The page of claims: made from the files of reports, and of nothing else."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.test_findings import HOME, LONG, finished, reported

from penfac.errors import CorruptFile
from penfac.studies import ledger
from penfac.studies.findings import findings
from penfac.studies.ledger import cell, claims_page, read_made, short, verdict_cells
from penfac.studies.paper import FIDELITIES, PAPER, fidelities_of, paper_study
from penfac.studies.plan import read_plan

RESULTS = Path(__file__).parents[2] / "results"
FILES = ("curves.csv", "made.json")


def kept(monkeypatch, **given) -> tuple[Path, dict]:
    """The files of a report of the small study, and what it found."""
    finished(monkeypatch, LONG, **given)
    files, found = reported(), findings(HOME)
    folder = Path("kept")
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(files[name])
    return folder, found


def test_files_of_a_report_give_its_verdicts_again(monkeypatch):
    folder, found = kept(monkeypatch)
    study = read_plan(HOME).study
    shutil.rmtree(HOME)
    (told,) = verdict_cells(study, read_made(folder))
    (claim,) = found["claims"]
    needed = claim["seeds_needed"]
    assert claim["verdict"] == "not shown"
    assert told == f"not shown (3 seeds, 300 steps; 10 % takes {needed} seeds)"


def test_a_failed_seed_still_counts(monkeypatch):
    """curves.csv does not tell who failed; made.json does."""
    folder, _ = kept(monkeypatch)
    study = read_plan(HOME).study
    file = folder / "made.json"
    made = json.loads(file.read_text())
    made["unfinished"] = [[study.envs[0], "wide", 2, "missing"]]
    file.write_text(json.dumps(made))
    (told,) = verdict_cells(study, read_made(folder))
    assert "(2 seeds" in told
    made["unfinished"] = [[study.envs[0], "wide", 2, "failed"]]
    file.write_text(json.dumps(made))
    (told,) = verdict_cells(study, read_made(folder))
    assert "(3 seeds" in told


def test_runs_of_other_settings_are_marked(monkeypatch):
    """Only where a run reads them."""
    folder, _ = kept(monkeypatch)
    study = read_plan(HOME).study
    arms = study.arms
    for key, value, marked in (
        ("lam", 0.5, True),
        ("episodes_per_update", 99, False),  # steps are collected
    ):
        wide = replace(arms[0], settings=arms[0].settings | {key: value})
        changed = replace(study, arms=(wide, arms[1]))
        (told,) = verdict_cells(changed, read_made(folder))
        assert ("earlier settings" in told) is marked


def test_a_cell_says_what_a_reader_must_know():
    study = paper_study("fig2", "authors")
    made = read_made(RESULTS / "fig2-authors")
    assert made is not None
    (told,) = verdict_cells(study, made)
    assert "10 of 60 seeds, 1M of 20M steps" in told
    assert "final contradicted, area not shown" in told
    study = paper_study("fig4", "authors")
    made = read_made(RESULTS / "fig4-authors")
    assert made is not None
    told = verdict_cells(study, made)[-1]
    acted = (RESULTS / "fig4-authors" / "acting.csv").exists()
    assert ("whether beta above beta_min is not known" in told) is not acted


def test_a_claim_of_which_a_part_was_not_run():
    study = paper_study("fig2", "authors")
    found = {
        "verdict": "not shown", "seeds": 5, "measures": {"final": "not shown"},
        "by_measure": {}, "seeds_needed": None, "warnings": [],
        "comparisons": [{"verdict": "holds"}, {"verdict": "not run"}],
    }  # fmt: skip
    made = ledger.Made(10**6, {}, [])
    told = cell(study, study.claims[0], found, made)
    assert told == "not shown (5 of 60 seeds, 1M of 20M steps; 1 of 2 not run)"


def test_every_study_of_the_paper_has_its_rows_without_any_report(tmp_path):
    page = claims_page(tmp_path)
    cells = {1: "| as tuned | not run yet |", 2: "| not run yet | not run yet |"}
    for number, text in cells.items():
        names = [name for name in PAPER if len(fidelities_of(name)) == number]
        count = sum(len(paper_study(name, "tuned").claims) for name in names)
        assert page.count(text) == count > 0


def test_a_verdict_links_its_report(tmp_path):
    folder = tmp_path / "results" / "fig2-authors"
    folder.mkdir(parents=True)
    for file in ("made.json", "curves.csv", "report.md"):
        shutil.copy(RESULTS / "fig2-authors" / file, folder)
    page = claims_page(tmp_path / "results", tmp_path / "docs")
    link = "(../results/fig2-authors/report.md)"
    assert f"| [contradicted]{link} (10 of 60 seeds" in page
    assert link not in claims_page(tmp_path / "results")


@pytest.mark.parametrize("name", PAPER)
def test_both_fidelities_claim_the_same(name):
    """A row has a cell for each."""
    first, second = (paper_study(name, fidelity).claims for fidelity in FIDELITIES)
    assert [c.words for c in first] == [c.words for c in second]


def test_the_command_prints_or_writes(tmp_path):
    done = command("study", "claims", tmp_path)
    assert (done.code, done.out) == (0, claims_page(tmp_path))
    file = tmp_path / "claims.md"
    assert command("study", "claims", tmp_path, "--into", file).code == 0
    assert file.read_text() == done.out
    refused = command("study", "claims", "nowhere")
    assert (refused.code, refused.out) == (2, "")
    assert "nowhere: no such folder" in refused.line


@pytest.mark.parametrize("text", ["", "{", "[]", '{"arms": 1}'])
def test_a_made_json_that_penfac_did_not_write(text, tmp_path):
    (tmp_path / "made.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"is not a made\.json that penfac wrote"):
        read_made(tmp_path)


def test_steps_as_people_say_them():
    told = [short(n) for n in (20_000_000, 500_000, 2_000, 1_234)]
    assert told == ["20M", "500k", "2k", "1234"]
