"""Text from files reaches people as text: no terminal obeys it, no page runs it."""

import io
import json
import re
import shutil
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.table import Table
from tests.analysis.test_card import changed
from tests.faults.commands import TINY, command
from tests.studies.small_study import run_study, small
from tests.studies.study_folders import run_nothing

from penfac import terminal
from penfac.analysis.card import card
from penfac.envs.options import EnvOptions
from penfac.errors import printable
from penfac.plots import Curve, comparison, learning_curve
from penfac.report.markdown import code
from penfac.report.markdown import text as as_markdown
from penfac.report.markup import text as as_html
from penfac.runs.folder import RunFolder

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b1m\u202etxt"
SAFE = r"\x1b]0;owned\x07\x1b[2J\x9b1m\u202etxt"
MARKUP = "[/red] [bold]x[/bold] :boom:"


# --- the terminal and the log ---------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\tb\nc", "Ωμέγα", "日本", "é", "\U0001f9be"])
def test_text_of_people_stays(text):
    assert printable(text) == text


def test_nothing_a_terminal_obeys_is_printed(capsys):
    terminal.say(f"return {ESCAPE}")
    assert capsys.readouterr().out == f"return {SAFE}\n"
    result = command("eval", f"nowhere {ESCAPE}")
    assert r"nowhere \x1b]0;owned\x07" in result.line
    assert "\x1b" not in result.line


def test_tables_show_text_as_it_is(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(terminal.console, "_file", out)
    table = Table(f"head {MARKUP}", title=f"title {ESCAPE}")
    table.add_row(f"{MARKUP} {ESCAPE}")
    terminal.console.print(table)
    said = out.getvalue()
    assert said.count(MARKUP) == 2
    assert said.count(SAFE) == 2
    assert "\x1b]" not in said
    assert "\x9b" not in said


def test_the_log_holds_no_control_characters(tmp_path):
    RunFolder(tmp_path).log(f"Traceback\n  {ESCAPE}")
    assert (tmp_path / "log.txt").read_text().endswith(f"Traceback\n  {SAFE}\n")


# --- pages and pictures ---------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>", "`` ` <img src=x onerror=alert(1)> ` ``", "a\n\n# b",
    "[x](javascript:alert(1))", "![x](http://evil/x.png)", "`|` | <b>", ESCAPE, "--> <!--",
    "\n\n---\n<b>", "~~~\n<b>", "<http://evil>", "http://evil.example",
]  # fmt: skip


def parsed(page: str) -> list[str]:
    """The kinds of everything that a reader of Markdown makes of a page."""
    page = re.sub(r"^---\n.*?\n---\n", "", page, count=1, flags=re.DOTALL)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)
    return [x.type for token in tokens for x in (token, *(token.children or ()))]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_card_has_the_same_parts_whatever_its_words(text):
    plain = parsed(card(changed(env="x", preset="x", command="x", penfac="x")))
    hostile = card(
        changed(
            env=text, preset=text, command=text, penfac=text, versions={text: text},
            env_options=EnvOptions(kwargs={text: text}),
        )
    )  # fmt: skip
    found = parsed(hostile)
    kinds = ("html_inline", "html_block", "link_open", "image", "heading_open", "hr")
    for kind in kinds:
        assert found.count(kind) == plain.count(kind), kind
    assert "\x1b" not in hostile
    assert not {"html_inline", "html_block"} & set(found)


@pytest.mark.parametrize("text", HOSTILE)
def test_code_spans_and_texts_hold(text):
    assert parsed(f"a {code(text)} b") == ["paragraph_open", "inline", "text",
                                            "code_inline", "text", "paragraph_close"]  # fmt: skip
    for page in (as_markdown(text), as_html(text)):
        assert "\x1b" not in page
        assert "<" not in page


@pytest.mark.parametrize("text", ["$\\frac$", "a$b", "$", "\x1b[2J", r"\$x\$"])
def test_pictures_take_any_name(text):
    curves = [Curve(0, [0, 10], [1.0, 2.0])]
    assert learning_curve(curves, text)
    assert comparison({text: {text: curves}}, "svg")


# --- studies --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["title", "question", "paper"])
def test_a_study_has_no_control_characters(key, monkeypatch):
    run_nothing(monkeypatch)
    run_study(Path("study"), small())
    file = Path("study/study.json")
    document = json.loads(file.read_text())
    document["study"][key] = ESCAPE
    file.write_text(json.dumps(document))
    for verb in ("status", "report"):
        result = command("study", verb, "study")
        assert result.code == 5
        assert "\x1b" not in result.line
    Path("mine.toml").write_text(f"{key} = {json.dumps(ESCAPE)}\n")
    result = command("study", "show", "mine.toml")
    assert result.code == 2
    assert "without control characters" in result.line


def test_words_of_a_run_folder_are_shown_as_text():
    """preset and command are free text: forged ones reach neither terminal nor card."""
    assert command("train", "--env", "penfac/LQR-v0", *TINY, "--name", "one").code == 0
    run = Path("runs/penfac/one")
    evil = run.rename(run.with_name("a[red]b\x1b[2J"))
    file = evil / "config.json"
    words = {"preset": ESCAPE, "command": ESCAPE, "penfac": ESCAPE}
    file.write_text(json.dumps(json.loads(file.read_text()) | words))
    for argv in (
        ("eval", evil, "--episodes", 1), ("card", evil), ("plot", evil),
        ("export", evil, "--c", "x.h"), ("runs", "pack", evil, "x"), ("resume", evil),
    ):  # fmt: skip
        result = command(*argv)
        assert (result.code, result.err) == (0, ""), argv
        assert "\x1b" not in result.out, argv
    assert "\x1b" not in (evil / "policy" / "README.md").read_text()
    shutil.rmtree(evil)
