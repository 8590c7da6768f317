"""How far a study is, arm by arm."""

import statistics
from pathlib import Path
from typing import Any

from penfac.studies import plan
from penfac.studies.plan import Unit
from penfac.studies.run_results import read_evaluations


def standing(folder: Path) -> dict[str, Any]:
    document = plan.read_document(folder)
    units = plan.units(folder, document)
    study = plan.study_of(document)
    rows = [
        row(env, arm.name, [u for u in units if (u.env, u.arm) == (env, arm.name)])
        for env in study.envs
        for arm in study.arms
    ]
    total = {state: sum(r[state] for r in rows) for state in plan.STATES}
    return {"study": study.name, "runs": len(units)} | total | {"arms": rows}


def row(env: str, arm: str, units: list[Unit]) -> dict[str, Any]:
    states = [plan.state_of(unit) for unit in units]
    modes = [read_evaluations(unit.path) for unit in units]
    curves = [found["mean"] for found in modes if "mean" in found]
    last = [curve.returns[-1] for curve in curves]
    done = sum(min(curve.steps[-1], units[0].document["steps"]) for curve in curves)
    return {
        "env": env,
        "arm": arm,
        "seeds": len(units),
        **{s: states.count(s) for s in plan.STATES},
        "steps": done / sum(unit.document["steps"] for unit in units),
        "return": statistics.fmean(last) if last else None,
        "std": statistics.stdev(last) if len(last) > 1 else None,
    }
