"""What a study found: curves, scores, verdicts, read from its run folders.

One plain document, for `penfac.report` and for machines.
"""

import csv
import math
from pathlib import Path
from typing import Any, NamedTuple

from penfac import stats
from penfac.errors import ConfigError, CorruptFile
from penfac.runs.standing import status
from penfac.studies import plan, verdicts
from penfac.studies.claims import Need, Side
from penfac.studies.plan import Unit
from penfac.studies.spec import Study

ROUNDING = 1e-3  # relative: a float32 of 0.01 is not above 0.01
KEYS = ("env", "arm", "seed", "step")  # of a row of curves.csv
GAITS = ("gait.gif", "gait.png", "strip.png")


class Judged(NamedTuple):
    """A run's evaluations in one mode: mean return of its episodes at each step."""

    steps: list[int]
    returns: list[float]


class Seen(NamedTuple):
    """A run as its folder shows it."""

    unit: Unit
    state: str
    error: str | None
    modes: dict[str, Judged]
    seconds: float
    acting: dict[str, float] = {}  # noqa: RUF012  share of its updates, by condition


def findings(
    folder: Path, mixed: bool = False, elsewhere: Path | None = None
) -> dict[str, Any]:
    """Of a study folder; and of runs `elsewhere`, by the curves.csv of their report."""
    document = plan.read_document(folder)
    study, units = plan.study_of(document), plan.units(folder, document)
    plan.check_runs(units, mixed)
    needs = conditions(study)
    here = [see(unit, needs) for unit in units]
    runs = here if elsewhere is None else with_others(here, elsewhere, study)
    states = [run.state for run in runs]
    arms = [arm.name for arm in study.arms]
    first = study.envs[0]
    config = {u.arm: u.document["config"] for u in units if u.env == first}
    return {
        "name": study.name,
        "title": study.title,
        "paper": study.paper,
        "question": study.question,
        "fidelity": study.fidelity,
        "command": document["command"],
        "folder": str(folder),
        "created": document["created"],
        "penfac": document["penfac"],
        "versions": document["versions"],
        "steps": study.steps,
        "eval_every": units[0].document["eval_every"],
        "eval_episodes": study.eval_episodes,
        "seeds": sorted({run.unit.seed for run in runs}),
        "cost": {
            "seconds": sum(run.seconds for run in here),
            "steps": sum(max(mean(run).steps, default=0) for run in here),
        },
        "elsewhere": {
            "file": None if elsewhere is None else str(elsewhere),
            "runs": sum(
                run.unit.path == elsewhere and run.state == "finished" for run in runs
            ),
        },
        "counts": {state: states.count(state) for state in plan.STATES},
        "arms": [
            {
                "name": arm.name,
                "algo": arm.algo,
                "preset": arm.preset,
                "settings": arm.settings,
                "note": arm.note,
                "config": config[arm.name],
            }
            for arm in study.arms
        ],
        "panels": [panel(env, arms, runs) for env in study.envs],
        "claims": judged_claims(study, runs),
        "acting": [
            {
                "env": run.unit.env,
                "arm": run.unit.arm,
                "seed": run.unit.seed,
                "condition": condition,
                "share": share,
            }
            for run in runs
            for condition, share in run.acting.items()
        ],
        "paper_seeds": study.paper_seeds,
        "paper_steps": study.paper_steps,
        "gaits": [
            {
                "env": run.unit.env,
                "arm": run.unit.arm,
                "file": str(run.unit.path / name),
            }
            for run in runs
            for name in GAITS
            if (run.unit.path / name).is_file()
        ],
    }


def conditions(study: Study) -> tuple[Need, ...]:
    """All that claims of the study rest on, each once."""
    every = [need for claim in study.claims for need in claim.conditions]
    return tuple(dict.fromkeys(every))


def judged_claims(study: Study, runs: list[Seen]) -> list[dict[str, Any]]:
    """The verdicts on a study's claims, each with its budget."""
    arms = [arm.name for arm in study.arms]
    found = [
        verdicts.judge(claim, study.envs, arms, looking(runs), acted(runs))
        for claim in study.claims
    ]
    for claim in found:
        rows = [r for r in claim["comparisons"] if r["verdict"] != "not run"]
        counts = [n for row in rows for n in row["n"]]
        claim["seeds"] = min(counts, default=0)
        claim["budget"] = budget(study, claim["seeds"])
    return found


def budget(study: Study, seeds: int) -> str:
    """Of a verdict, against what the paper's own figure is made of."""
    of_seeds = f" of the paper's {study.paper_seeds}" if study.paper_seeds else ""
    of_steps = f" of the authors' {study.paper_steps:,}" if study.paper_steps else ""
    return f"{seeds}{of_seeds} seeds, {study.steps:,}{of_steps} steps"


def see(unit: Unit, needs: tuple[Need, ...] = ()) -> Seen:
    state, told = plan.state_of(unit), status(unit.path)
    error = str(told.get("error")) if state == "failed" else None
    own = [need for need in needs if need.arm == unit.arm]
    shares = {need.text: share_above(unit, need) for need in own}
    known = {text: share for text, share in shares.items() if share is not None}
    modes, seconds = evaluated(unit.path), elapsed(unit.path)
    return Seen(unit, state, error, modes, seconds, known)


def share_above(unit: Unit, need: Need) -> float | None:
    """In which share of a run's updates a column was above its bound; None where
    nothing tells."""
    file = unit.path / "progress.csv"
    if not file.exists():
        return None
    bound = bound_of(unit, need) * (1 + ROUNDING)
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        rows = list(csv.DictReader(lines))
        if not rows:
            return None
        return sum(float(row[need.column]) > bound for row in rows) / len(rows)
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        raise CorruptFile(
            f"{file}: has no column {need.column} of numbers, which a claim rests on"
        ) from None


def bound_of(unit: Unit, need: Need) -> float:
    """A number, or the setting of that name in the run's config."""
    value = unit.document["config"].get(need.bound, need.bound)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{need.text!r}: {need.bound} is no number and no setting of {need.arm}"
        ) from None


def with_others(here: list[Seen], file: Path, study: Study) -> list[Seen]:
    """All seeds of both; a run that has finished or failed here is the one that counts."""
    curves, acting = read_curves(file), read_acting(file.with_name("acting.csv"))
    arms = {(run.unit.env, run.unit.arm): run.unit for run in here}
    for env, arm, _ in curves:
        if (env, arm) not in arms:
            raise ConfigError(f"{file}: is of another study: it has {arm} on {env}")
    whole = {
        who: modes
        for who, modes in curves.items()
        if modes["mean"].steps[-1] >= study.steps
    }
    runs = {(run.unit.env, run.unit.arm, run.unit.seed): run for run in here}
    for seed in sorted({seed for _, _, seed in curves}):
        for arm, unit in arms.items():
            who, other = (*arm, seed), unit._replace(seed=seed, path=file)
            missing = Seen(other, "missing", None, {}, 0.0)
            there = runs.setdefault(who, missing)
            if who in whole and there.state in ("missing", "running"):
                told = acting.get(who, {})
                runs[who] = missing._replace(
                    state="finished", modes=whole[who], acting=told
                )
    return list(runs.values())


def mean(run: Seen) -> Judged:
    return run.modes.get("mean", Judged([], []))


# --- files -------------------------------------------------------------------------------


def evaluated(path: Path) -> dict[str, Judged]:
    """evaluations.csv by mode. Reads a thousand runs in a second or two; a line that was
    never finished is left out."""
    file = path / "evaluations.csv"
    if not file.exists():
        return {}
    sums: dict[tuple[str, int], list[float]] = {}
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        if not lines:  # it was only just begun
            return {}
        rows = csv.reader(lines)
        at = {name: k for k, name in enumerate(next(rows, []))}
        step, mode, returned = at["step"], at["mode"], at["return"]
        for row in rows:
            found = sums.setdefault((row[mode], int(row[step])), [0.0, 0.0])
            found[0] += finite(row[returned])
            found[1] += 1
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, IndexError, ValueError):
        raise CorruptFile(f"{file}: is not a table that penfac wrote") from None
    modes: dict[str, Judged] = {}
    for (name, k), (total, count) in sorted(sums.items()):
        judged = modes.setdefault(name, Judged([], []))
        judged.steps.append(k)
        judged.returns.append(total / count)
    return modes


def read_curves(file: Path) -> dict[tuple[str, str, int], dict[str, Judged]]:
    """A curves.csv of `penfac.studies.publish`: by environment, arm and seed, then by
    mode. Files of before have the mean alone."""
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    curves: dict[tuple[str, str, int], dict[str, Judged]] = {}
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines)
            names = [n for n in rows.fieldnames or [] if n not in KEYS]
            for row in rows:
                who = row["env"], row["arm"], int(row["seed"])
                modes = curves.setdefault(who, {})
                for name in names:
                    if row[name] == "" and name != "return":
                        continue  # this arm is not judged so
                    mode = "mean" if name == "return" else name
                    judged = modes.setdefault(mode, Judged([], []))
                    judged.steps.append(int(row["step"]))
                    judged.returns.append(finite(row[name]))
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        curves = {}
    if not curves:
        raise CorruptFile(f"{file}: is not a curves.csv that penfac wrote")
    return curves


def read_acting(file: Path) -> dict[tuple[str, str, int], dict[str, float]]:
    """The acting.csv that stands beside a curves.csv: shares by run and condition."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    if not file.is_file():
        return found
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                who = row["env"], row["arm"], int(row["seed"])
                found.setdefault(who, {})[row["condition"]] = finite(row["share"])
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        raise CorruptFile(f"{file}: is not an acting.csv that penfac wrote") from None
    return found


def finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a return that no run has")
    return value


def elapsed(path: Path) -> float:
    """Seconds of computing, as timing.csv has them; a run that was resumed begins anew."""
    file = path / "timing.csv"
    if not file.exists():
        return 0.0
    total = last = 0.0
    try:
        rows = list(csv.reader(file.read_text(encoding="utf-8").split("\n")[:-1]))
        column = rows[0].index("elapsed_s") if rows else 0
        for row in rows[1:]:
            now = float(row[column])
            total, last = total + (last if now < last else 0.0), now
    except (OSError, UnicodeDecodeError, csv.Error, IndexError, ValueError):
        raise CorruptFile(f"{file}: is not a table that penfac wrote") from None
    return total + last


# --- scores ------------------------------------------------------------------------------


def looking(runs: list[Seen]) -> verdicts.Look:
    """Scores of finished runs; one that failed counts with the worst that is there."""
    known: dict[tuple[str, Side, str], verdicts.Scores] = {}

    def look(env: str, side: Side, measure: str) -> verdicts.Scores:
        if (env, side, measure) not in known:
            known[env, side, measure] = scores(runs, env, side, measure)
        return known[env, side, measure]

    return look


def acted(runs: list[Seen]) -> verdicts.Act:
    """How often a condition held in the runs that are judged, seeds alike."""

    def act(env: str, need: Need) -> verdicts.Acted:
        own = [
            run
            for run in runs
            if (run.unit.env, run.unit.arm) == (env, need.arm)
            and run.state in ("finished", "failed")
        ]
        known = [r.acting[need.text] for r in own if need.text in r.acting]
        share = sum(known) / len(known) if known else None
        return verdicts.Acted(share, len(known), len(own) - len(known))

    return act


def scores(runs: list[Seen], env: str, side: Side, measure: str) -> verdicts.Scores:
    own = [r for r in runs if (r.unit.env, r.unit.arm) == (env, side.arm)]
    found = {
        r.unit.seed: measured(r.modes[side.mode], measure)
        for r in own
        if r.state in ("finished", "failed") and r.modes.get(side.mode)
    }
    failed = [r.unit.seed for r in own if r.state == "failed"]
    if measure != "initial" and failed and found:
        worst = min(found.values())
        found |= dict.fromkeys(failed, worst)
    return found


def measured(judged: Judged, measure: str) -> float:
    if measure == "initial":
        return judged.returns[0]
    if measure == "final":
        return stats.final_score(judged.returns)
    share = 0.25 if measure == "early" else 1.0
    area = stats.early_area(judged.steps, judged.returns, share)
    # where the first return is 0 there is no size to measure by
    return area / (abs(judged.returns[0]) or 1.0) if measure == "relative" else area


def panel(env: str, arms: list[str], runs: list[Seen]) -> dict[str, Any]:
    """All arms on one environment."""
    return {"env": env, "arms": [curve(env, arm, runs) for arm in arms]}


def curve(env: str, arm: str, runs: list[Seen]) -> dict[str, Any]:
    own = [r for r in runs if (r.unit.env, r.unit.arm) == (env, arm)]
    final = scores(runs, env, Side(arm), "final")
    return {
        "arm": arm,
        "seeds": [
            {
                "seed": run.unit.seed,
                "state": run.state,
                "error": run.error,
                "steps": mean(run).steps,
                "returns": mean(run).returns,
                "modes": {
                    mode: judged._asdict()
                    for mode, judged in run.modes.items()
                    if mode != "mean"
                },
            }
            for run in own
        ],
        "summary": stats.summary(list(final.values()))._asdict() if final else None,
    }
