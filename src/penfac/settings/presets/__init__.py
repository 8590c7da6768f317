"""Presets as data: what the paper prints, what its authors ran, what we tuned.

`tables.toml` holds the paper's Tables 1 to 5, kept and searched values. The other files
hold presets as differences from the defaults of a config; a block named after a task
(hopper, halfcheetah, humanoid) applies where that word is in the environment's id, one
named after a single id (roboschoolhopper) after that.
"""

from importlib import resources
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError
from penfac.settings.toml import read_toml

TASKS = ("hopper", "halfcheetah", "humanoid")
# from the general to the particular
BLOCKS = (*TASKS, *(f"roboschool{task}" for task in TASKS))
# which preset stands for which table of the paper; Table 1 is everybody's
TABLES = {
    "penfac": {"authors": "table2"},
    "ppo": {"authors": "table3"},
    "ddpg": {"ddrl": "table4", "baselines": "table5"},
}


def read(name: str) -> dict[str, Any]:
    file = resources.files("penfac.settings.presets") / f"{name}.toml"
    return read_toml(file, name)


def names(file: str) -> tuple[str, ...]:
    """The presets a file holds, `tuned` first."""
    return tuple(read(file))


def preset(file: str, name: str, env_id: str) -> dict[str, Any]:
    """The settings of a preset, by name or from a TOML file of one's own."""
    if name.endswith(".toml"):
        blocks = {name: read_toml(Path(name), f"--preset {name}")}
    else:
        blocks = read(file)
    if name not in blocks:
        raise ConfigError(
            f"--preset {name}: must be one of {', '.join(blocks)}, or a .toml file"
        )
    block = blocks[name]
    settings = {k: v for k, v in block.items() if not isinstance(v, dict)}
    for table in block.keys() - settings.keys() - set(BLOCKS):
        raise ConfigError(
            f"--preset {name}: [{table}] must be one of the tasks {', '.join(BLOCKS)}"
        )
    letters = env_id.lower().replace("-", "").replace("_", "")
    for task in BLOCKS:
        if task in letters:
            settings |= block.get(task, {})
    return settings


def arms(name: str) -> dict[str, dict[str, Any]]:
    """The arms of a comparison, by name or from a TOML file of one's own: a block each,
    with the settings in which it differs."""
    if name.endswith(".toml"):
        found = read_toml(Path(name), f"--arms {name}")
    else:
        known = read("arms")
        if name not in known:
            listed = ", ".join(known)
            raise ConfigError(f"--arms {name}: must be {listed}, or a .toml file")
        found = known[name]
    for arm, settings in found.items():
        if not isinstance(settings, dict):
            raise ConfigError(f"--arms {name}: {arm} must be a block; write [{arm}]")
    return found


def tables() -> dict[str, Any]:
    """Tables 1 to 5 of the paper: symbol, setting, kept and searched values."""
    return read("tables")


def printed(file: str) -> dict[str, dict[str, Any]]:
    """By preset, what the paper prints of each setting: kept and searched values.

    A row may tell several settings at once, as (beta1, beta2, epsilon) of Adam.
    """
    every, found = tables(), {}
    for name, table in TABLES.get(file, {}).items():
        cells: dict[str, Any] = {}
        for row in (*every["table1"]["rows"].values(), *every[table]["rows"].values()):
            settings = row.get("setting", [])
            if isinstance(settings, str):
                cells[settings] = {"kept": row["kept"], "searched": row["searched"]}
                continue
            for k, setting in enumerate(settings):
                listed = [v[k] for v in row["searched"] if k < len(v)]
                once = list(dict.fromkeys(listed))
                cells[setting] = {"kept": row["kept"][k], "searched": once}
        found[name] = cells
    return found
