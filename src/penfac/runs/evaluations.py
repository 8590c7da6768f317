"""evaluations.csv, one row per evaluation episode: its only format and its only readers."""

import csv
import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from penfac.runs.csv_files import read_csv, reading, whole_lines
from penfac.runs.sealed import checked_bytes
from penfac.scores import final_score

FILE = "evaluations.csv"
Episodes = tuple[list[float], list[int], list[bool]]  # returns, lengths, terminated


class Evaluation(NamedTuple):
    """Episodes of the mean action without exploration, undiscounted; and, by mode, of
    the same policy acting in other ways from the same initial states."""

    step: int
    update: int
    returns: list[float]
    lengths: list[int]
    terminated: list[bool]
    others: dict[str, Episodes] = {}  # noqa: RUF012

    @property
    def mean(self) -> float:
        """The mean return of the mean action."""
        return statistics.fmean(self.returns)

    @property
    def modes(self) -> dict[str, Episodes]:
        """The episodes of each mode, the mean action first."""
        return {"mean": (self.returns, self.lengths, self.terminated)} | self.others


class LearningCurve(NamedTuple):
    """Mean return of the evaluation episodes at each step."""

    steps: list[int]
    returns: list[float]


# --- rows ----------------------------------------------------------------------------------


def rows_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The rows of one evaluation."""
    return [
        {
            "step": evaluation.step,
            "update": evaluation.update,
            "episode": k,
            "mode": mode,
            "return": returned,
            "length": length,
            "terminated": int(terminated),
        }
        for mode, episodes in evaluation.modes.items()
        for k, (returned, length, terminated) in enumerate(zip(*episodes, strict=True))
    ]


def read_evaluations(path: Path) -> list[Evaluation]:
    """Read the evaluations of one learner in the order in which they were made."""
    found: dict[int, tuple[int, dict[str, Episodes]]] = {}
    data = checked_bytes(path, FILE)
    with reading(path / FILE):
        for row in read_csv(path / FILE, data):
            _, modes = found.setdefault(int(row["step"]), (int(row["update"]), {}))
            returns, lengths, ended = modes.setdefault(row["mode"], ([], [], []))
            returns.append(float(row["return"]))
            lengths.append(int(row["length"]))
            ended.append(row["terminated"] == "1")
        return [
            Evaluation(step, update, *modes.pop("mean"), modes)
            for step, (update, modes) in found.items()
        ]


# --- curves --------------------------------------------------------------------------------


def read_curves(path: Path) -> dict[str, LearningCurve]:
    """Read the curve of each mode; a thousand learners take a second or two."""
    data = checked_bytes(path, FILE)
    returns: dict[tuple[str, int], list[float]] = {}
    with reading(path / FILE):
        lines = whole_lines(data)
        if not lines:  # there is none yet, or it was only just created
            return {}
        rows = csv.reader(lines)
        place = {name: k for k, name in enumerate(next(rows, []))}
        step, mode, returned = place["step"], place["mode"], place["return"]
        for row in rows:
            key = row[mode], int(row[step])
            returns.setdefault(key, []).append(finite(row[returned]))
    curves: dict[str, LearningCurve] = {}
    for (name, at_step), values in sorted(returns.items()):
        curve = curves.setdefault(name, LearningCurve([], []))
        curve.steps.append(at_step)
        curve.returns.append(statistics.fmean(values))
    return curves


def finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text}: must be a finite number")
    return value


def mean_curve(path: Path) -> LearningCurve:
    """The curve of the mean action; empty before the first evaluation."""
    return read_curves(path).get("mean", LearningCurve([], []))


def is_evaluated_at(path: Path, steps: int) -> bool:
    """Whether a learner was evaluated at `steps` or later."""
    return max(mean_curve(path).steps, default=-1) >= steps


def score(path: Path, steps: int) -> float:
    """The mean of the last tenth of the evaluations up to the first at `steps`."""
    curve = mean_curve(path)
    end = min((s for s in curve.steps if s >= steps), default=math.inf)
    return final_score(
        [value for step, value in zip(*curve, strict=True) if step <= end]
    )
