"""The data of the page's charts: small enough to be embedded in it."""

import json

import numpy as np

from penfac.report.curve_data import LearningCurve, arm_places, evaluations

INKS = 7  # colours in page.css; beyond them the dashes change
DASHES = 3


def charts(findings: dict) -> list[dict]:
    """One chart an environment; an arm has the same colour in all of them."""
    places = arm_places(findings)
    found = []
    for panel in findings["panels"]:
        arms = []
        for arm in panel["arms"]:
            curve = arm_curve(arm["seeds"])
            if curve is not None:
                k = places[arm["arm"]]
                look = {"ink": k % INKS, "dash": k // INKS % DASHES}
                arms.append({"name": arm["arm"], **look, **curve})
        found.append({"env": panel["env"], "arms": arms})
    return found


def arm_curve(seeds: list[dict]) -> dict | None:
    """Mean, deviation and number of seeds at every step of the longest seed.

    A seed evaluated at other steps is interpolated, never extrapolated: n falls where
    it stopped.
    """
    kept = [curve for curve in map(evaluations, seeds) if curve[0]]
    if not kept:
        return None
    grid = max((steps for steps, _ in kept), key=lambda steps: (steps[-1], len(steps)))
    rows = np.array([np.interp(grid, s, r, left=np.nan, right=np.nan) for s, r in kept])
    there = ~np.isnan(rows)
    n = there.sum(axis=0)
    mean = np.where(there, rows, 0).sum(axis=0) / n
    squares = np.where(there, (rows - mean) ** 2, 0).sum(axis=0)
    std = np.sqrt(squares / np.maximum(n - 1, 1))
    return {
        "steps": grid,
        "mean": [short(x) for x in mean],
        "std": [short(x) if k > 1 else None for x, k in zip(std, n, strict=True)],
        "n": n.tolist(),
        "seeds": [seed_line(curve, grid) for curve in kept],
    }


def seed_line(curve: LearningCurve, grid: list[int]) -> dict:
    """The curve of a seed; steps are left out where they are the first of the grid."""
    steps, returns = curve
    line: dict = {"returns": [short(r) for r in returns]}
    if steps != grid[: len(steps)]:
        line["steps"] = steps
    return line


def short(x: float) -> float | int:
    """Five digits: all that a screen shows, in half the bytes."""
    rounded = float(f"{x:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def as_json(data: object) -> str:
    """JSON for a script element: no < in it can end or open an element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
