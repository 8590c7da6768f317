"""The page as a document; what it does in a browser is in test_browser.py."""

import html.parser
import itertools
import json
import re
import subprocess
import sys
import time
from collections import Counter

import example_findings as examples
import numpy as np
import pytest
from example_findings import CHEETAH, FIGURES, HOSTILE, STEPS, example

from penfac.report import words
from penfac.report.charts import arm_curve, as_json, charts
from penfac.report.page import page

EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Reader(html.parser.HTMLParser):
    """Every tag with its attributes, and that what is opened is closed."""

    def __init__(self, document: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(document)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def made(findings: dict | None = None, figures: dict | None = None) -> str:
    return page(findings or example(), FIGURES if figures is None else figures)


def test_sections_come_in_order():
    """From the question to the command; headings never skip a level."""
    reader = Reader(made())
    ids = [a["id"] for a in reader.all("h2")]
    assert ids == [
        "question", "claims", "curves", "figures", "scores", "seeds", "settings",
        "provenance",
    ]  # fmt: skip
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_nothing_is_fetched():
    """No address but data; the policy names our own style and script only."""
    reader = Reader(made())
    for _, attributes in reader.tags:
        for key in ("src", "href"):
            assert attributes.get(key, "data:").startswith("data:")
    policy = next(a["content"] for a in reader.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    styles = re.findall(r"<style>(.*?)</style>", made(), re.DOTALL)
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]


def test_there_are_no_inline_handlers_or_styles():
    for tag, attributes in Reader(made()).tags:
        assert not [k for k in attributes if k.startswith("on") or k == "style"], tag


@pytest.mark.parametrize("verdict", words.SIGNS)
def test_a_verdict_is_a_word_and_a_sign(verdict):
    """Neither needs its colour to be read."""
    assert f"{words.SIGNS[verdict]} {verdict}" in Reader(made()).text


def test_numbers_are_for_people():
    text = Reader(made()).text.replace(words.THIN, " ")
    assert "812 (500 to 1 100) 0.003 0.97 (0.80 to 0.99)" in text
    assert "−412 (−700 to −124) < 0.001" in text
    assert "1.4 h of computing, 12 000 000 steps" in text
    assert "15 November 2026, 22:00 UTC" in text
    assert "Figure 2 of the paper, with the authors' settings" in text


def test_failed_seeds_stand_with_their_error():
    text = Reader(made()).text
    assert (
        "ppo , seed 3, in RoboschoolHalfCheetah-v2: seed 3: diverged at 300000" in text
    )
    assert "ppo 0 to 2, 4 to 7 8 3 9" in text
    assert "Incomplete: 2 running, 2 failed, 2 missing of 60 runs." in text


def test_a_complete_study_warns_of_nothing():
    findings = example()
    findings["counts"] = {"finished": 60, "running": 0, "failed": 0, "missing": 0}
    assert "Incomplete" not in made(findings)


def test_settings_that_differ_come_first():
    """The rest is folded away: what only some arms have, then what all share."""
    groups = words.setting_groups(example()["arms"])
    assert groups["differ"] == ["sigma", "actor_lr", "lam"]
    assert groups["some"] == ["d_target", "tau", "buffer_size"]
    assert "gamma" in groups["same"]
    text = made(figures={})
    places = [text.index(f">{n}</code>") for n in ("sigma", "d_target", "gamma")]
    assert places == sorted(places)
    assert places[0] < text.index("<details>") < places[1]


def test_a_setting_set_by_hand_is_shown_though_all_arms_share_it():
    arms = example()["arms"]
    arms[0]["settings"] = {"gamma": 0.99}
    assert "gamma" in words.setting_groups(arms)["differ"]


def test_every_table_names_its_rows_and_columns():
    reader = Reader(made())
    assert all(a.get("scope") in ("row", "col", "rowgroup") for a in reader.all("th"))
    assert len(reader.all("caption")) == len(reader.all("table"))
    assert all(a["alt"] for a in reader.all("img"))


def test_markup_in_texts_stays_text():
    """In every place a user, a paper or an error can write to."""
    hostile = Reader(made(examples.hostile()))
    plain = Reader(made())
    count = Counter(tag for tag, _ in hostile.tags)
    assert count["script"] == 2
    assert count["img"] == Counter(tag for tag, _ in plain.tags)["img"]
    assert HOSTILE.split()[0] in hostile.text
    for tag, attributes in hostile.tags:
        assert not [k for k in attributes if k.startswith("on")], tag


def test_curves_survive_their_way_through_the_page():
    """Names with </script> inside come out of the JSON as they went in."""
    document = made(examples.hostile())
    block = re.search(r'id="curve-data">(.*?)</script>', document, re.DOTALL)
    assert block
    data = json.loads(block[1])
    assert data == charts(examples.hostile())
    assert data[0]["arms"][0]["name"] == HOSTILE
    assert not set("<>&\u2028") & set(as_json([HOSTILE, "\u2028"]))


def test_a_curve_is_mean_deviation_and_count():
    """Until it stopped, the failed seed and the running one count."""
    curve = charts(example())[0]["arms"][1]
    seeds = example()["panels"][0]["arms"][1]["seeds"]
    assert curve["steps"] == STEPS
    assert curve["n"] == [9] * 7 + [8] * 5 + [7] * 9
    for k in (0, 8, 20):
        there = [s["returns"][k] for s in seeds if len(s["returns"]) > k]
        assert curve["mean"][k] == pytest.approx(np.mean(there), rel=1e-4)
        assert curve["std"][k] == pytest.approx(np.std(there, ddof=1), rel=1e-4)
    assert not any("steps" in line for line in curve["seeds"])


def test_one_seed_has_no_deviation():
    curve = arm_curve([{"steps": [0, 10], "returns": [1.0, None]}])
    assert curve
    assert curve["mean"] == [1]
    assert curve["std"] == [None]


def test_seeds_evaluated_at_other_steps_are_read_between_their_own():
    curve = arm_curve(
        [
            {"steps": [0, 10, 20], "returns": [0.0, 10.0, 20.0]},
            {"steps": [0, 15], "returns": [0.0, 30.0]},
        ]
    )
    assert curve
    assert curve["mean"] == [0, 15, 20]
    assert curve["n"] == [2, 2, 1]
    assert curve["seeds"][1]["steps"] == [0, 15]


def test_an_arm_has_one_ink_in_all_charts():
    """Also where an environment lacks another arm; inks that run out get dashes."""
    findings = example()
    del findings["panels"][1]["arms"][0]
    assert [a["ink"] for a in charts(findings)[1]["arms"]] == [1, 2]
    many = charts(examples.large(1, 9, 1, 2))[0]["arms"]
    assert [(a["ink"], a["dash"]) for a in many][6:] == [(6, 0), (0, 1), (1, 1)]


def test_a_study_that_has_not_begun():
    """No arms, no claims, no curves: still a page."""
    findings = example() | {
        "arms": [],
        "panels": [],
        "claims": [],
        "paper": "",
        "fidelity": "",
    }
    reader = Reader(made(findings, {}))
    assert "A custom study" in reader.text
    missing = example()
    for arm in missing["panels"][0]["arms"]:
        arm["summary"] = None
        arm["seeds"] = [examples.seed_of(0, 1.0, [], "missing")]
    assert CHEETAH in Reader(made(missing)).text


def test_a_figure_drawn_twice_is_shown_once():
    """SVG is sharper; a very large one gives way to its PNG, or stays when alone."""
    large = examples.SVG + b" " * 700_000

    def kinds(figures):
        sources = [a["src"] for a in Reader(made(figures=figures)).all("img")]
        return [source[5:14] for source in sources]

    assert kinds(FIGURES) == ["image/svg", "image/png"]
    assert kinds({"curves.svg": large, "curves.png": examples.DOT}) == ["image/png"]
    assert kinds({"curves.svg": large}) == ["image/svg"]


def test_gaits_lie_inside_and_a_lost_one_is_said(tmp_path):
    there = tmp_path / "gait.gif"
    there.write_bytes(b"GIF89a")
    files = (str(there), str(tmp_path / "lost.png"))
    findings = example()
    findings["gaits"] = [{"env": CHEETAH, "arm": "ppo", "file": f} for f in files]
    document = made(findings, {})
    assert "data:image/gif;base64,R0lGODlh" in document
    assert f"ppo in {CHEETAH}: the picture is no longer there." in document


def test_a_large_study_is_quick_and_small():
    """Twenty curves of sixty seeds and two hundred evaluations."""
    findings = examples.large()
    begin = time.perf_counter()
    document = page(findings, {})
    assert time.perf_counter() - begin < 3
    assert len(document.encode()) < 8e6


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2034.4, "2 034"), (0.003, "0.003"), (0.0, "0"), (-81.25, "−81.2"), (7, "7"),
        (1234567, "1 234 567"), (0.00012, "1.2e−4"), (1.5, "1.50"), (None, "–"),
        (float("nan"), "–"),
    ],
)  # fmt: skip
def test_a_number_as_it_is_said(value, said):
    assert words.number(value).replace(words.THIN, " ") == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0003, "0.0003"), (1e-8, "1e-08"), (5.0, "5"), (10**6, "1 000 000"),
        (True, "true"), (None, "none"), ([64, 64], "64, 64"), ("tanh", "tanh"), ([], "empty"),
        ({"a": 1}, '{"a": 1}'), (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_a_setting_keeps_its_digits(value, said):
    assert words.setting(value).replace(words.THIN, " ") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(42, "42 s"), (720, "12 min"), (4320, "1.2 h"), (1.3e7, "3 611 h"), (None, "–")],
)
def test_a_duration_as_it_is_said(seconds, said):
    assert words.duration(seconds).replace(words.THIN, " ") == said


def test_other_small_words():
    assert words.seed_list([7, 0, 1, 2, 4, 5]) == "0 to 2, 4, 5, 7"
    assert words.date("yesterday") == "yesterday"
    assert words.p_value(None) == words.span(None, 1.0) == "–"
    assert words.caption("learning_time.png") == "Learning time"


def test_making_a_page_loads_no_jax():
    program = (
        "import sys, penfac.report.page, penfac.report.markdown\n"
        "assert not {'jax', 'jaxlib', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
