"""The report of a study as files: a page, Markdown, figures, curves as CSV, findings."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from penfac.report.figures import all_figures
from penfac.report.markdown import markdown
from penfac.report.page import page
from penfac.runs import RunFolder, storage


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
    """Every evaluation of every run, a row each."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["env", "arm", "seed", "step", "return"])
    for panel in found["panels"]:
        for arm in panel["arms"]:
            for run in arm["seeds"]:
                for step, value in zip(run["steps"], run["returns"], strict=True):
                    row = [panel["env"], arm["arm"], run["seed"], step, f"{value:.6g}"]
                    writer.writerow(row)
    return text.getvalue()
