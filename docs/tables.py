"""Make from declarations, by `make tables`: the tables of settings and of other libraries'
words in docs/, and the typed signatures of the classes for editors; numbers from results/."""

import inspect
import re
from pathlib import Path
from typing import Any

from docs import marks

from penfac.algos import ALGORITHMS
from penfac.api import KINDS, Model, Place, load
from penfac.cli.catalogue import presets_table
from penfac.settings import presets
from penfac.settings.declaration import declared
from penfac.settings.words import LIBRARIES, words

DOCS = Path(__file__).parent
PAGES = {  # page -> the algorithm whose settings it explains
    "penfac.md": "penfac",
    "online.md": "cacla",
    "ddpg.md": "ddpg",
    "td3.md": "td3",
    "sac.md": "sac",
    "ppo.md": "ppo",
}


def with_table(text: str, algo: str) -> str:
    """Return the text of a page with a new table of settings."""
    return re.sub(r"\| setting \| meaning \|(.*\n\|)*.*", lambda _: table(algo), text)


def table(algo: str) -> str:
    """Return a row per setting: its meaning, and its value in each preset on HalfCheetah."""
    names = presets.names(ALGORITHMS[algo].presets)
    lines = [
        f"| setting | meaning | {' | '.join(names)} |",
        "|---" * (2 + len(names)) + "|",
    ]
    settings = declared(ALGORITHMS[algo].config)
    for row in presets_table(algo, "HalfCheetah-v5"):
        key = row["setting"]
        values = " | ".join(cell(row[name]) for name in names)
        lines.append(f"| `{key}` | {settings[key].means} | {values} |")
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# --- words of other libraries ----------------------------------------------------------

WORDS = "coming-from.md"


def with_words(text: str) -> str:
    """Return the text of a page with a new table of words."""
    names = re.escape(" | ".join(LIBRARIES.values()))
    return re.sub(rf"\| {names} \|(.*\n\|)*.*", lambda _: words_table(), text)


def words_table() -> str:
    """Return a row per word: what each library calls it, and what it is here."""
    lines = [f"| {' | '.join(LIBRARIES.values())} | here |", "|---" * 4 + "|"]
    for row in words():
        there = [quoted(row.there.get(library, [])) for library in LIBRARIES]
        here = quoted(row.here)
        told = "; ".join(filter(None, (here, row.note)))
        lines.append(f"| {' | '.join(there)} | {told} |")
    return "\n".join(lines)


def quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# --- signatures ------------------------------------------------------------------------

STUB = DOCS.parent / "src/penfac/api/__init__.pyi"
HEAD = """# Made by `make tables` from the settings of each algorithm.
# A default is that of the preset `tuned`; other presets, and some tasks, have others.
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from penfac.api.model import Model as Model
from penfac.api.model import Place as Place

KINDS: dict[str, type[Model]]
"""


def stub() -> str:
    """Return the text of __init__.pyi: the constructor of each class."""
    return HEAD + load_stub() + "".join(class_stub(kind) for kind in KINDS.values())


def load_stub() -> str:
    listed = ", ".join(map(shown, inspect.signature(load).parameters.values()))
    return f"\ndef load(\n    {listed}\n) -> Model: ...\n"


def shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    end = "" if default is inspect.Parameter.empty else f" = {literal(default)}"
    return f"{parameter.name}: {annotation(parameter.annotation)}{end}"


def class_stub(kind: type[Model]) -> str:
    parameters = list(inspect.signature(kind).parameters.values())
    lines = [f"        {shown(parameter)}," for parameter in parameters[1:]]
    return "\n".join(
        [
            "",
            f"class {kind.__name__}(Model):",
            f'    """{inspect.getdoc(kind)}"""',
            "",
            "    algo: ClassVar[str]",
            "    def __init__(",
            "        self,",
            "        env: Any,",
            "        *,",
            *lines,
            "    ) -> None: ...",
            "",
        ]
    )


def literal(value: Any) -> str:
    return repr(value).replace("'", '"')


def annotation(kind: Any) -> str:
    """The text of a type; a list will do where a tuple of numbers is declared."""
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    if kind == Place:
        return "Place"
    text = text.replace("typing.", "").replace("'", '"')
    return re.sub(r"tuple\[(\w+), \.\.\.\]", r"Sequence[\1]", text)


if __name__ == "__main__":
    for name, algo in PAGES.items():
        file = DOCS / name
        text = file.read_text(encoding="utf-8")
        file.write_text(with_table(text, algo), encoding="utf-8")
    file = DOCS / WORDS
    file.write_text(with_words(file.read_text(encoding="utf-8")), encoding="utf-8")
    STUB.write_text(stub(), encoding="utf-8")
    marks.write()
