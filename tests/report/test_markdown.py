"""The same findings as Markdown."""

import re
from pathlib import Path

import example_findings as examples
from example_findings import CHEETAH, HOSTILE, example

from penfac.report import words
from penfac.report.markdown import markdown, text

NAMES = ["curves.png", "curves.svg", "iqm.png"]


def made(findings: dict | None = None, names: list[str] | None = None) -> str:
    return markdown(findings or example(), NAMES if names is None else names)


def test_sections_come_in_order():
    assert re.findall(r"^## (.*)$", made(), re.MULTILINE) == [
        "Question", "Claims and verdicts", "Figures", "Final scores", "Seeds", "Settings",
        "How these results were made",
    ]  # fmt: skip


def test_it_says_what_the_page_says():
    said = made().replace(words.THIN, " ")
    assert "### Claim 1: ✓ holds" in said
    assert "| 812 (500 to 1 100) | 0.003 | 0.97 (0.80 to 0.99) | 10, 10 |" in said
    assert "- **ppo**, seed 3, in RoboschoolHalfCheetah-v2: seed 3: diverged" in said
    assert "- Cost: 1.4 h of computing, 12 000 000 steps" in said
    assert f"```\n{example()['command']}\n```" in said


def test_pictures_are_linked_beside_it():
    """One of each figure, PNG where there is one; gaits as seen from the study."""
    findings = example()
    folder = Path("studies/fig2-authors")
    inside = folder / "gaits" / "a b.png"
    findings["gaits"] = [
        {"env": CHEETAH, "arm": "ppo", "file": str(file.absolute())}
        for file in (inside, Path("/elsewhere/far.gif"))
    ]
    links = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", made(findings))
    assert links == ["curves.png", "iqm.png", "gaits/a%20b.png", "far.gif"]


def test_every_row_has_as_many_cells_as_its_head():
    """Also where a name holds a bar or a line break."""
    findings = examples.hostile()
    findings["arms"][1]["note"] = "one | two\nthree"
    for table in re.findall(r"(?:^\|.*\n)+", made(findings), re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(counts) == 1


def test_markup_in_texts_stays_text():
    """Outside the block of the command nothing hostile is left as it was."""
    said = made(examples.hostile())
    above, command = said.split("### Reproduce\n\n")
    assert "<script" not in above
    assert "<img" not in above
    assert command == f"```\n{HOSTILE}\n```\n"


def test_signs_of_markdown_are_escaped():
    assert text("a*b_c`d[e](f)|g $h$") == r"a\*b\_c\`d\[e\](f)\|g &#36;h&#36;"
    assert text("- no list") == r"\- no list"
    assert text("1. no list") == r"1\. no list"
    assert text("0.5") == "0.5"


def test_a_command_with_backticks_cannot_end_its_block():
    findings = example() | {"command": "echo ```\n# not a heading"}
    assert "````\necho ```\n# not a heading\n````" in made(findings)


def test_a_study_that_has_not_begun():
    findings = example() | {"arms": [], "panels": [], "claims": [], "paper": ""}
    said = made(findings, [])
    assert "## Settings" not in said
    assert "![" not in said
