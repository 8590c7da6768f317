"""The page of all studies: every verdict, a link to each report, nothing that runs."""

import re

from tests.report.example_findings import HOSTILE, example

from penfac.report.overview import Entry, overview_markdown, overview_page, summary


def entries(title: str = "Figure 2") -> list[Entry]:
    """A study with all five verdicts, one that has not run, and one without a report."""
    claims = example()["claims"]
    for claim in claims:
        claim |= {"by_measure": {}, "seeds_needed": None}
    claims[0] |= {"by_measure": {"final": "holds", "area": "holds"}}
    claims[2] |= {
        "by_measure": {"final": "not shown", "area": "holds"}, "seeds_needed": 34,
    }  # fmt: skip
    waiting = [{"words": "It is so.", "where": "Sec. 9"}]
    return [
        Entry("fig2-authors", title, "fig2-authors/index.html", claims),
        Entry("fig3-authors", "Humanoid", None, waiting),
        Entry("fig4-authors", "", None, (), "no report"),
    ]


def test_every_claim_has_its_verdict_and_every_report_its_link():
    page, text = overview_page("All", entries()), overview_markdown("All", entries())
    told = "6 verdicts: 1 holds, 1 contradicted, 1 not shown, 1 not tested, 2 not run."
    assert summary(entries()) == told
    for document in (page, text):
        assert told in document
        assert "34 seeds" in document
        assert "not shown, holds" in document
        assert "2 of 3 holds, 1 of 3 not shown" in document
    assert page.count('class="badge') == 6
    assert re.findall(r'href="([^"]+/index.html)"', page) == ["fig2-authors/index.html"]
    assert "[fig2-authors](fig2-authors/report.md)" in text
    assert "no report" in page


def test_what_others_wrote_is_text():
    page = overview_page(HOSTILE, entries(HOSTILE))
    assert "<script" not in page
    assert "<img" not in page
    assert "<script" not in overview_markdown(HOSTILE, entries(HOSTILE))
