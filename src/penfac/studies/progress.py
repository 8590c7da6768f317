"""How far a study is, arm by arm."""

import statistics
from pathlib import Path
from typing import Any

from penfac.runs.evaluations import FILE, mean_curve
from penfac.runs.sealed import newer_rows
from penfac.studies import plan
from penfac.studies.plan import Unit
from penfac.studies.run_results import refuse_lost


def read_progress(folder: Path) -> dict[str, Any]:
    """The states of all runs, and how far each arm is."""
    planned = plan.read_plan(folder)
    units, study = plan.units(folder, planned), planned.study
    rows = [
        arm_progress(
            [u for u in units if (u.env, u.arm) == (env, arm.name)],
            planned.known.get(env, {}).get(arm.name, []),
        )
        for env in study.envs
        for arm in study.arms
    ]
    total = {key: sum(r[key] for r in rows) for key in (*plan.STATES, "newer")}
    return {"study": study.name, "runs": len(units)} | total | {"arms": rows}


def read_all(folder: Path) -> list[dict[str, Any]]:
    """How far each study of a folder is."""
    rows = []
    for file in sorted(folder.glob(f"*/{plan.FILE}")):
        found = read_progress(file.parent)
        weights = [row["seeds"] * row["all_steps"] for row in found["arms"]]
        done = sum(
            row["steps"] * weight
            for row, weight in zip(found["arms"], weights, strict=True)
        )
        states = {key: found[key] for key in ("runs", *plan.STATES)}
        rows.append({"study": file.parent.name, **states, "steps": done / sum(weights)})
    return rows


def arm_progress(units: list[Unit], known: list[int]) -> dict[str, Any]:
    """One arm on one environment; of seeds that are `known` the curves are elsewhere."""
    states = [plan.state_of(unit) for unit in units]
    read = [mean_curve(unit.path) for unit in units]
    for unit, state, curve in zip(units, states, read, strict=True):
        refuse_lost(unit, state, curve.steps)
    curves = [curve for curve in read if curve.steps]
    last = [curve.returns[-1] for curve in curves]
    landed = [u.seed in known and not c.steps for u, c in zip(units, read, strict=True)]
    states = [
        "finished" if here else state
        for here, state in zip(landed, states, strict=True)
    ]
    done = sum(min(curve.steps[-1], units[0].steps) for curve in curves)
    done += sum(landed) * units[0].steps
    return {
        "env": units[0].env,
        "arm": units[0].arm,
        "seeds": len(units),
        **{s: states.count(s) for s in plan.STATES},
        "all_steps": units[0].steps,
        "steps": done / sum(unit.steps for unit in units),
        "return": statistics.fmean(last) if last else None,
        "std": statistics.stdev(last) if len(last) > 1 else None,
        "newer": sum(newer_rows(unit.path, FILE) for unit in units),
    }
