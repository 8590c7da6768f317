"""Learned policies that come with penfac, each as a small run folder.

An entry has a config.json, a policy and entry.json, which says what it reached. `python -m
docs.make_zoo` makes one from a run.
"""

from pathlib import Path
from typing import Any

import msgspec

from penfac.errors import ConfigError, CorruptFile

FILE = "entry.json"
HOME = Path(__file__).parent / "entries"


class Entry(msgspec.Struct, frozen=True):
    """What entry.json says of a policy."""

    env: str
    algo: str
    steps: int  # that it learned
    seed: int
    episodes: int  # on new initial states, after training
    mean: float  # return over them
    std: float
    best: bool = False  # the policy of the best evaluation, not the last one
    command: str | None = None  # that trained it
    note: str | None = None


def entries(home: Path | None = None) -> dict[str, Entry]:
    """The entries by name."""
    found = sorted((home or HOME).glob(f"*/{FILE}"))
    return {file.parent.name: read(file) for file in found}


def read(file: Path) -> Entry:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Entry)
    except (OSError, ValueError) as error:
        raise CorruptFile(f"{file}: is no entry of the zoo ({error})") from None


def folder_of(name: str, home: Path | None = None) -> Path:
    """The run folder of an entry."""
    known = entries(home)
    if name not in known:
        there = ", ".join(known) or "none yet"
        raise ConfigError(f"{name}: is not in the zoo; there are {there}")
    return (home or HOME) / name


def document(home: Path | None = None) -> list[dict[str, Any]]:
    """The entries as rows."""
    known = entries(home)
    return [{"name": n, **msgspec.to_builtins(e)} for n, e in known.items()]
