"""What a search draws from: settings and the values they may take."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from penfac.algos.base import Algorithm
from penfac.errors import ConfigError
from penfac.settings import presets
from penfac.settings.configs import check as check_config
from penfac.settings.configs import check_range, from_values, unknown_key
from penfac.settings.declaration import known_fields
from penfac.settings.toml import read_toml

Space = dict[
    str, Any
]  # setting -> a list of choices, {"log": [a, b]} or {"uniform": ...}
TRIES = 1000  # draws of one config, before its space is said to hold none


def space(algo: Algorithm, name: str) -> Space:
    """The space of an algorithm: ours, the paper's, or that of a TOML file."""
    if name == "paper":
        return paper_space(algo)
    if name == "default":
        known = presets.read("spaces")
        found = known.get(algo.name, known.get(algo.presets))
    elif name.endswith(".toml"):
        found = read_toml(Path(name), f"--space {name}")
    else:
        raise ConfigError(f"--space {name}: must be default, paper, or a .toml file")
    if not found:
        raise ConfigError(f"--space {name}: has no setting of {algo.name}")
    check(algo, name, found)
    return found


def paper_space(algo: Algorithm) -> Space:
    """Every value the paper searched, of the settings where it searched several."""
    tables = presets.printed(algo.presets)
    found: Space = {}
    for cells in tables.values():
        for setting, cell in cells.items():
            tried = cell["searched"]
            if isinstance(tried, list) and len(tried) > 1:
                found[setting] = [*found.get(setting, []), *tried]
    found = {key: unique(values) for key, values in found.items()}
    if not found:
        raise ConfigError(
            f"--space paper: the paper searched no setting of {algo.name}; use --space default"
        )
    return found


def unique(values: list[Any]) -> list[Any]:
    return [v for k, v in enumerate(values) if v not in values[:k]]


def check(algo: Algorithm, name: str, space: Space) -> None:
    known = known_fields(algo.config)
    for key, values in space.items():
        if key not in known:
            raise unknown_key(key, known)
        if key in algo.overrides:
            fixed = algo.overrides[key]
            raise ConfigError(
                f"--space {name}: {key} is fixed to {fixed} in {algo.name}; leave it out"
            )
        if not (isinstance(values, list) and values) and not is_interval(values):
            raise ConfigError(
                f"--space {name}: {key} must be a list of choices, {{ log = [low, high] }} "
                "or { uniform = [low, high] }"
            )
        check_values(algo, name, key, values)


def check_values(algo: Algorithm, name: str, key: str, values: Any) -> None:
    """Hold every choice, or both ends of an interval, to the setting's type and range."""
    choices = values if isinstance(values, list) else next(iter(values.values()))
    for choice in choices:
        try:
            check_range(from_values(algo.config, {key: choice}), key)
        except ConfigError as error:
            raise ConfigError(f"--space {name}: {error}") from None


def is_interval(values: Any) -> bool:
    """{ log = [low, high] } or { uniform = [low, high] }, low below high."""
    if not isinstance(values, dict) or len(values) != 1:
        return False
    [(kind, ends)] = values.items()
    if kind not in ("log", "uniform") or not isinstance(ends, list) or len(ends) != 2:
        return False
    if not all(type(end) in (int, float) for end in ends):
        return False
    return (0 if kind == "log" else -math.inf) < ends[0] < ends[1] < math.inf


def draw(
    algo: Algorithm, space: Space, base: dict[str, Any], count: int, seed: int
) -> list[dict[str, Any]]:
    """So many different configs as settings over `base`, itself the first."""
    random = np.random.default_rng(seed)
    found = [from_values(algo.config, base)]
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        drawn = {key: draw_one(random, values) for key, values in space.items()}
        cfg = from_values(algo.config, base | drawn)
        try:
            check_config(cfg)
        except ConfigError:
            continue  # each value may be, but not all of them together
        if cfg not in found:
            found.append(cfg)
    if len(found) < count:
        raise ConfigError(
            f"--configs {count}: must be at most {len(found)}, the size of the space"
        )
    names = [f.name for f in fields(algo.config)]
    return [{name: getattr(cfg, name) for name in names} for cfg in found]


def draw_one(random: np.random.Generator, values: Any) -> Any:
    if isinstance(values, list):
        return values[int(random.integers(len(values)))]
    kind, (low, high) = next(iter(values.items()))
    if kind == "uniform":
        return as_number(random.uniform(low, high))
    return as_number(math.exp(random.uniform(math.log(low), math.log(high))))


def as_number(value: float) -> float:
    """Three digits are enough to search with, and can be read."""
    return float(f"{value:.3g}")


def as_toml(settings: dict[str, Any]) -> str:
    """Settings as lines of a preset file."""
    lines = (f"{key} = {toml_value(value)}\n" for key, value in settings.items())
    return "".join(lines)


def toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return '"none"'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)
