"""The report of a study as one HTML page that works offline.

Every text of the findings is escaped on its way into the page. The curves are embedded
as JSON and drawn by page.js. The security policy allows that script and page.css alone.
"""

from pathlib import Path

from penfac.report import words
from penfac.report.charts import as_json, charts
from penfac.report.markup import (
    asset,
    badge,
    data_uri,
    section,
    security_policy,
    table,
    text,
    whisker,
)
from penfac.report.words import MISSING, STATES

LARGE_SVG = 600_000  # bytes; beyond it the PNG of a picture is smaller


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
        _provenance(findings),
    ]
    body = "\n".join(s for s in sections if s)
    css, js = asset("page.css"), asset("page.js")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{security_policy(css, js)}">
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


def _header(findings: dict) -> str:
    warnings = [words.incomplete(findings), *words.warnings(findings)]
    notes = "".join(
        f'<p class="warning" role="note">{text(warning)}</p>'
        for warning in warnings
        if warning
    )
    return (
        f'<header><p class="source">{text(words.source(findings))}</p>'
        f"<h1>{text(findings['title'])}</h1>"
        f'<p class="measured">{text(words.protocol(findings))}</p>{notes}</header>'
    )


def _question(findings: dict) -> str:
    lead = f'<p class="lead">{text(findings["question"])}</p>'
    return section("question", words.QUESTION, lead)


def _claims(claims: list[dict]) -> str:
    articles = "\n".join(_claim(k, claim) for k, claim in enumerate(claims, 1))
    return section("claims", words.CLAIMS, articles) if claims else ""


def _claim(k: int, claim: dict) -> str:
    notes = [claim[key] for key in ("power", "budget", "sensitivity")]
    notes += claim["warnings"]
    small = "".join(
        f'<p class="small">{text(words.sentence(note))}</p>' for note in notes if note
    )
    return f"""<article class="claim">
<h3>Claim {k} {badge(claim["verdict"])}</h3>
<blockquote><p>{text(claim["words"])}</p><footer>{text(claim["where"])}</footer></blockquote>
<p>{text(claim["reason"])}</p>
{small}
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
    return table(f"Comparisons of claim {k}", head, groups, "comparisons")


def _comparison(c: dict) -> list[str]:
    chance = c["probability"], c["probability_low"], c["probability_high"]
    return [
        f"{text(c['text'])} <small>{text(c['measure'])}</small>",
        badge(c["verdict"]),
        words.with_span(c["difference"], c["low"], c["high"]),
        text(words.p_value(c["p_holm"])),
        words.with_span(*chance, words.chance),
        whisker(*chance),
        ", ".join(text(n) for n in c["n"]) if c["n"] else MISSING,
    ]


def _curves(panels: list[dict]) -> str:
    """Empty frames, filled by page.js."""
    frames = "\n".join(
        f'<figure class="chart" data-chart="{k}"><h3>{text(panel["env"])}</h3>'
        '<noscript><p class="small">These curves need JavaScript. The figures below '
        "show the same.</p></noscript></figure>"
        for k, panel in enumerate(panels)
    )
    note = f'<p class="small">{words.CHARTS_NOTE}</p>'
    return section("curves", "Learning curves", note + frames) if panels else ""


def _figures(figures: dict[str, bytes]) -> str:
    names = _shown_figures(figures)
    shown = "\n".join(
        f'<details class="figure"{" open" if name == names[0] else ""}>'
        f"<summary>{text(words.caption(name))}</summary>"
        '<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{text(words.caption(name))}">'
        f'<img src="{data_uri(name, figures[name])}" '
        f'alt="Figure: {text(words.caption(name))}"></div></details>'
        for name in names
    )
    return section("figures", "Figures", shown) if shown else ""


def _shown_figures(figures: dict[str, bytes]) -> list[str]:
    """One file of each figure: a small SVG, or else a PNG, or else a large SVG."""

    def rank(name: str) -> int:
        if not name.endswith(".svg"):
            return 1
        return 2 if len(figures[name]) > LARGE_SVG else 0

    return words.best_files(figures, rank)


def _gaits(gaits: list[dict]) -> str:
    shown = "\n".join(_gait(gait) for gait in gaits)
    inside = f'<div class="gaits">{shown}</div>'
    return section("gaits", words.GAITS, inside) if gaits else ""


def _gait(gait: dict) -> str:
    label = f"{text(gait['arm'])} in {text(gait['env'])}"
    try:
        data = Path(gait["file"]).read_bytes()
    except OSError:
        return f"<p>{label}: the picture is no longer there.</p>"
    return (
        f'<figure><img src="{data_uri(gait["file"], data)}" alt="Gait of {label}">'
        f"<figcaption>{label}</figcaption></figure>"
    )


def _scores(panels: list[dict]) -> str:
    groups = [
        (
            text(panel["env"]),
            [[text(a["arm"]), *words.score(a["summary"])] for a in panel["arms"]],
        )
        for panel in panels
    ]
    note = f'<p class="small">{words.SCORES_NOTE}</p>'
    rows = table(words.SCORES, words.SCORE_HEAD, groups, "numbers")
    return section("scores", words.SCORES, note + rows)


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
    failed = "".join(
        f"<li><strong>{text(arm)}</strong>, seed {text(seed)}, in {text(env)}: "
        f"<code>{text(error)}</code></li>"
        for env, arm, seed, error in words.failures(findings)
    )
    errors = f'<h3>Failed seeds</h3><ul class="errors">{failed}</ul>' if failed else ""
    return section("seeds", "Seeds", table("Seeds", head, groups, "seeds") + errors)


def _settings(arms: list[dict]) -> str:
    if not arms:
        return ""
    groups = words.setting_groups(arms)
    head = ["Setting", *(text(arm["name"]) for arm in arms)]

    def rows(names: list[str]) -> list[list[str]]:
        return [
            [f"<code>{text(n)}</code>", *(text(words.setting_of(a, n)) for a in arms)]
            for n in names
        ]

    kinds = [[text(cell) for cell in row] for row in words.kinds(arms)]
    differing = [("", kinds + rows(groups["differ"]))]
    first = table("Settings in which arms differ", head, differing, "settings")
    folded = "".join(
        f"<details><summary>{title} ({len(groups[key])})</summary>"
        f"{table(title, head, [('', rows(groups[key]))], 'settings')}</details>"
        for key, title in words.FOLDED.items()
        if groups[key]
    )
    note = f'<p class="small">{words.SETTINGS_NOTE}</p>'
    return section("settings", "Settings", note + first + folded)


def _provenance(findings: dict) -> str:
    listed = "".join(
        f"<dt>{k}</dt><dd>{text(v)}</dd>" for k, v in words.facts(findings).items()
    )
    return section(
        "provenance",
        words.PROVENANCE,
        f"<dl>{listed}</dl><h3>{words.REPRODUCE}</h3>"
        f'<div class="command"><pre><code id="command">{text(findings["command"])}'
        '</code></pre><button type="button" data-copy="command">Copy</button></div>'
        '<p class="unseen" role="status" id="copied"></p>',
    )
