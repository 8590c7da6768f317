"""What other libraries call our settings: words.toml, read and looked up."""

import functools
from collections.abc import Collection
from importlib import resources
from typing import Any, NamedTuple

from penfac.settings.toml import read_toml

LIBRARIES = {"sb3": "Stable-Baselines3", "cleanrl": "CleanRL", "rllib": "RLlib"}


class Word(NamedTuple):
    """A row of words.toml."""

    there: dict[str, list[str]]  # by library
    here: list[str]  # settings of ours
    note: str
    otherwise: str

    def known(self, settings: Collection[str]) -> list[str]:
        """Our names that are settings of the algorithm at hand."""
        return [name for name in self.here if name in settings]


@functools.cache
def read() -> dict[str, Any]:
    file = resources.files("penfac.settings") / "words.toml"
    return read_toml(file, "words.toml")


@functools.cache
def words() -> tuple[Word, ...]:
    """Every row, in the order of the file."""
    return tuple(
        Word(
            {library: row[library] for library in LIBRARIES if library in row},
            row.get("here", []),
            row.get("note", ""),
            row.get("otherwise", "this algorithm has nothing like it"),
        )
        for row in read()["word"]
    )


def explain(word: str, settings: Collection[str]) -> str:
    """The end of an error line for a word of another library, or nothing."""
    rows = [row for row in words() if any(word in x for x in row.there.values())]
    for row in rows:
        if names := row.known(settings):
            note = f" ({row.note})" if row.note else ""
            return f"; here it is {' and '.join(names)}{note}"
    if not rows:
        return ""
    return f"; {rows[0].otherwise if rows[0].here else rows[0].note}"


def other_algorithm(name: str) -> str:
    """The end of an error line for an algorithm that is not here, or nothing."""
    note = read()["algorithm"].get(name.lower().replace("-", ""))
    return f"; {note}" if note else ""
