"""Write the report of a study: a page, Markdown, figures, CSV files, findings."""

import json
from pathlib import Path
from typing import Any

from penfac.report.figures import all_figures
from penfac.report.markdown import markdown
from penfac.report.page import page
from penfac.runs.folder import RunFolder
from penfac.runs.storage import storage
from penfac.studies.curve_files import active_csv, curves_csv


def publish(findings: dict[str, Any], into: Path) -> list[Path]:
    """Write every file of the report; return their paths, the page first."""
    figures = all_figures(findings)
    files = {
        "index.html": page(findings, figures).encode(),
        "report.md": markdown(findings, list(figures)).encode(),
        "findings.json": json.dumps(findings, indent=1, allow_nan=False).encode(),
        "curves.csv": curves_csv(findings).encode(),
        "made.json": json.dumps(provenance(findings), indent=1).encode(),
        **({"acting.csv": active_csv(findings).encode()} if findings["acting"] else {}),
        **figures,
    }
    with storage(into):
        into.mkdir(parents=True, exist_ok=True)
    home = RunFolder(into)
    for name, data in files.items():
        home.write(name, data)
    return [into / name for name in files]


def provenance(findings: dict[str, Any]) -> dict[str, Any]:
    """How the curves were made: enough to judge them and to write the report again."""
    keys = (
        "name", "fidelity", "command", "created", "penfac", "versions", "steps",
        "eval_every", "eval_episodes", "seeds", "arms",
    )  # fmt: skip
    kept = (
        "study",
        "cost",
        "remark",
        "env_steps",
        "env_eval_every",
    )  # where there is one
    runs = [
        ([panel["env"], arm["arm"], run["seed"]], run)
        for panel in findings["panels"]
        for arm in panel["arms"]
        for run in arm["seeds"]
        if run["state"] != "finished"
    ]
    lists = {
        "unfinished": [[*who, run["state"]] for who, run in runs],
        "errors": [[*who, run["error"]] for who, run in runs if run["error"]],
    }
    known = {key: findings[key] for key in kept if findings.get(key)}
    return {key: findings[key] for key in keys} | lists | known
