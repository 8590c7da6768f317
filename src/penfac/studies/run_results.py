"""One run of a study, read from its folder: state, curves, cost, active conditions."""

import csv
from pathlib import Path
from typing import NamedTuple

from penfac.errors import ConfigError, CorruptFile
from penfac.runs import evaluations
from penfac.runs.csv_files import reading, whole_lines
from penfac.runs.evaluations import LearningCurve, read_curves
from penfac.runs.sealed import checked_bytes, newer_rows
from penfac.runs.status import read_status
from penfac.settings.configs import to_values
from penfac.studies import plan
from penfac.studies.claims import Need
from penfac.studies.plan import Unit

ROUNDING = 1e-3  # relative: a float32 of 0.01 is not above 0.01


class RunResult(NamedTuple):
    """A run: its curves by evaluation mode, and how often each condition held."""

    unit: Unit
    state: str
    error: str | None
    curves: dict[str, LearningCurve]
    seconds: float
    active: dict[str, float] = {}  # noqa: RUF012  share of updates, by condition
    newer: int = 0  # rows of evaluations.csv that no checkpoint vouches for yet

    @property
    def mean(self) -> LearningCurve:
        """The curve of the mean action; empty before the first evaluation."""
        return self.curves.get("mean", LearningCurve([], []))


def read_run(unit: Unit, needs: tuple[Need, ...] = ()) -> RunResult:
    """Read the folder of one run."""
    state = plan.state_of(unit)
    error = str(read_status(unit.path).error) if state == "failed" else None
    shares = {n.text: active_share(unit, n) for n in needs if n.arm == unit.arm}
    active = {text: share for text, share in shares.items() if share is not None}
    curves, seconds = read_curves(unit.path), read_seconds(unit.path)
    refuse_lost(unit, state, curves)
    newer = newer_rows(unit.path, evaluations.FILE)
    return RunResult(unit, state, error, curves, seconds, active, newer)


def refuse_lost(unit: Unit, state: str, curves: object) -> None:
    """A run that counts as finished has figures, or its loss is told."""
    if state == "finished" and not curves:
        raise CorruptFile(
            f"{unit.path}: is listed as finished, but has no {evaluations.FILE}; "
            "restore the file, or remove the folder and run the study again"
        )


# --- files -------------------------------------------------------------------------------


def read_seconds(path: Path) -> float:
    """Total computing time in timing.csv; elapsed_s restarts when a run is resumed."""
    file = path / "timing.csv"
    if not file.exists():
        return 0.0
    total = last = 0.0
    with reading(file):
        rows = list(csv.reader(whole_lines(file.read_bytes())))
        column = rows[0].index("elapsed_s") if rows else 0
        for row in rows[1:]:
            now = float(row[column])
            total, last = total + (last if now < last else 0.0), now
    return total + last


def active_share(unit: Unit, need: Need) -> float | None:
    """The share of updates in which a column exceeds its bound; None if unknown."""
    file = unit.path / "progress.csv"
    data = checked_bytes(unit.path, file.name)
    bound = bound_of(unit, need) * (1 + ROUNDING)
    with reading(file, f"has no numeric column {need.column}, which a claim needs"):
        rows = list(csv.DictReader(whole_lines(data)))
        if not rows:
            return None
        return sum(float(row[need.column]) > bound for row in rows) / len(rows)


def bound_of(unit: Unit, need: Need) -> float:
    """The bound itself, or the setting of that name in the run's config."""
    value = to_values(unit.run.config.settings).get(need.bound, need.bound)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{need.text!r}: {need.bound} is neither a number nor a setting of {need.arm}"
        ) from None
