"""The report of a study as GitHub Markdown."""

import os
import re
from pathlib import Path
from urllib.parse import quote

from penfac.errors import printable
from penfac.report import words
from penfac.report.words import MISSING, SIGNS, STATES


def markdown(findings: dict, figure_names: list[str]) -> str:
    """The whole document; figures are linked by name, beside it."""
    sections = [
        _header(findings),
        f"## {words.QUESTION}\n\n{text(findings['question'])}",
        _claims(findings["claims"]),
        _figures(figure_names),
        _gaits(findings),
        _scores(findings["panels"]),
        _seeds(findings),
        _settings(findings["arms"]),
        _provenance(findings),
    ]
    return "\n\n".join(s for s in sections if s) + "\n"


def text(value: object) -> str:
    """One line with all Markdown and HTML escaped."""
    line = printable(" ".join(str(value).splitlines())).strip()
    line = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", line)
    line = re.sub(r"^(\d*)([-+.)])(?=\s|$)", r"\1\\\2", line)  # a list marker
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("$", "&#36;")):
        line = line.replace(sign, entity)
    return line


def code(value: object) -> str:
    """A code span, which nothing in it can leave."""
    line = printable(" ".join(str(value).split()))
    fence = _longer_fence(line, 1)
    pad = " " * ("`" in line[:1] + line[-1:])
    return f"{fence}{pad}{line}{pad}{fence}"


def _longer_fence(inside: str, least: int) -> str:
    """More backticks than any run of them inside."""
    longest = max((len(run) for run in re.findall(r"`+", inside)), default=0)
    return "`" * max(least, longest + 1)


def _table(head: list[str], rows: list[list[str]], right: bool = False) -> str:
    """A table of cells that are Markdown already; numbers are right-aligned."""
    rule = ["---"] + ["---:" if right else "---"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _fenced(inside: str) -> str:
    """A code block with a fence longer than any run of backticks in it."""
    fence = _longer_fence(inside, 3)
    return f"{fence}\n{printable(inside)}\n{fence}"


def _folded(title: str, inside: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{inside}\n\n</details>"


def _verdict(verdict: str) -> str:
    return f"{SIGNS.get(verdict, '')} {text(verdict)}".strip()


def _header(findings: dict) -> str:
    warning = words.incomplete(findings)
    parts = [
        f"# {text(findings['title'])}",
        f"**{text(words.source(findings))}.** {text(words.protocol(findings))}",
        f"> {text(warning)}" if warning else "",
        *(f"> {text(note)}" for note in words.warnings(findings)),
    ]
    return "\n\n".join(p for p in parts if p)


def _claims(claims: list[dict]) -> str:
    if not claims:
        return ""
    sections = [_claim(k, claim) for k, claim in enumerate(claims, 1)]
    return "\n\n".join([f"## {words.CLAIMS}", *sections])


def _claim(k: int, claim: dict) -> str:
    parts = [
        f"### Claim {k}: {_verdict(claim['verdict'])}",
        f"> {text(claim['words'])}\n>\n> {text(claim['where'])}",
        text(claim["reason"]),
        text(words.sentence(claim["power"])) if claim["power"] else "",
        text(words.sentence(claim["budget"])),
        text(words.sentence(claim["sensitivity"])) if claim["sensitivity"] else "",
        *(f"**{text(words.sentence(note))}**" for note in claim["warnings"]),
        _comparisons(claim["comparisons"]),
    ]
    return "\n\n".join(p for p in parts if p)


def _comparisons(comparisons: list[dict]) -> str:
    if not comparisons:
        return ""
    head = [
        "Comparison", "Environment", "Measure", "Verdict", "Difference (95 % interval)",
        "p (Holm)", "P(first &gt; second) (95 %)", "n",
    ]  # fmt: skip
    return _table(head, [_comparison(c) for c in comparisons])


def _comparison(c: dict) -> list[str]:
    return [
        text(c["text"]),
        text(c["env"]),
        text(c["measure"]),
        _verdict(c["verdict"]),
        words.with_span(c["difference"], c["low"], c["high"]),
        text(words.p_value(c["p_holm"])),
        words.with_span(
            c["probability"], c["probability_low"], c["probability_high"], words.chance
        ),
        ", ".join(str(n) for n in c["n"]) if c["n"] else MISSING,
    ]


def _picture(alt: str, path: str) -> str:
    return f"![{alt}]({quote(path)})"


def _figures(names: list[str]) -> str:
    """Every figure, as PNG if there is one: every viewer of Markdown shows it."""
    shown = [
        f"### {text(words.caption(name))}\n\n{_picture(text(words.caption(name)), name)}"
        for name in words.best_files(names, lambda name: not name.endswith(".png"))
    ]
    return "\n\n".join(["## Figures", *shown]) if shown else ""


def _gaits(findings: dict) -> str:
    shown = []
    for gait in findings["gaits"]:
        label = f"{text(gait['arm'])} in {text(gait['env'])}"
        path = _beside(gait["file"], findings["folder"])
        shown.append(f"{_picture(f'Gait of {label}', path)}\n\n{label}")
    return "\n\n".join([f"## {words.GAITS}", *shown]) if shown else ""


def _beside(file: str, folder: str) -> str:
    """The path of a file relative to the study; of a file outside it, its name."""
    path = os.path.relpath(file, folder)
    return Path(file).name if path.startswith("..") else Path(path).as_posix()


def _scores(panels: list[dict]) -> str:
    parts = [f"## {words.SCORES}", words.SCORES_NOTE]
    for panel in panels:
        rows = [[text(a["arm"]), *words.score(a["summary"])] for a in panel["arms"]]
        table = _table(words.SCORE_HEAD, rows, right=True)
        parts += [f"### {text(panel['env'])}", table]
    return "\n\n".join(parts)


def _seeds(findings: dict) -> str:
    head = ["Arm", "Environment", *(state.capitalize() for state in STATES)]
    rows = [
        [text(arm["arm"]), text(panel["env"]), *words.seeds_by_state(arm).values()]
        for panel in findings["panels"]
        for arm in panel["arms"]
    ]
    failed = [
        f"- **{text(arm)}**, seed {text(seed)}, in {text(env)}: {text(error)}"
        for env, arm, seed, error in words.failures(findings)
    ]
    parts = ["## Seeds", _table(head, rows)]
    if failed:
        parts += ["### Failed seeds", "\n".join(failed)]
    return "\n\n".join(parts)


def _settings(arms: list[dict]) -> str:
    if not arms:
        return ""
    groups = words.setting_groups(arms)
    head = ["Setting", *(text(arm["name"]) for arm in arms)]

    def table(names: list[str], above: list[list[str]]) -> str:
        rows = [[text(n), *(text(words.setting_of(a, n)) for a in arms)] for n in names]
        return _table(head, above + rows)

    kinds = [[text(cell) for cell in row] for row in words.kinds(arms)]
    parts = ["## Settings", words.SETTINGS_NOTE, table(groups["differ"], kinds)]
    parts += [
        _folded(f"{title} ({len(groups[key])})", table(groups[key], []))
        for key, title in words.FOLDED.items()
        if groups[key]
    ]
    return "\n\n".join(parts)


def _provenance(findings: dict) -> str:
    facts = [f"- {name}: {text(fact)}" for name, fact in words.facts(findings).items()]
    command = [f"### {words.REPRODUCE}", _fenced(findings["command"])]
    return "\n\n".join([f"## {words.PROVENANCE}", "\n".join(facts), *command])
