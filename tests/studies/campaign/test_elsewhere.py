"""Curves that were made elsewhere count, each seed once."""

import csv
import shutil
from pathlib import Path

import pytest
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.campaign.small_campaign import (
    FIRST,
    HOME,
    SECOND,
    Quick,
    members,
    run_both,
)
from tests.studies.small_study import LQR

from penfac.errors import ConfigError
from penfac.studies import plan, progress, publish
from penfac.studies.campaign import elsewhere
from penfac.studies.campaign.members import Member
from penfac.studies.campaign.run import Ask
from penfac.studies.findings import findings
from penfac.studies.spec import with_budget

FAR, REPORTS = Path("far/away"), Path("reports")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    return Quick(monkeypatch)


def brought(quick, listed=None) -> tuple[elsewhere.Report, ...]:
    """The reports of studies that another machine ran, and nothing else of them."""
    run_both(listed, home=FAR)
    for study in sorted(FAR.glob("*/study.json")):
        name = study.parent.name
        publish.publish(findings(study.parent), REPORTS / name)
        (REPORTS / name / "findings.json").unlink()
    shutil.rmtree(FAR)
    quick.ran.clear()
    return tuple(elsewhere.reports_in(REPORTS))


def rows(study: str, home: Path = HOME) -> list[tuple[str, ...]]:
    """Every evaluation of a report, to compare without their order."""
    publish.publish(findings(home / study), Path("told"))
    with open("told/curves.csv", newline="") as file:
        return sorted(tuple(row.values()) for row in csv.DictReader(file))


def test_nothing_is_run_that_was_made_elsewhere(quick):
    reports, said = brought(quick), []
    outcome = run_both(ask=Ask(reports=reports), said=said)
    assert outcome.exit_code == 0
    assert quick.ran == []
    assert "first: 4 runs were made elsewhere" in said
    for study in ("first", "second"):
        found = findings(HOME / study)
        assert found["counts"] == {
            "finished": 4,
            "running": 0,
            "failed": 0,
            "missing": 0,
        }
        assert found["elsewhere"]["runs"] == 4
        assert progress.read_progress(HOME / study)["finished"] == 4
        with open(REPORTS / study / "curves.csv", newline="") as file:
            wanted = sorted(tuple(row.values()) for row in csv.DictReader(file))
        assert rows(study) == wanted


def test_curves_of_one_study_land_in_another_under_its_own_name(quick):
    """`narrow` of the first is `usual` of the second."""
    reports = brought(quick, [Member(FIRST, (0, 1))])
    run_both([Member(SECOND, (0, 1))], ask=Ask(reports=reports))
    assert quick.ran == [f"second {LQR} far seed {k}" for k in (0, 1)]
    assert {row[1] for row in rows("second")} == {"usual", "far"}


def test_a_seed_that_is_here_is_not_counted_again(quick):
    reports = brought(quick)
    run_both()
    before = rows("first")
    said = []
    run_both(ask=Ask(reports=reports), said=said)
    assert said == []  # nothing landed
    assert rows("first") == before
    run_both(members(seeds=(0, 1, 2)), ask=Ask(reports=reports))
    assert findings(HOME / "first")["counts"]["finished"] == 6


def test_landing_twice_is_landing_once(quick):
    reports, said = brought(quick), []
    for _ in range(2):
        run_both(ask=Ask(budget=0.0, reports=reports), said=said)
    assert len(said) == 2  # one line for each study, once
    assert len(rows("first")) == len(set(rows("first")))


def test_seeds_that_are_missing_are_run(quick):
    """Of three seeds two were made elsewhere; the third is run."""
    reports = brought(quick)
    outcome = run_both(members(seeds=(0, 1, 2)), ask=Ask(reports=reports))
    assert outcome.exit_code == 0
    assert len(quick.ran) == 3
    assert {who[-1] for who in quick.ran} == {"2"}
    assert findings(HOME / "first")["counts"]["finished"] == 6


def test_a_study_that_comes_later_inherits_what_landed(quick):
    """It shares an arm with one whose curves landed before, and has no report itself."""
    reports = brought(quick, [Member(FIRST, (0, 1))])
    run_both([Member(FIRST, (0, 1))], ask=Ask(reports=reports))
    shutil.rmtree(REPORTS)
    run_both([Member(SECOND, (0, 1))])
    assert plan.read_plan(HOME / "second").shared[LQR].keys() == {"usual"}
    assert findings(HOME / "second")["counts"]["finished"] == 4
    assert quick.ran == [f"second {LQR} far seed {k}" for k in (0, 1)]


@pytest.mark.parametrize(
    "other", [{"steps": 200}, {"eval_every": 50}, {"eval_episodes": 1}]
)
def test_runs_of_another_budget_do_not_count(quick, other):
    reports = brought(quick, [Member(with_budget(FIRST, **other), (0, 1))])
    run_both([Member(FIRST, (0, 1))], ask=Ask(reports=reports))
    assert findings(HOME / "first")["elsewhere"]["runs"] == 0


def test_a_run_that_failed_elsewhere_is_run_here(quick):
    brought(quick, [Member(FIRST, (0, 1))])
    made = REPORTS / "first" / "made.json"
    text = made.read_text().replace(
        '"unfinished": []', f'"unfinished": [["{LQR}", "wide", 1, "failed"]]'
    )
    made.write_text(text)
    reports = tuple(elsewhere.reports_in(REPORTS))
    run_both([Member(FIRST, (0, 1))], ask=Ask(reports=reports))
    assert quick.ran == [f"first {LQR} wide seed 1"]


def test_a_folder_without_reports_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="has no report"):
        elsewhere.reports_in(tmp_path)
