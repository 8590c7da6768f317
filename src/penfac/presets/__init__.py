"""Presets as data: what the paper prints, what its authors ran, what we tuned.

`tables.toml` holds the paper's Tables 1 and 2, kept and searched values. `penfac.toml`
holds the presets as differences from the defaults of the config; a block named after a
task (hopper, halfcheetah, humanoid) applies where that word is in the environment's id,
one named after a single id (roboschoolhopper) after that.
"""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError

TASKS = ("hopper", "halfcheetah", "humanoid")
BLOCKS = (*TASKS, "roboschoolhopper")  # from the general to the particular
NAMES = ("tuned", "authors", "paper")


def read(name: str) -> dict[str, Any]:
    file = resources.files("penfac.presets") / f"{name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def preset(algo: str, name: str, env_id: str) -> dict[str, Any]:
    """The settings of a preset, by name or from a TOML file of one's own."""
    if name.endswith(".toml"):
        try:
            blocks = {name: tomllib.loads(Path(name).read_text(encoding="utf-8"))}
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"--preset {name}: {error}") from None
    else:
        blocks = read("penfac")  # nfac shares it: it is penfac by its overrides
    if name not in blocks:
        raise ConfigError(
            f"--preset {name}: is one of {', '.join(NAMES)}, or a .toml file"
        )
    block = blocks[name]
    settings = {k: v for k, v in block.items() if not isinstance(v, dict)}
    for table in block.keys() - settings.keys() - set(BLOCKS):
        raise ConfigError(
            f"--preset {name}: [{table}] is none of the tasks {', '.join(BLOCKS)}"
        )
    letters = env_id.lower().replace("-", "").replace("_", "")
    for task in BLOCKS:
        if task in letters:
            settings |= block.get(task, {})
    return settings


def tables() -> dict[str, Any]:
    """Tables 1 and 2 of the paper: symbol, setting, kept and searched values."""
    return read("tables")
