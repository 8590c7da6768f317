"""The one reader of TOML files."""

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError


def read_toml(file: Path | Traversable, asked: str) -> dict[str, Any]:
    """The tables of a file; `asked` begins the error line, as in `--space mine.toml`."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{asked}: {error}") from None
