"""curves.csv and acting.csv of a report: every evaluation, and every active condition."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError, CorruptFile
from penfac.runs.csv_files import reading
from penfac.runs.evaluations import LearningCurve, finite
from penfac.studies.run_results import RunResult
from penfac.studies.spec import Study

KEYS = ("env", "arm", "seed", "step")
RunKey = tuple[str, str, int]  # environment, arm, seed
ELSEWHERE = "elsewhere"  # folder of a study: curves of runs that were made elsewhere


def read_curves(file: Path) -> dict[RunKey, dict[str, LearningCurve]]:
    """Read curves.csv by run and mode; older files have the mean alone."""
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    problem = "is not a curves.csv that penfac wrote"
    runs: dict[RunKey, dict[str, LearningCurve]] = {}
    with reading(file, problem), file.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        columns = [name for name in rows.fieldnames or [] if name not in KEYS]
        for row in rows:
            curves = runs.setdefault((row["env"], row["arm"], int(row["seed"])), {})
            for column in columns:
                if row[column] == "" and column != "return":
                    continue  # this arm has no such mode
                mode = "mean" if column == "return" else column
                curve = curves.setdefault(mode, LearningCurve([], []))
                curve.steps.append(int(row["step"]))
                curve.returns.append(finite(row[column]))
    if not runs:
        raise CorruptFile(f"{file}: {problem}")
    return runs


def read_active(file: Path) -> dict[RunKey, dict[str, float]]:
    """Read acting.csv by run and condition; empty if there is no such file."""
    runs: dict[RunKey, dict[str, float]] = {}
    if not file.is_file():
        return runs
    problem = "is not an acting.csv that penfac wrote"
    with reading(file, problem), file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            run = runs.setdefault((row["env"], row["arm"], int(row["seed"])), {})
            run[row["condition"]] = finite(row["share"])
    return runs


def landed(folder: Path) -> list[Path]:
    """The curves in a study's folder that were made elsewhere."""
    return sorted(folder.glob(f"{ELSEWHERE}/*/curves.csv"))


def add_published(here: list[RunResult], file: Path, study: Study) -> list[RunResult]:
    """Add the complete runs of a curves.csv; a run that ended here takes precedence."""
    published, active = read_curves(file), read_active(file.with_name("acting.csv"))
    units = {(run.unit.env, run.unit.arm): run.unit for run in here}
    for env, arm, _ in published:
        if (env, arm) not in units:
            raise ConfigError(f"{file}: is of another study: it has {arm} on {env}")
    runs = {(run.unit.env, run.unit.arm, run.unit.seed): run for run in here}
    for seed in sorted({seed for _, _, seed in published}):
        for place, unit in units.items():
            key = (*place, seed)
            missing = RunResult(
                unit._replace(seed=seed, path=file), "missing", None, {}, 0.0
            )
            run = runs.setdefault(key, missing)
            curves = published.get(key)
            steps = study.steps_on(place[0])
            complete = curves and curves["mean"].steps[-1] >= steps
            if complete and run.state in ("missing", "running"):
                runs[key] = missing._replace(
                    state="finished", curves=curves, active=active.get(key, {})
                )
    return list(runs.values())


# --- written from findings ---------------------------------------------------------------


def curves_csv(findings: dict[str, Any]) -> str:
    """A row for each evaluation of each run; `return` is that of the mean action, other
    evaluation modes have a column each."""
    return rows_of_runs(
        [
            (panel["env"], arm["arm"], run)
            for panel in findings["panels"]
            for arm in panel["arms"]
            for run in arm["seeds"]
        ]
    )


def curves_of_runs(env: str, arm: str, runs: list[RunResult]) -> str:
    """The same of the runs of one arm."""
    told = [
        {
            "seed": run.unit.seed,
            **run.mean._asdict(),
            "modes": {m: c._asdict() for m, c in run.curves.items() if m != "mean"},
        }
        for run in runs
    ]
    return rows_of_runs([(env, arm, run) for run in told])


def rows_of_runs(runs: list[tuple[str, str, dict[str, Any]]]) -> str:
    modes = sorted({mode for _, _, run in runs for mode in run["modes"]})
    rows = []
    for env, arm, run in runs:
        others = [by_step(run["modes"].get(mode)) for mode in modes]
        for step, value in by_step(run).items():
            more = [six_digits(curve.get(step)) for curve in others]
            rows.append([env, arm, run["seed"], step, six_digits(value), *more])
    return as_csv([*KEYS, "return", *modes], rows)


def active_csv(findings: dict[str, Any]) -> str:
    """A row for each run and condition of a claim: the share of updates it held in."""
    head = ["env", "arm", "seed", "condition"]
    rows = [
        [*(row[key] for key in head), f"{row['share']:.4g}"]
        for row in findings["acting"]
    ]
    return as_csv([*head, "share"], rows)


def as_csv(head: list[str], rows: Iterable[list[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def by_step(curve: dict[str, Any] | None) -> dict[int, float]:
    if curve is None:
        return {}
    return dict(zip(curve["steps"], curve["returns"], strict=True))


def six_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
