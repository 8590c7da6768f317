"""Curves of a study as the page draws them: small enough to lie inside it."""

import json

import numpy as np

INKS = 7  # colours in page.css; after them the dashes change
DASHES = 3


def short(x: float) -> float | int:
    """Five digits are more than a screen shows, and half of the bytes."""
    rounded = float(f"{x:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def evaluations(seed: dict) -> tuple[list[int], list[float]]:
    """Steps and returns of a seed where both are known."""
    known = [
        (s, r)
        for s, r in zip(seed["steps"], seed["returns"], strict=False)
        if s is not None and r is not None
    ]
    return [s for s, _ in known], [r for _, r in known]


def arm_curve(seeds: list[dict]) -> dict | None:
    """Mean, deviation and number of seeds at every step of the seed that went furthest.

    A seed evaluated at other steps is read between its own evaluations, never beyond
    them: where it stopped, n falls.
    """
    kept = [e for e in map(evaluations, seeds) if e[0]]
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
        "seeds": [seed_line(s, r, grid) for s, r in kept],
    }


def seed_line(steps: list[int], returns: list[float], grid: list[int]) -> dict:
    """Steps are left out where they are the first ones of the arm's, as they mostly are."""
    line: dict = {"returns": [short(r) for r in returns]}
    if steps != grid[: len(steps)]:
        line["steps"] = steps
    return line


def charts(findings: dict) -> list[dict]:
    """One chart an environment; an arm has the same ink in all of them."""
    names = [arm["name"] for arm in findings["arms"]]
    names += [a["arm"] for panel in findings["panels"] for a in panel["arms"]]
    place = {name: k for k, name in enumerate(dict.fromkeys(names))}
    found = []
    for panel in findings["panels"]:
        arms = []
        for arm in panel["arms"]:
            curve = arm_curve(arm["seeds"])
            if curve is not None:
                k = place[arm["arm"]]
                look = {"ink": k % INKS, "dash": k // INKS % DASHES}
                arms.append({"name": arm["arm"], **look, **curve})
        found.append({"env": panel["env"], "arms": arms})
    return found


def as_json(data: object) -> str:
    """JSON that may stand inside a script element: no < of it can end or open one."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
