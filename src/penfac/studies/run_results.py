"""One run of a study, read from its folder: state, curves, cost, active conditions."""

import contextlib
import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penfac.errors import ConfigError, CorruptFile
from penfac.runs.standing import status
from penfac.studies import plan
from penfac.studies.claims import Need
from penfac.studies.plan import Unit

ROUNDING = 1e-3  # relative: a float32 of 0.01 is not above 0.01


class LearningCurve(NamedTuple):
    """Mean return of the evaluation episodes at each step."""

    steps: list[int]
    returns: list[float]


class RunResult(NamedTuple):
    """A run: its curves by evaluation mode, and how often each condition held."""

    unit: Unit
    state: str
    error: str | None
    curves: dict[str, LearningCurve]
    seconds: float
    active: dict[str, float] = {}  # noqa: RUF012  share of updates, by condition

    @property
    def mean(self) -> LearningCurve:
        """The curve of the mean action; empty before the first evaluation."""
        return self.curves.get("mean", LearningCurve([], []))


def read_run(unit: Unit, needs: tuple[Need, ...] = ()) -> RunResult:
    """Read the folder of one run."""
    state = plan.state_of(unit)
    error = str(status(unit.path).get("error")) if state == "failed" else None
    shares = {n.text: active_share(unit, n) for n in needs if n.arm == unit.arm}
    active = {text: share for text, share in shares.items() if share is not None}
    curves, seconds = read_evaluations(unit.path), read_seconds(unit.path)
    return RunResult(unit, state, error, curves, seconds, active)


# --- files -------------------------------------------------------------------------------


@contextlib.contextmanager
def reading(file: Path, problem: str) -> Iterator[None]:
    """Report any fault in the content of a file as a CorruptFile."""
    try:
        yield
    except (OSError, csv.Error, LookupError, TypeError, ValueError):
        raise CorruptFile(f"{file}: {problem}") from None


def complete_lines(file: Path) -> list[str]:
    """The lines of a file without a last one that was not finished."""
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text}: needs a finite number")
    return value


def read_evaluations(path: Path) -> dict[str, LearningCurve]:
    """Read evaluations.csv by mode; a thousand runs take a second or two."""
    file = path / "evaluations.csv"
    if not file.exists():
        return {}
    sums: dict[tuple[str, int], list[float]] = {}
    with reading(file, "is not a table that penfac wrote"):
        lines = complete_lines(file)
        if not lines:  # the file was only just created
            return {}
        rows = csv.reader(lines)
        place = {name: k for k, name in enumerate(next(rows, []))}
        step, mode, returned = place["step"], place["mode"], place["return"]
        for row in rows:
            total = sums.setdefault((row[mode], int(row[step])), [0.0, 0.0])
            total[0] += finite(row[returned])
            total[1] += 1
    curves: dict[str, LearningCurve] = {}
    for (name, at_step), (total, count) in sorted(sums.items()):
        curve = curves.setdefault(name, LearningCurve([], []))
        curve.steps.append(at_step)
        curve.returns.append(total / count)
    return curves


def read_seconds(path: Path) -> float:
    """Total computing time in timing.csv; elapsed_s restarts when a run is resumed."""
    file = path / "timing.csv"
    if not file.exists():
        return 0.0
    total = last = 0.0
    with reading(file, "is not a table that penfac wrote"):
        rows = list(csv.reader(complete_lines(file)))
        column = rows[0].index("elapsed_s") if rows else 0
        for row in rows[1:]:
            now = float(row[column])
            total, last = total + (last if now < last else 0.0), now
    return total + last


def active_share(unit: Unit, need: Need) -> float | None:
    """The share of updates in which a column exceeds its bound; None if unknown."""
    file = unit.path / "progress.csv"
    if not file.exists():
        return None
    bound = bound_of(unit, need) * (1 + ROUNDING)
    with reading(file, f"has no numeric column {need.column}, which a claim needs"):
        rows = list(csv.DictReader(complete_lines(file)))
        if not rows:
            return None
        return sum(float(row[need.column]) > bound for row in rows) / len(rows)


def bound_of(unit: Unit, need: Need) -> float:
    """The bound itself, or the setting of that name in the run's config."""
    value = unit.document["config"].get(need.bound, need.bound)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{need.text!r}: {need.bound} is neither a number nor a setting of {need.arm}"
        ) from None
