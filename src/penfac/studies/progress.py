"""How far a study is, arm by arm."""

import statistics
from pathlib import Path
from typing import Any

from penfac.runs.evaluations import mean_curve
from penfac.studies import plan
from penfac.studies.plan import Unit


def read_progress(folder: Path) -> dict[str, Any]:
    """The states of all runs, and how far each arm is."""
    planned = plan.read_plan(folder)
    units, study = plan.units(folder, planned), planned.study
    rows = [
        arm_progress([u for u in units if (u.env, u.arm) == (env, arm.name)])
        for env in study.envs
        for arm in study.arms
    ]
    total = {state: sum(r[state] for r in rows) for state in plan.STATES}
    return {"study": study.name, "runs": len(units)} | total | {"arms": rows}


def arm_progress(units: list[Unit]) -> dict[str, Any]:
    """One arm on one environment."""
    states = [plan.state_of(unit) for unit in units]
    curves = [curve for unit in units if (curve := mean_curve(unit.path)).steps]
    last = [curve.returns[-1] for curve in curves]
    done = sum(min(curve.steps[-1], units[0].steps) for curve in curves)
    return {
        "env": units[0].env,
        "arm": units[0].arm,
        "seeds": len(units),
        **{s: states.count(s) for s in plan.STATES},
        "steps": done / sum(unit.steps for unit in units),
        "return": statistics.fmean(last) if last else None,
        "std": statistics.stdev(last) if len(last) > 1 else None,
    }
