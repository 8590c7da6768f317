"""Scores from the files of results/, and text of scores, for the marks in pages.

The first functions take scores from a file, a score a seed: "learning/hopper" is
results/learning/hopper.csv, and a folder means its curves.csv. `arm="ppo"`,
`seed=range(10)` and the like choose rows by a column. The others make text of scores.
"""

import csv
import json
import re
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from penfac import stats, zoo
from penfac.scores import mean_return
from penfac.studies import ledger, run_scores
from penfac.studies.claims import Side
from penfac.studies.run_results import RunResult

RESULTS = Path(__file__).parent.parent / "results"
Scores = dict[int, float]  # seed -> score
Curves = dict[int, tuple[list[int], list[float]]]

# --- scores --------------------------------------------------------------------------


@cache
def rows(file: str) -> list[dict[str, str]]:
    path = RESULTS / file
    path = path / "curves.csv" if path.is_dir() else path.with_name(path.name + ".csv")
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def chosen(file: str, where: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows with these values; a column may have several."""
    allowed = {
        name: {str(value)} if isinstance(value, str | int) else set(map(str, value))
        for name, value in where.items()
    }
    kept = [r for r in rows(file) if all(r[k] in v for k, v in allowed.items())]
    if not kept:
        raise ValueError(f"{file} {where}: no such row")
    return kept


def curves(file: str, **where: Any) -> Curves:
    """Return steps and returns of each seed."""
    found: Curves = {}
    for row in chosen(file, where):
        steps, returns = found.setdefault(int(row["seed"]), ([], []))
        if row["return"] != "":
            steps.append(int(row["step"]))
            returns.append(float(row["return"]))
    for seed, (steps, _) in found.items():
        if steps != sorted(set(steps)):
            raise ValueError(f"{file}: seed {seed} has more than one curve")
    return found


def last(file: str, k: int = 3, **where: Any) -> Scores:
    """Return the mean of each seed's last k evaluations."""
    return {s: fmean(r[-k:]) for s, (_, r) in curves(file, **where).items()}


def at(file: str, step: float, **where: Any) -> Scores:
    """Return each seed's return at a step, between two evaluations interpolated."""
    found = curves(file, **where)
    if any(steps[-1] < step for steps, _ in found.values()):
        raise ValueError(f"{file}: ends before step {step}")
    return {s: float(np.interp(step, *curve)) for s, curve in found.items()}


def area(file: str, share: float = 1, **where: Any) -> Scores:
    """Return the mean over the first share of each seed's curve, by trapezoids."""
    return {s: mean_return(*c, share) for s, c in curves(file, **where).items()}


def average(file: str, **where: Any) -> Scores:
    """Return the mean of all of each seed's evaluations."""
    return {s: fmean(r) for s, (_, r) in curves(file, **where).items()}


def gained(file: str, **where: Any) -> Scores:
    """Return how far each seed's last three evaluations are above its first."""
    found = curves(file, **where)
    return {s: fmean(r[-3:]) - r[0] for s, (_, r) in found.items()}


def column(file: str, name: str, **where: Any) -> Scores:
    """Return a column of a table, with the number of the row for a seed."""
    return {k: float(row[name]) for k, row in enumerate(chosen(file, where))}


def config(file: str, name: str, arm: str = "") -> Scores:
    """Return the scores of a search's config in the last round that it reached."""
    found = chosen(file, {"config": name} | ({"arm": arm} if arm else {}))
    row = max(found, key=lambda row: int(row["steps"]))
    seeds = [key for key in row if key.startswith("seed_") and row[key] != ""]
    return {int(key.removeprefix("seed_")): float(row[key]) for key in seeds}


def finals(file: str, **where: Any) -> list[float]:
    """Return the scores of the configs that reached a search's last round, best first."""
    found = chosen(file, where)
    end = max(int(row.get("rung", 0)) for row in found)
    kept = [row["score"] for row in found if int(row.get("rung", 0)) == end]
    return sorted((float(x) for x in kept if x != "failed"), reverse=True)


@cache
def study_runs(study: str) -> list[RunResult]:
    made = ledger.read_made(RESULTS / study)
    return made.runs if made else []


def scored(study: str, env: str, arm: str, measure: str = "final") -> Scores:
    """Return the scores that a study's claims compare; a run that diverged has the worst."""
    return run_scores.scores(study_runs(study), env, Side(arm, "mean"), measure)


def diverged(study: str, arm: str) -> str:
    """Return how many of a study's runs of an arm diverged."""
    states = [run.state for run in study_runs(study) if run.unit.arm == arm]
    return f"{states.count('failed')} of {len(states)}"


# --- text ----------------------------------------------------------------------------


def num(x: float, digits: int = 0) -> str:
    """Return 2 644, or -0.12 with two digits."""
    text = f"{x:,.{digits}f}".replace(",", " ")
    return text.removeprefix("-") if not re.search("[1-9]", text) else text


def pm(scores: Scores, digits: int = 0) -> str:
    """Return mean +- standard deviation over seeds."""
    found = stats.summary(list(scores.values()))
    return f"{num(found.mean, digits)} +- {num(found.std or 0, digits)}"


def mean(scores: Scores, digits: int = 0) -> str:
    return num(fmean(scores.values()), digits)


def iqm(scores: Scores) -> str:
    """Return the interquartile mean."""
    return num(stats.iqm(list(scores.values())))


def mid(scores: list[float]) -> str:
    """Return the median."""
    return num(median(scores))


def worst(scores: Scores) -> str:
    return num(min(scores.values()))


def best(scores: Scores) -> str:
    return num(max(scores.values()))


def each(scores: Scores) -> str:
    """Return the score of every seed."""
    return ", ".join(num(x) for _, x in sorted(scores.items()))


def n(scores: Scores) -> int:
    return len(scores)


def below(scores: Scores, bound: float) -> int:
    """Return how many seeds have less."""
    return sum(x < bound for x in scores.values())


def diff(a: Scores, b: Scores, digits: int = 0) -> str:
    """Return the difference of two means with Welch's 95 % interval."""
    d = stats.welch(list(a.values()), list(b.values()))
    return f"{num(d.difference, digits)} {interval(d.low, d.high, digits)}"


def apart(a: Scores, b: Scores) -> bool:
    """Return whether that interval is without 0."""
    d = stats.welch(list(a.values()), list(b.values()))
    return not d.low <= 0 <= d.high


def standing(a: Scores, b: Scores) -> str:
    """Return where that interval puts a: ahead of b, level with it or behind it."""
    if not apart(a, b):
        return "level with"
    return "ahead of" if fmean(a.values()) > fmean(b.values()) else "behind"


def beside(a: Scores, b: Scores) -> str:
    """Return the low end of that interval in pooled standard deviations."""
    d = stats.welch(list(a.values()), list(b.values()))
    return num(d.low / d.pooled, 2)


def change(
    more: tuple[Scores, Scores], less: tuple[Scores, Scores], digits: int = 0
) -> str:
    """Return (a - b) - (c - d) of four arms with its 95 % interval."""
    groups = [list(x.values()) for x in (*more, *less)]
    c = stats.contrast(groups, [1, -1, -1, 1])
    return f"{num(c.value, digits)} {interval(c.low, c.high, digits)}"


def interval(low: float, high: float, digits: int = 0) -> str:
    return f"[{num(low, digits)}, {num(high, digits)}]"


@cache
def claims(study: str) -> list[list[str]]:
    return ledger.study_rows(study, RESULTS)


def verdict(study: str, claim: int = 1, fidelity: str = "tuned") -> str:
    """Return the verdict of a study's claim, counted from 1, without its conditions."""
    return claims(study)[claim - 1][-1 if fidelity == "tuned" else -2].split(" (")[0]


def bench(name: str) -> str:
    """Return the table of results/bench/NAME.json, which `penfac bench NAME --json` wrote."""
    report = json.loads((RESULTS / f"bench/{name}.json").read_text(encoding="utf-8"))
    keys = ("figure", "measured", "aim")
    lines = [keys, ("---",) * 3, *([row[k] for k in keys] for row in report["figures"])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# --- the zoo -------------------------------------------------------------------------


def zoo_rows() -> str:
    """Return a row of a table for each policy that comes with penfac."""
    return "\n".join(
        f"| `{name}` | `{e.env}` | {num(e.steps)} | {num(e.mean)} +- {num(e.std)} | "
        f"{e.note or ''} |"
        for name, e in zoo.entries().items()
    )
