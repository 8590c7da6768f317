"""All studies on one page: every claim with its verdict, and a link to each report."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penfac.report import words
from penfac.report.markdown import text as plain
from penfac.report.markup import asset, badge, security_policy, table, text
from penfac.report.words import MISSING, SIGNS

HEAD = ("Claim", "Verdict", "Seeds and steps", "Difference (95 % interval)",
        "Final return, whole curve", "10 % takes")  # fmt: skip
NOTE = (
    "A verdict holds or is contradicted if chance makes such an effect in fewer than 5 of "
    "100 claims. The last column: the seeds per arm that show a difference of a tenth of "
    "the return 80 % of the time, at the measured spreads."
)


class Entry(NamedTuple):
    """A study: its report if there is one, and its claims."""

    name: str
    title: str
    link: str | None  # None: it has not run, or its report failed
    claims: Sequence[dict]  # of findings; of a study that has not run, words and where
    error: str = ""


def verdict_of(claim: dict) -> str:
    return claim.get("verdict", "not run")


def summary(entries: Sequence[Entry]) -> str:
    """How many claims have which verdict."""
    count = Counter(verdict_of(claim) for entry in entries for claim in entry.claims)
    told = [f"{count[verdict]} {verdict}" for verdict in SIGNS if count[verdict]]
    return f"{count.total()} verdicts: {', '.join(told)}."


def cells(claim: dict) -> list[str]:
    """What stands behind the verdict, as plain text."""
    if verdict_of(claim) == "not run":
        return [MISSING] * 4
    by, needed = list(claim["by_measure"].values()), claim["seeds_needed"]
    both = "the same" if len(set(by)) == 1 else ", ".join(by) or MISSING
    seeds = MISSING if needed is None else f"{words.number(needed)} seeds"
    return [claim["budget"], effect(claim["comparisons"]), both, seeds]


def effect(rows: list[dict]) -> str:
    """The difference; of several comparisons how many have which verdict."""
    if len(rows) == 1:
        return words.with_span(*(rows[0][key] for key in ("difference", "low", "high")))
    count = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{n} of {len(rows)} {verdict}" for verdict, n in count.items())


def overview_page(title: str, entries: Sequence[Entry]) -> str:
    """One HTML page that needs no network."""
    groups = [(html_head(entry), html_rows(entry)) for entry in entries]
    css = asset("page.css")
    body = table("Verdicts", [text(word) for word in HEAD], groups, "comparisons")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{security_policy(css, "")}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)}</title>
<link rel="icon" href="data:,">
<style>{css}</style>
</head>
<body>
<main>
<header><h1>{text(title)}</h1>
<p class="lead">{text(summary(entries))}</p><p class="small">{text(NOTE)}</p></header>
{body}
</main>
</body>
</html>
"""


def html_head(entry: Entry) -> str:
    name = f"{text(entry.name)}: {text(entry.title)}"
    error = f" <small>{text(entry.error)}</small>" if entry.error else ""
    return (f'<a href="{text(entry.link)}">{name}</a>' if entry.link else name) + error


def html_rows(entry: Entry) -> list[list[str]]:
    return [
        [
            f"{text(claim['words'])} <small>{text(claim['where'])}</small>",
            badge(verdict_of(claim)),
            *map(text, cells(claim)),
        ]
        for claim in entry.claims
    ]


def overview_markdown(title: str, entries: Sequence[Entry]) -> str:
    """The same as GitHub Markdown."""
    lines = [f"# {plain(title)}", "", plain(summary(entries)), "", plain(NOTE), ""]
    lines += [f"| study | {' | '.join(HEAD)} |", "|" + "---|" * (1 + len(HEAD))]
    for entry in entries:
        report = (entry.link or "").replace("index.html", "report.md")
        name = f"[{plain(entry.name)}]({report})" if entry.link else plain(entry.name)
        for claim in entry.claims:
            verdict = verdict_of(claim)
            told = [plain(claim["words"]), f"{SIGNS[verdict]} {verdict}"]
            told += map(plain, cells(claim))
            lines.append(f"| {name} | {' | '.join(told)} |")
    return "\n".join(lines) + "\n"
