"""The report of a study as files: a page, Markdown, figures, curves as CSV, findings."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from penfac.report.figures import all_figures
from penfac.report.markdown import markdown
from penfac.report.page import page
from penfac.runs.folder import RunFolder, storage
from penfac.studies.findings import KEYS


def publish(found: dict[str, Any], into: Path) -> list[Path]:
    """Everything that can be read without penfac, the page first."""
    figures = all_figures(found)
    files = {
        "index.html": page(found, figures).encode(),
        "report.md": markdown(found, list(figures)).encode(),
        "findings.json": json.dumps(found, indent=1, allow_nan=False).encode(),
        "curves.csv": curves(found).encode(),
        "made.json": json.dumps(made(found), indent=1).encode(),
        **({"acting.csv": acting(found).encode()} if found["acting"] else {}),
        **figures,
    }
    with storage(into):
        into.mkdir(parents=True, exist_ok=True)
    home = RunFolder(into)
    for name, data in files.items():
        home.write(name, data)
    return [into / name for name in files]


def made(found: dict[str, Any]) -> dict[str, Any]:
    """What made the curves: enough to judge them again (`penfac study claims`)."""
    keys = (
        "name", "fidelity", "command", "created", "penfac", "versions", "steps",
        "eval_every", "eval_episodes", "seeds", "arms",
    )  # fmt: skip
    unfinished = [
        [panel["env"], arm["arm"], run["seed"], run["state"]]
        for panel in found["panels"]
        for arm in panel["arms"]
        for run in arm["seeds"]
        if run["state"] != "finished"
    ]
    return {key: found[key] for key in keys} | {"unfinished": unfinished}


def acting(found: dict[str, Any]) -> str:
    """In which share of each run's updates the conditions of claims held."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env", "arm", "seed", "condition", "share"])
    for row in found["acting"]:
        told = [row[key] for key in ("env", "arm", "seed", "condition")]
        writer.writerow([*told, f"{row['share']:.4g}"])
    return text.getvalue()


def curves(found: dict[str, Any]) -> str:
    """Every evaluation of every run, a row each; `return` is that of the mean, and every
    other mode that an arm is judged by has a column of its own."""
    runs = [
        (panel["env"], arm["arm"], run)
        for panel in found["panels"]
        for arm in panel["arms"]
        for run in arm["seeds"]
    ]
    others = sorted({mode for _, _, run in runs for mode in run["modes"]})
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*KEYS, "return", *others])
    for env, arm, run in runs:
        judged = [by_step(run["modes"].get(mode)) for mode in others]
        for step, value in by_step(run).items():
            more = [written(curve.get(step)) for curve in judged]
            writer.writerow([env, arm, run["seed"], step, written(value), *more])
    return text.getvalue()


def by_step(judged: dict[str, Any] | None) -> dict[int, float]:
    if judged is None:
        return {}
    return dict(zip(judged["steps"], judged["returns"], strict=True))


def written(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
