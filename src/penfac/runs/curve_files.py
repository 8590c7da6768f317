"""Curves of other programs: a CSV file with the columns seed, step and return."""

import csv
from pathlib import Path

from penfac.errors import ConfigError, CorruptFile
from penfac.plots import Curve
from penfac.runs.csv_files import reading
from penfac.runs.evaluations import finite

NEEDED = ("seed", "step", "return")


def read_curve_file(path: Path) -> dict[tuple[str, str], list[Curve]]:
    """Read the curves of each environment and label, a curve a seed.

    The columns `env` and `arm` may be there, as a study's curves.csv has them; otherwise
    the label is the file's name, or what is before it in LABEL=FILE.
    """
    label, _, rest = str(path).rpartition("=")
    file = path if path.is_file() else Path(rest)
    if not file.is_file():
        raise ConfigError(f"{path}: no such file")
    name = label if file != path and label else file.stem
    problem = f"needs the columns {', '.join(NEEDED)}, with numbers"
    found: dict[tuple[str, str], dict[int, Curve]] = {}
    with reading(file, problem), file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = row.get("env") or "", row.get("arm") or name
            seed = int(row["seed"])
            curve = found.setdefault(key, {}).setdefault(seed, Curve(seed, [], []))
            curve.steps.append(int(float(row["step"])))
            curve.returns.append(finite(row["return"]))
    for curves in found.values():
        for curve in curves.values():
            if curve.steps != sorted(set(curve.steps)):
                raise CorruptFile(f"{file}: the steps of seed {curve.seed} must rise")
    if not found:
        raise CorruptFile(f"{file}: {problem}")
    return {key: list(curves.values()) for key, curves in found.items()}
