"""The one reader of TOML files that people write."""

import tomllib
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError


def read_toml(file: str | Path, asked: str) -> dict[str, Any]:
    """The tables of a file; `asked` names it in the error line, as `--space mine.toml`."""
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{asked}: {error}") from None
