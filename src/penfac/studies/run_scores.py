"""Scores of runs by seed, and how often the conditions of claims held."""

from penfac.runs.evaluations import LearningCurve
from penfac.scores import final_score, mean_return
from penfac.studies.claims import Need, Side
from penfac.studies.effects import ScoreLookup, Scores
from penfac.studies.run_results import RunResult
from penfac.studies.verdicts import Activity, ActivityLookup


def runs_of(runs: list[RunResult], env: str, arm: str) -> list[RunResult]:
    return [run for run in runs if (run.unit.env, run.unit.arm) == (env, arm)]


def score_lookup(runs: list[RunResult]) -> ScoreLookup:
    """A function from environment, side and measure to scores by seed."""
    known: dict[tuple[str, Side, str], Scores] = {}

    def look(env: str, side: Side, measure: str) -> Scores:
        if (env, side, measure) not in known:
            known[env, side, measure] = scores(runs, env, side, measure)
        return known[env, side, measure]

    return look


def activity_lookup(runs: list[RunResult]) -> ActivityLookup:
    """A function from environment and condition to the mean share over seeds."""

    def activity(env: str, need: Need) -> Activity:
        ended = [
            run
            for run in runs_of(runs, env, need.arm)
            if run.state in ("finished", "failed")
        ]
        shares = [r.active[need.text] for r in ended if need.text in r.active]
        share = sum(shares) / len(shares) if shares else None
        return Activity(share, len(shares), len(ended) - len(shares))

    return activity


def scores(runs: list[RunResult], env: str, side: Side, measure: str) -> Scores:
    """Scores of runs that ended; a failed seed gets the worst score of its arm."""
    own = runs_of(runs, env, side.arm)
    found = {
        run.unit.seed: score(run.curves[side.mode], measure)
        for run in own
        if run.state in ("finished", "failed") and run.curves.get(side.mode)
    }
    failed = [run.unit.seed for run in own if run.state == "failed"]
    if measure != "initial" and failed and found:
        found |= dict.fromkeys(failed, min(found.values()))
    return found


def score(curve: LearningCurve, measure: str) -> float:
    """One number of a learning curve (`penfac.studies.claims.MEASURES`)."""
    if measure == "initial":
        return curve.returns[0]
    if measure == "final":
        return final_score(curve.returns)
    area = mean_return(*curve, share=0.25 if measure == "early" else 1.0)
    # a first return of 0 gives no scale
    return area / (abs(curve.returns[0]) or 1.0) if measure == "relative" else area
