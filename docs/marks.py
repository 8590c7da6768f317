"""Numbers of results/ in the pages: `make tables` writes them, a test makes them again.

A page has three kinds of marks, which are comments and so do not show:

    <!--let                          names for this page, a line each
    hop = last("learning/hopper")
    -->

    <!--{pm(hop)}-->2 644 +- 124<!--/-->      a number in a sentence; never begins a line

    <!--make                         a table, or anything else, with its numbers as {...}
    | Hopper | {pm(hop)} |
    -->

    | Hopper | 2 644 +- 124 |

    <!--made-->

An expression is Python and calls the functions of docs/measured.py. A section between
<!--notes--> and <!--end of notes--> has numbers that left no file; they are typed.
"""

import re
from pathlib import Path
from typing import Any

from docs import measured

DOCS = Path(__file__).parent
NAMES = (
    *("index", "choose", "penfac", "results", "learning", "paper-figures"),
    *("baselines", "speed", "device", "gpu", "appendix", "results-before"),
    *("zoo", "offpenfac"),
)
PAGES = [DOCS.parent / "README.md", *(DOCS / f"{name}.md" for name in NAMES)]

LET = re.compile(r"^<!--let\n(.*?)-->\n", re.M | re.S)
MAKE = re.compile(r"^<!--make\n(.*?)-->\n\n.*?\n\n<!--made-->$", re.M | re.S)
NUMBER = re.compile(r"<!--\{([^{}]*?)\}-->.*?<!--/-->", re.S)
# a number that was measured, as these pages write one: 2 644, +- 12, [-1, 3], 126
TYPED = re.compile(r"\d \d{3}\b|\+- ?\d|\[-?[\d.]+, |(?<![\w.])-?\d{3,}\b(?!\w)")
FREE = re.compile(  # notes, code, commands, links, years, bounds, the table of settings
    r"^<!--notes-->.*?^<!--end of notes-->$|^```.*?^```$|^    +(?:penfac|pip) .*?$"
    r"|`[^`]+`|\]\([^)]*\)|(?<=IJCAI\s)\d+|\[-1, 1\]|^\| setting \| meaning \|.*?\n\n",
    re.M | re.S,
)


def render(text: str) -> str:
    """Return a page with every number made again."""
    names: dict[str, Any] = dict(vars(measured))
    for block in LET.findall(text):
        for line in block.strip().splitlines():
            name, expression = line.split(" = ", 1)
            names[name] = eval(expression, names)  # noqa: S307 - our own page

    def value(found: re.Match[str]) -> str:
        return str(eval(found[1], names))  # noqa: S307

    def made(found: re.Match[str]) -> str:
        body = re.sub(r"\{([^{}]+)\}", value, found[1])
        return f"<!--make\n{found[1]}-->\n\n{body}\n<!--made-->"

    text = MAKE.sub(made, text)
    return NUMBER.sub(lambda m: f"<!--{{{m[1]}}}-->{value(m)}<!--/-->", text)


def typed(text: str) -> list[str]:
    """Return the lines of a page that have a measured number that no mark made."""
    text = MAKE.sub("", NUMBER.sub("", LET.sub("", text)))
    return [line for line in FREE.sub("", text).splitlines() if TYPED.search(line)]


def write() -> None:
    """Make the numbers of every page again."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(render(text), encoding="utf-8")
