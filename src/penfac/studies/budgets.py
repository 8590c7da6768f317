"""Numbers of seeds, steps and evaluations, as a file or a table gives them."""

from typing import Any

from penfac.errors import ConfigError

BUDGET = (
    "seeds", "steps", "eval_every", "eval_episodes", "paper_seeds", "paper_steps",
)  # fmt: skip
TABLES = ("env_steps", "algo_seeds")  # by environment, by algorithm


def whole_numbers(name: str, table: dict[str, Any]) -> dict[str, int]:
    """The budget of a study; 1e6 is a whole number too."""
    given = {key: table[key] for key in BUDGET if table.get(key) is not None}
    return {key: whole(name, key, value) for key, value in given.items()}


def whole_tables(name: str, table: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The budgets of single environments and algorithms."""
    found = {}
    for key in TABLES:
        given = table.get(key) or {}
        if not isinstance(given, dict):
            raise ConfigError(f"{name}: {key} = {given!r}: must be a table of numbers")
        found[key] = {who: whole(name, f"{key}.{who}", n) for who, n in given.items()}
    return found


def whole(name: str, key: str, value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN for inf and NaN
    if not number or not 1 <= value <= 2**53 or value % 1 != 0:
        raise ConfigError(f"{name}: {key} = {value!r}: must be a whole number above 0")
    return int(value)
