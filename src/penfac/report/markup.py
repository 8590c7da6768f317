"""HTML parts of the page: escaped text, sections, tables, embedded files."""

import base64
import hashlib
import html
import importlib.resources
import mimetypes

from penfac.errors import printable
from penfac.report.words import SIGNS


def text(value: object) -> str:
    """Escaped: safe between tags and inside quoted attributes."""
    return html.escape(printable(str(value)), quote=True)


def asset(name: str) -> str:
    return importlib.resources.files("penfac.report").joinpath(name).read_text("utf-8")


def security_policy(css: str, js: str) -> str:
    """Allow our style and script by hash and embedded pictures, nothing else."""

    def source_hash(source: str) -> str:
        digest = hashlib.sha256(source.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {source_hash(js)}; "
        f"style-src {source_hash(css)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def data_uri(name: str, data: bytes) -> str:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def section(name: str, title: str, inside: str) -> str:
    return (
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>'
        f"\n{inside}\n</section>"
    )


def table(
    title: str,
    head: list[str],
    groups: list[tuple[str, list[list[str]]]],
    kind: str = "",
) -> str:
    """Rows in named groups; the first cell names the row. Cells are HTML already."""
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


def badge(verdict: str) -> str:
    """A verdict as word and sign: readable without its colour."""
    kind = verdict.replace(" ", "-") if verdict in SIGNS else "not-run"
    sign = SIGNS.get(verdict, "")
    return (
        f'<span class="badge {kind}"><span aria-hidden="true">{sign}</span> '
        f"{text(verdict)}</span>"
    )


def whisker(p: float | None, low: float | None, high: float | None) -> str:
    """A probability and its interval on a line from 0 to 1, with 0.5 marked."""
    if p is None:
        return ""
    span = (
        f'<line class="range" x1="{100 * low:.1f}" x2="{100 * high:.1f}" y1="7" y2="7"/>'
        if low is not None and high is not None
        else ""
    )
    return (
        '<svg class="whisker" viewBox="-4 0 108 14" aria-hidden="true">'
        '<line class="whole" x1="0" x2="100" y1="7" y2="7"/>'
        '<line class="even" x1="50" x2="50" y1="1" y2="13"/>'
        f'{span}<circle cx="{100 * p:.1f}" cy="7" r="3.5"/></svg>'
    )
