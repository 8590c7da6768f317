"""The numbers of pages are those that the files of results/ make; none is typed."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from docs import marks, measured, pictures
from scipy import stats as scipy_stats

from penfac.bench.figures import Figures
from penfac.report.markdown import markdown
from penfac.studies.reported import findings_again

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def each_page():
    return pytest.mark.parametrize("path", marks.PAGES, ids=lambda p: p.name)


# --- pages ---------------------------------------------------------------------------


@each_page()
def test_a_page_is_the_one_that_the_results_make(path):
    """`make tables` writes it, byte for byte."""
    text = path.read_text(encoding="utf-8")
    assert text == marks.render(text)


@each_page()
def test_no_measured_number_is_typed(path):
    assert marks.typed(path.read_text(encoding="utf-8")) == []


@each_page()
def test_marks_are_complete_and_do_not_begin_a_line(path):
    """A comment at the beginning of a line ends a paragraph on GitHub."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"^ *<!--\{", text, re.M)
    assert text.count("<!--/-->") == len(marks.NUMBER.findall(text))
    assert text.count("<!--made-->") == len(marks.MAKE.findall(text))
    assert text.count("<!--let") == len(marks.LET.findall(text))
    assert text.count("<!--notes-->") == text.count("<!--end of notes-->")


def test_a_number_that_is_not_the_file_s_is_made_again():
    text = (
        '<!--let\nhop = last("learning/hopper-ppo")\n-->\n<!--{n(hop)}-->19<!--/-->\n'
    )
    text += "<!--make\n| seeds | {n(hop)} |\n-->\n\n| seeds | 18 |\n\n<!--made-->\n"
    again, seeds = marks.render(text), len(raw("learning/hopper-ppo.csv"))
    assert seeds not in (18, 19)
    assert f"-->{seeds}<!--/-->" in again
    assert f"\n\n| seeds | {seeds} |\n\n" in again
    assert "19" not in again


@pytest.mark.parametrize("number", ["2 644", "x +- 12", "[-1.5, 3]", "has 189 at"])
def test_a_typed_number_is_found_and_one_in_notes_is_not(number):
    assert marks.typed(f"The return is {number}.\n")
    assert not marks.typed(f"<!--notes-->\n{number}\n<!--end of notes-->\n")
    assert not marks.typed(f"<!--{{x}}-->{number}<!--/-->\n")


# --- scores against their definition -------------------------------------------------


def raw(name: str) -> dict[int, np.ndarray]:
    """Return (steps, returns) of each seed, read without measured.py."""
    with (RESULTS / name).open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {
        int(seed): np.array(
            [
                (float(r["step"]), float(r["return"]))
                for r in rows
                if r["seed"] == str(seed)
            ]
        ).T
        for seed in {r["seed"] for r in rows}
    }


def test_scores_are_those_of_the_curves():
    curves = raw("learning/hopper-ppo.csv")
    last = measured.last("learning/hopper-ppo")
    assert last == pytest.approx({s: c[1, -3:].mean() for s, c in curves.items()})
    some = range(5000, 5003)
    at = measured.at("learning/hopper-ppo", 2e5, seed=some)
    assert at == pytest.approx({s: np.interp(2e5, *curves[s]) for s in some})
    x = np.array(list(last.values()))
    assert measured.pm(last) == f"{x.mean():_.0f} +- {x.std(ddof=1):.0f}".replace(
        "_", " "
    )
    assert measured.worst(last) == f"{x.min():_.0f}".replace("_", " ")


def test_a_difference_has_welch_s_interval():
    a, b = measured.last("learning/hopper"), measured.last("learning/hopper-ppo")
    x, y = list(a.values()), list(b.values())
    ends = scipy_stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    d = np.mean(x) - np.mean(y)
    assert measured.diff(a, b) == f"{d:.0f} [{ends.low:.0f}, {ends.high:.0f}]"


def test_a_seed_with_two_curves_is_refused():
    """Arms that are not told apart would be joined."""
    with pytest.raises(ValueError, match="more than one curve"):
        measured.last("fig4-authors")
    with pytest.raises(ValueError, match="no such row"):
        measured.last("fig4-authors", arm="nobody")
    with pytest.raises(ValueError, match="ends before"):
        measured.at("learning/hopper", 2e6)


def test_a_table_of_speed_is_the_benchmark_s(tmp_path, monkeypatch):
    figures = Figures(lambda line: None)
    figures.add("steps/s", "4.3 times", "4")
    (tmp_path / "bench").mkdir()
    document = json.dumps({"figures": figures})
    (tmp_path / "bench/peers.json").write_text(document, encoding="utf-8")
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    assert measured.bench("peers").splitlines() == [
        "| figure | measured | aim |",
        "| --- | --- | --- |",
        "| steps/s | 4.3 times | 4 |",
    ]


def test_where_one_stands_is_read_off_the_interval():
    low, high = dict(enumerate([1.0, 2.0, 3.0])), dict(enumerate([11.0, 12.0, 13.0]))
    assert measured.standing(high, low) == "ahead of"
    assert measured.standing(low, high) == "behind"
    assert measured.standing(low, {0: -20.0, 1: 26.0}) == "level with"


# --- reports -------------------------------------------------------------------------

FIGURES = ("curves.png", "iqm.png", "profile.png", "improvement.png")
STUDIES = sorted(file.parent.name for file in RESULTS.glob("*/made.json"))


@pytest.mark.parametrize("study", STUDIES)
def test_a_report_is_the_one_that_its_files_make(study, monkeypatch):
    """`penfac study report results/STUDY --into results/STUDY` writes it."""
    monkeypatch.chdir(ROOT)
    folder = Path("results", study)
    figures = [name for name in FIGURES if (folder / name).is_file()]
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert report == markdown(findings_again(folder), figures)


# --- the folder ----------------------------------------------------------------------


def test_every_file_of_results_belongs_to_a_study_or_has_its_command():
    folders = [path for path in RESULTS.iterdir() if path.is_dir()]
    for folder in (RESULTS, *folders):
        if (folder / "made.json").is_file():
            continue
        text = (folder / "README.md").read_text(encoding="utf-8")
        for file in folder.iterdir():
            made = file.name == "README.md" or (file / "made.json").is_file()
            assert made or file.name in text, file


def test_the_picture_of_the_readme_has_every_seed_of_both_algorithms():
    drawn = pictures.panels()
    assert {"RoboschoolHalfCheetah-v2", "RoboschoolHopper-v2"} <= drawn.keys()
    for task, panel in drawn.items():
        for label, suffix in (("PeNFAC", ""), ("PPO", "-ppo")):
            file = f"learning/{pictures.TASKS[task]}{suffix}"
            assert {c.seed for c in panel[label]} == set(measured.last(file))
    assert pictures.PICTURE.read_bytes().startswith(b"\x89PNG")
