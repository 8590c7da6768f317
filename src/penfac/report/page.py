"""What a study found as one HTML page that needs nothing else: no network, no files.

Every text of the findings goes through `text` on its way into the page; the curves go
in as JSON and are drawn by page.js. Only that script and page.css may run: the policy
in the head names them by their hashes.
"""

import base64
import hashlib
import html
import importlib.resources
import mimetypes
from pathlib import Path

from penfac.report import words
from penfac.report.curves import as_json, charts
from penfac.report.words import MISSING, SIGNS, STATES

LARGE_SVG = 600_000  # bytes; a picture of dots and letters is smaller as a PNG


def page(findings: dict, figures: dict[str, bytes]) -> str:
    """The whole document; `figures` are PNG or SVG by file name."""
    sections = [
        _header(findings),
        _question(findings),
        _claims(findings["claims"]),
        _curves(findings["panels"]),
        _figures(figures),
        _gaits(findings["gaits"]),
        _scores(findings["panels"]),
        _seeds(findings),
        _settings(findings["arms"]),
        _making(findings),
    ]
    body = "\n".join(s for s in sections if s)
    css, js = _asset("page.css"), _asset("page.js")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(css, js)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(findings["title"])}</title>
<link rel="icon" href="data:,">
<style>{css}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="curve-data">{as_json(charts(findings))}</script>
<script>{js}</script>
</body>
</html>
"""


def text(value: object) -> str:
    """Safe between tags and inside quoted attributes."""
    return html.escape(str(value), quote=True)


def _asset(name: str) -> str:
    return importlib.resources.files("penfac.report").joinpath(name).read_text("utf-8")


def _policy(css: str, js: str) -> str:
    """Our own style and script by hash, pictures inside the page, nothing else."""

    def own(source: str) -> str:
        digest = hashlib.sha256(source.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {own(js)}; style-src {own(css)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _section(name: str, title: str, inside: str) -> str:
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>'
        f"\n{inside}\n</section>"
    )


def _table(
    title: str,
    head: list[str],
    groups: list[tuple[str, list[list[str]]]],
    kind: str = "",
) -> str:
    """Rows in named groups; the first cell of a row names it. Cells are HTML already."""
    heads = "".join(f'<th scope="col">{h}</th>' for h in head)
    bodies = []
    for name, rows in groups:
        lines = [
            f'<tr><th scope="row">{row[0]}</th>'
            + "".join(f"<td>{cell}</td>" for cell in row[1:])
            + "</tr>"
            for row in rows
        ]
        if name:
            lines.insert(
                0,
                f'<tr class="group"><th scope="rowgroup" colspan="{len(head)}">'
                f"{name}</th></tr>",
            )
        bodies.append("<tbody>" + "\n".join(lines) + "</tbody>")
    return (
        f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">'
        f'<table class="{kind}"><caption class="unseen">{title}</caption>'
        f"<thead><tr>{heads}</tr></thead>{''.join(bodies)}</table></div>"
    )


def _badge(verdict: str) -> str:
    """Word and sign: a colour alone says nothing to many."""
    kind = verdict.replace(" ", "-") if verdict in SIGNS else "not-run"
    sign = SIGNS.get(verdict, "")
    return (
        f'<span class="badge {kind}"><span aria-hidden="true">{sign}</span> '
        f"{text(verdict)}</span>"
    )


def _header(findings: dict) -> str:
    warning = words.incomplete(findings)
    every = [warning, *words.warnings(findings)]
    note = "".join(
        f'<p class="warning" role="note">{text(told)}</p>' for told in every if told
    )
    return (
        f'<header><p class="source">{text(words.source(findings))}</p>'
        f"<h1>{text(findings['title'])}</h1>"
        f'<p class="measured">{text(words.measured(findings))}</p>{note}</header>'
    )


def _question(findings: dict) -> str:
    return _section(
        "asked", "What was asked", f'<p class="lead">{text(findings["question"])}</p>'
    )


def _claims(claims: list[dict]) -> str:
    if not claims:
        return ""
    return _section("claims", words.CLAIMS, "\n".join(
        _claim(k, claim) for k, claim in enumerate(claims, 1)
    ))  # fmt: skip


def _claim(k: int, claim: dict) -> str:
    small = [claim["power"], claim["budget"], *claim["warnings"]]
    below = "".join(
        f'<p class="small">{text(words.sentence(told))}</p>' for told in small if told
    )
    return f"""<article class="claim">
<h3>Claim {k} {_badge(claim["verdict"])}</h3>
<blockquote><p>{text(claim["words"])}</p><footer>{text(claim["where"])}</footer></blockquote>
<p>{text(claim["reason"])}</p>
{below}
{_comparisons(k, claim["comparisons"])}
</article>"""


def _comparisons(k: int, comparisons: list[dict]) -> str:
    if not comparisons:
        return ""
    head = [
        "Comparison",
        "Verdict",
        "Difference <small>(95 % interval)</small>",
        "p <small>(Holm)</small>",
        "P(first &gt; second) <small>(95 %)</small>",
        '<span class="unseen">Picture of the probability</span>',
        "n",
    ]
    environments = dict.fromkeys(c["env"] for c in comparisons)
    groups = [
        (text(env), [_comparison(c) for c in comparisons if c["env"] == env])
        for env in environments
    ]
    return _table(f"Comparisons for claim {k}", head, groups, "comparisons")


def _comparison(c: dict) -> list[str]:
    chance = words.with_span(
        c["probability"], c["probability_low"], c["probability_high"], words.chance
    )
    return [
        f"{text(c['text'])} <small>{text(c['measure'])}</small>",
        _badge(c["verdict"]),
        words.with_span(c["difference"], c["low"], c["high"]),
        text(words.p_value(c["p_holm"])),
        chance,
        _whisker(c["probability"], c["probability_low"], c["probability_high"]),
        ", ".join(text(n) for n in c["n"]) if c["n"] else MISSING,
    ]


def _whisker(at: float | None, low: float | None, high: float | None) -> str:
    """A probability and its interval on a line from 0 to 1, with even chances marked."""
    if at is None:
        return ""
    spread = (
        f'<line class="range" x1="{100 * low:.1f}" x2="{100 * high:.1f}" y1="7" y2="7"/>'
        if low is not None and high is not None
        else ""
    )
    return (
        '<svg class="whisker" viewBox="-4 0 108 14" aria-hidden="true">'
        '<line class="whole" x1="0" x2="100" y1="7" y2="7"/>'
        '<line class="even" x1="50" x2="50" y1="1" y2="13"/>'
        f'{spread}<circle cx="{100 * at:.1f}" cy="7" r="3.5"/></svg>'
    )


def _curves(panels: list[dict]) -> str:
    """Empty frames; page.js fills them."""
    frames = "\n".join(
        f'<figure class="chart" data-chart="{k}"><h3>{text(panel["env"])}</h3>'
        '<noscript><p class="small">These curves are drawn by a script. '
        "The figures below show the same without one.</p></noscript></figure>"
        for k, panel in enumerate(panels)
    )
    note = (
        '<p class="small">Line: mean over seeds of the return without noise. Band: one '
        "standard deviation. A seed that stopped early counts until there. Choose an arm "
        "to hide it; the scale fits what is shown.</p>"
    )
    return _section("curves", "Learning curves", note + frames) if panels else ""


def _data_uri(name: str, data: bytes) -> str:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _figures(figures: dict[str, bytes]) -> str:
    small = [n for n, d in figures.items() if not (n.endswith("svg") and _large(d))]
    # a large SVG is still better than nothing
    names = words.one_a_stem([*small, *(n for n in figures if n not in small)], ".svg")
    names = [_smaller(n, small) for n in names]
    shown = "\n".join(
        f'<details class="figure"{" open" if name == names[0] else ""}>'
        f"<summary>{text(words.caption(name))}</summary>"
        '<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{text(words.caption(name))}">'
        f'<img src="{_data_uri(name, figures[name])}" '
        f'alt="Figure: {text(words.caption(name))}"></div></details>'
        for name in names
    )
    return _section("figures", "Figures", shown) if shown else ""


def _large(data: bytes) -> bool:
    return len(data) > LARGE_SVG


def _smaller(name: str, small: list[str]) -> str:
    """Another file of the same figure where this one is too large."""
    same = [n for n in small if Path(n).stem == Path(name).stem]
    return name if name in small or not same else same[0]


def _gaits(gaits: list[dict]) -> str:
    shown = "\n".join(_gait(gait) for gait in gaits)
    inside = f'<div class="gaits">{shown}</div>'
    return _section("gaits", "How they move", inside) if gaits else ""


def _gait(gait: dict) -> str:
    label = f"{text(gait['arm'])} in {text(gait['env'])}"
    try:
        data = Path(gait["file"]).read_bytes()
    except OSError:
        return f"<p>{label}: the picture is not there any more.</p>"
    return (
        f'<figure><img src="{_data_uri(gait["file"], data)}" alt="Gait of {label}">'
        f"<figcaption>{label}</figcaption></figure>"
    )


def _scores(panels: list[dict]) -> str:
    head = [
        "Arm",
        "n",
        "Mean",
        "Std",
        "Stderr",
        "IQM",
        "95 % interval",
        "Worst",
        "Best",
    ]
    groups = [(text(p["env"]), [_score(arm) for arm in p["arms"]]) for p in panels]
    note = (
        '<p class="small">Return at the end of learning, over seeds. IQM: mean of the '
        "middle half. The interval is of the mean.</p>"
    )
    table = _table("Final scores", head, groups, "numbers")
    return _section("scores", "Final scores", note + table)


def _score(arm: dict) -> list[str]:
    return [text(arm["arm"]), *words.score(arm["summary"])]


def _seeds(findings: dict) -> str:
    head = ["Arm", *(state.capitalize() for state in STATES)]
    groups = [
        (
            text(panel["env"]),
            [
                [text(arm["arm"]), *words.seeds_by_state(arm).values()]
                for arm in panel["arms"]
            ],
        )
        for panel in findings["panels"]
    ]
    table = _table("Seeds", head, groups, "seeds")
    failed = "".join(
        f"<li><strong>{text(arm)}</strong>, seed {text(seed)}, in {text(env)}: "
        f"<code>{text(error)}</code></li>"
        for env, arm, seed, error in words.failures(findings)
    )
    errors = f'<h3>Failed seeds</h3><ul class="errors">{failed}</ul>' if failed else ""
    return _section("seeds", "Seeds", table + errors)


def _settings(arms: list[dict]) -> str:
    groups = words.setting_groups(arms)
    head = ["Setting", *(text(arm["name"]) for arm in arms)]

    def rows(names: list[str]) -> list[list[str]]:
        return [
            [f"<code>{text(n)}</code>", *(text(words.setting_of(a, n)) for a in arms)]
            for n in names
        ]

    kinds = [[text(cell) for cell in row] for row in words.kinds(arms)]
    first = _table(
        "Settings in which arms differ", head, [("", kinds + rows(groups["differ"]))],
        "settings",
    )  # fmt: skip
    rest = "".join(
        f"<details><summary>{title} ({len(groups[key])})</summary>"
        f"{_table(title, head, [('', rows(groups[key]))], 'settings')}</details>"
        for key, title in words.REST.items()
        if groups[key]
    )
    note = f'<p class="small">{words.SETTINGS_NOTE}</p>'
    return _section("settings", "Settings", note + first + rest) if arms else ""


def _making(findings: dict) -> str:
    listed = "".join(
        f"<dt>{k}</dt><dd>{text(v)}</dd>" for k, v in words.facts(findings).items()
    )
    return _section(
        "making",
        "How it was made",
        f"<dl>{listed}</dl><h3>Make it again</h3>"
        f'<div class="command"><pre><code id="command">{text(findings["command"])}'
        '</code></pre><button type="button" data-copy="command">Copy</button></div>'
        '<p class="unseen" role="status" id="copied"></p>',
    )
