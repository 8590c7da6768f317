"""The findings of a study: curves, scores and verdicts as one plain document."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penfac import stats
from penfac.settings.configs import to_values
from penfac.studies import checks, plan, spec, verdicts
from penfac.studies.claims import Claim, Need, Side
from penfac.studies.curve_files import add_published, landed
from penfac.studies.effects import ScoreLookup
from penfac.studies.run_results import RunResult, read_run
from penfac.studies.run_scores import activity_lookup, runs_of, score_lookup, scores
from penfac.studies.spec import Study
from penfac.studies.verdicts import ActivityLookup

WHOLE = {"final": "by the final return", "area": "over the whole curve"}
GAITS = ("gait.gif", "gait.png", "strip.png")


def findings(
    folder: Path, mixed: bool = False, elsewhere: Path | None = None
) -> dict[str, Any]:
    """Read a study folder, and the runs of a curves.csv `elsewhere`."""
    planned = plan.read_plan(folder)
    study, units = planned.study, plan.units(folder, planned)
    checks.check_runs(units, mixed)
    here = [read_run(unit, conditions(study)) for unit in units]
    files = landed(folder) + ([] if elsewhere is None else [elsewhere])
    runs = here
    for file in files:
        runs = add_published(runs, file, study)
    facts = {
        "fidelity": study.fidelity,
        "command": planned.command,
        "folder": str(folder),
        "created": planned.created,
        "penfac": planned.penfac,
        "versions": planned.versions,
        "eval_every": units[0].run.config.eval_every,
        "env_eval_every": {
            u.env: u.run.config.eval_every
            for u in units
            if u.run.config.eval_every != units[0].run.config.eval_every
        },
        "eval_episodes": study.eval_episodes,
        "cost": {
            "seconds": sum(run.seconds for run in here),
            "steps": sum(max(run.mean.steps, default=0) for run in here),
        },
        "newer": sum(run.newer for run in here),
        "elsewhere": published_runs(runs, files),
        "study": spec.to_table(study),
        "gaits": gait_files(runs),
    }
    return judged(study, runs, arms_table(study, units), facts)


def judged(
    study: Study,
    runs: list[RunResult],
    arms: list[dict[str, Any]],
    facts: dict[str, Any],
) -> dict[str, Any]:
    """Curves, scores and verdicts of runs, with the facts of how they were made."""
    states = [run.state for run in runs]
    return {
        "name": study.name,
        "title": study.title,
        "paper": study.paper,
        "question": study.question,
        "steps": study.steps,
        "env_steps": study.env_steps,
        "elsewhere": {"file": None, "runs": 0},
        "remark": None,
        "changed": [],
        "gaits": [],
        "newer": 0,
        **facts,
        "seeds": sorted({run.unit.seed for run in runs}),
        "counts": {state: states.count(state) for state in plan.STATES},
        "arms": arms,
        "panels": [
            panel(env, [arm["name"] for arm in arms], runs) for env in study.envs
        ],
        "claims": judge_claims(study, runs),
        "acting": activity_rows(runs),
        "paper_seeds": study.paper_seeds,
        "paper_steps": study.paper_steps,
    }


def conditions(study: Study) -> tuple[Need, ...]:
    """Every condition that a claim of the study rests on, once."""
    every = [need for claim in study.claims for need in claim.conditions]
    return tuple(dict.fromkeys(every))


def published_runs(runs: list[RunResult], files: list[Path]) -> dict[str, Any]:
    count = sum(run.unit.path in files and run.state == "finished" for run in runs)
    return {"file": ", ".join(map(str, files)) or None, "runs": count}


def arms_table(study: Study, units: list[plan.Unit]) -> list[dict[str, Any]]:
    """The settings of each arm, with its config in the first environment and what
    differs in others."""
    configs = {
        (u.env, u.arm): to_values(u.run.config.settings)
        for u in {(u.env, u.arm): u for u in units}.values()
    }
    first, *others = study.envs

    def changes(arm: str) -> dict[str, Any]:
        """By environment, the settings that are not those of the first."""
        base = configs[first, arm]
        return {
            env: own
            for env in others
            if (own := {k: v for k, v in configs[env, arm].items() if v != base[k]})
        }

    return [
        {
            "name": arm.name,
            "algo": arm.algo,
            "preset": arm.preset,
            "settings": arm.settings,
            "note": arm.note,
            "config": configs[first, arm.name],
            "on": changes(arm.name),
        }
        for arm in study.arms
    ]


def activity_rows(runs: list[RunResult]) -> list[dict[str, Any]]:
    return [
        {
            "env": run.unit.env,
            "arm": run.unit.arm,
            "seed": run.unit.seed,
            "condition": condition,
            "share": share,
        }
        for run in runs
        for condition, share in run.active.items()
    ]


def gait_files(runs: list[RunResult]) -> list[dict[str, str]]:
    return [
        {"env": run.unit.env, "arm": run.unit.arm, "file": str(run.unit.path / name)}
        for run in runs
        for name in GAITS
        if (run.unit.path / name).is_file()
    ]


# --- claims ------------------------------------------------------------------------------


def judge_claims(study: Study, runs: list[RunResult]) -> list[dict[str, Any]]:
    """The verdict on each claim of a study, with its budget."""
    arms = [arm.name for arm in study.arms]
    look, activity = score_lookup(runs), activity_lookup(runs)
    judged = [verdicts.judge(c, study.envs, arms, look, activity) for c in study.claims]
    for claim in judged:
        rows = [r for r in claim["comparisons"] if r["verdict"] != "not run"]
        claim["seeds"] = min((n for row in rows for n in row["n"]), default=0)
        claim["budget"] = budget(study, claim["seeds"])
    for claim, found in zip(study.claims, judged, strict=True):
        by = both_measures(claim, found, study.envs, arms, look, activity)
        found["by_measure"], found["sensitivity"] = by, sensitivity(by)
    return judged


def both_measures(
    claim: Claim, found: dict[str, Any], envs: Sequence[str], arms: list[str],
    look: ScoreLookup, activity: ActivityLookup,
) -> dict[str, str]:  # fmt: skip
    """The verdict by the final return and by the whole curve; empty for a claim that is
    about another part of the curve."""
    if not set(claim.measures) <= WHOLE.keys():
        return {}
    known = found["measures"]
    for measure in WHOLE.keys() - known.keys():
        other = replace(claim, measure=measure)
        known = known | verdicts.judge(other, envs, arms, look, activity)["measures"]
    return {measure: known[measure] for measure in WHOLE}


def sensitivity(by: dict[str, str]) -> str:
    """Whether the verdict depends on what of the curve counts; empty if nothing ran."""
    told = set(by.values())
    if not by or told == {"not run"}:
        return ""
    if len(told) == 1:
        return "the verdict is the same by the final return and over the whole curve"
    return "the verdict changes: " + ", ".join(f"{v} {WHOLE[m]}" for m, v in by.items())


def budget(study: Study, seeds: int) -> str:
    """Seeds and steps of a verdict beside those of the paper's figure."""
    of_seeds = f" of the paper's {study.paper_seeds}" if study.paper_seeds else ""
    of_steps = f" of the authors' {study.paper_steps:,}" if study.paper_steps else ""
    others = [f"{n:,} on {env}" for env, n in study.env_steps.items()]
    where = f" ({', '.join(others)})" if others else ""
    return f"{seeds}{of_seeds} seeds, {study.steps:,}{where}{of_steps} steps"


# --- curves ------------------------------------------------------------------------------


def panel(env: str, arms: list[str], runs: list[RunResult]) -> dict[str, Any]:
    """All arms on one environment."""
    return {"env": env, "arms": [arm_curves(env, arm, runs) for arm in arms]}


def arm_curves(env: str, arm: str, runs: list[RunResult]) -> dict[str, Any]:
    final = scores(runs, env, Side(arm), "final")
    return {
        "arm": arm,
        "seeds": [seed_curve(run) for run in runs_of(runs, env, arm)],
        "summary": stats.summary(list(final.values()))._asdict() if final else None,
    }


def seed_curve(run: RunResult) -> dict[str, Any]:
    modes = {m: c._asdict() for m, c in run.curves.items() if m != "mean"}
    return {
        "seed": run.unit.seed,
        "state": run.state,
        "error": run.error,
        **run.mean._asdict(),
        "modes": modes,
    }
