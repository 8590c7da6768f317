"""`penfac study plan|run|status|report paper`, and one line for whatever cannot be."""

import json
from pathlib import Path

import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.campaign.small_campaign import Quick
from tests.studies.study_folders import here

SMALL = ("--seeds=2", "-n", "20k", "--fidelity=tuned")
SOME = "--studies=fig1,fig4,per-step"
RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def quick(monkeypatch):
    return Quick(monkeypatch)


def test_a_plan_says_what_everything_costs():
    shown = command("study", "plan", "paper", "--trial=0")
    assert (shown.code, shown.err) == (0, "")
    assert "51 verdicts" in shown.out
    assert "hours are not known" in shown.out
    assert not Path("studies").exists()
    rows = json.loads(command("study", "plan", "paper", "--trial=0", "--json").out)
    assert len(rows) == 27
    (fig7,) = [row for row in rows if row["study"] == "fig7-tuned"]
    assert (fig7["runs"], fig7["shared"]) == (0, 240)


def test_the_short_size_of_every_study_runs_and_is_reported(quick):
    """All of the paper with two seeds, but for the learning itself."""
    ran = command("study", "run", "paper", *SMALL)
    assert (ran.code, ran.err) == (0, "")
    assert "fig4-tuned: 100%, done" in ran.out
    assert "studies/paper" in ran.out
    assert len(quick.ran) == len(set(quick.ran))
    status = json.loads(command("study", "status", "paper", "--json").out)
    assert all(row["finished"] == row["runs"] for row in status)
    assert sum(row["runs"] for row in status) > len(quick.ran)  # some are shared
    again = command("study", "run", "paper", *SMALL)
    assert again.code == 0
    assert len(quick.ran) == len(set(quick.ran))


@pytest.mark.slow
def test_the_short_size_learns(monkeypatch):
    """With real runs of real tasks, in minutes."""
    here(monkeypatch)
    small = ("--seeds=2", "-n", "2k", "--eval-episodes=1", "--fidelity=tuned")
    ran = command("study", "run", "paper", "--studies=learning-rate,constants", *small)
    assert (ran.code, ran.err) == (0, "")
    assert "finished: 16 finished in 2 studies" in ran.out


def test_a_report_has_every_verdict_and_links_every_study(quick):
    command("study", "run", "paper", *SMALL, SOME)
    told = command("study", "report", "paper")
    assert (told.code, told.err) == (0, "")
    home = Path("studies/paper/report")
    page, text = (home / "index.html").read_text(), (home / "report.md").read_text()
    for study in ("fig1-tuned", "fig4-tuned", "per-step-tuned"):
        assert (home / study / "index.html").is_file()
        assert f'href="{study}/index.html"' in page
        assert f"[{study}]({study}/report.md)" in text
    assert "51 verdicts" in page
    assert page.count('class="badge not-run"') > 30  # those of the other studies
    assert "fig3-authors" in page
    assert "javascript" not in page.lower()


def test_a_budget_of_nothing_lands_curves(quick):
    args = (*SMALL, "--studies=fig1")
    command("study", "run", "paper", *args)
    command("study", "report", "studies/paper/fig1-tuned", "--into", "far")
    quick.ran.clear()
    done = command(
        "study", "run", "paper", *args, "--name=other", "--with=far", "--budget=0"
    )
    assert done.code == 0
    assert "fig1-tuned: 10 runs were made elsewhere" in done.out
    assert quick.ran == []
    rows = json.loads(command("study", "status", "studies/other", "--json").out)
    assert [(row["finished"], row["runs"]) for row in rows] == [(10, 10)]


def test_a_study_alone_can_be_planned_too():
    shown = command("study", "plan", "fig4", "--seeds=3", "--trial=0", "--json")
    (row,) = json.loads(shown.out)
    assert (row["study"], row["runs"]) == ("fig4-authors", 24)


def test_reports_of_results_are_one_page():
    """With a study of the paper in it, the others are told as not run."""
    some = Path("some")
    for name in ("fig2-authors", "learning-rate-tuned"):
        (some / name).mkdir(parents=True)
        for file in ("made.json", "curves.csv"):
            (some / name / file).write_bytes((RESULTS / name / file).read_bytes())
    told = command("study", "report", some, "--into", "page", "--json")
    assert told.code == 0
    document = json.loads(told.out)
    linked = [s["study"] for s in document["studies"] if s["report"]]
    assert linked == ["fig2-authors", "learning-rate-tuned"]
    assert len(document["studies"]) == 27
    assert not (some / "report").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run paper --arms penfac", "--arms penfac: is for one study; give --studies"),
        ("run paper --studies fig9", "--studies fig9: no such study"),
        ("run paper --budget soon", "--budget soon: must be a time"),
        ("run paper --with nowhere", "--with nowhere: has no report"),
        ("run paper --seeds 1", "--seeds 1: must be at least 2"),
        ("run paper --on moon", "--on moon: must be one of local, ray, device"),
        ("run paper --settings x.toml", "--settings x.toml: must be a folder"),
        ("run fig4 --budget 1h", "--budget: is for `paper`, not for fig4"),
        ("run fig4 --studies fig4", "--studies: is for `paper`, not for fig4"),
        ("run paper --name a/b", "--name a/b: must be a plain folder name"),
        ("show paper", "paper: is all studies; `penfac study plan paper` shows them"),
        ("tune paper", "paper: is all studies"),
        ("plan papre", "papre: no such study"),
        ("plan paper --fidelity best", "--fidelity best: must be one of"),
        ("plan paper --trial x", "--trial x: must be a time"),
        ("report paper", "paper"),
        ("status paper", "paper"),
    ],
)
def test_what_cannot_be_is_one_line(words, told):
    refused = command("study", *words.split())
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.line
    assert not Path("studies").exists()
