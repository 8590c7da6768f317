"""The verdict on a claim, from the scores of its arms by seed.

`holds` and `contradicted` need an effect that chance makes in fewer than 5 of 100 claims.
Holm's correction counts all comparisons of a claim by one measure, so another measure
changes no verdict. Anything between is `not shown`. A claim is `not tested` where a
condition that it rests on was not active.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from penfac import stats
from penfac.studies.claims import Claim, Comparison, Need
from penfac.studies.effects import (
    SHOWN,
    Effect,
    Place,
    ScoreLookup,
    compare,
    side_scores,
)

ALPHA = 0.05
ACTIVE = 0.1  # share of updates: a condition that held in fewer was not active
VERDICTS = ("holds", "contradicted", "not shown", "not tested", "not run")
NO_NUMBERS = dict.fromkeys(
    ("difference", "low", "high", "p", "p_holm", "probability", "probability_low",
     "probability_high", "seeds_needed")
)  # fmt: skip


class Activity(NamedTuple):
    """The share of an arm's updates in which a condition held, and for how many runs it
    is known and unknown."""

    share: float | None
    known: int
    unknown: int


ActivityLookup = Callable[[str, Need], Activity]  # env, condition


def judge(
    claim: Claim,
    envs: Sequence[str],
    arms: Sequence[str],
    look: ScoreLookup,
    activity: ActivityLookup | None = None,
) -> dict:
    """The verdict on a claim, and on each of its comparisons."""
    rows: list[dict[str, Any]] = []
    tested: list[tuple[dict[str, Any], Effect]] = []
    warnings: dict[str, None] = {}
    for place in places(claim, envs):
        inactive, notes = check_conditions(claim, place, activity)
        warnings |= dict.fromkeys(notes)
        for comparison, measure in product(claim.comparisons, claim.measures):
            effect = compare(comparison, place, measure, claim.margin, arms, look)
            row = {"env": str(place), "text": comparison.text, "measure": measure}
            rows.append(row)
            if effect is None:
                row |= row_without_effect(comparison, place, measure, look)
                continue
            row |= effect.as_row() | {"verdict": "not tested" if inactive else ""}
            if not inactive:
                tested.append((row, effect))
    for measure in claim.measures:
        give_verdicts([pair for pair in tested if pair[0]["measure"] == measure])
    found = combine([row["verdict"] for row in rows])
    needed = most_seeds(rows) if found == "not shown" else None
    return {
        "words": claim.words,
        "where": claim.where,
        "verdict": found,
        "reason": reason(rows),
        "power": power([effect for _, effect in tested], len(claim.measures), needed),
        "seeds_needed": needed,
        "warnings": list(warnings),
        "measures": {
            measure: combine([r["verdict"] for r in rows if r["measure"] == measure])
            for measure in claim.measures
        },
        "comparisons": rows,
    }


def places(claim: Claim, envs: Sequence[str]) -> list[Place]:
    if claim.changes:
        return [Place(after, before) for before, after in claim.changes]
    return [Place(env) for env in claim.envs or envs]


def check_conditions(
    claim: Claim, place: Place, activity: ActivityLookup | None
) -> tuple[bool, list[str]]:
    """Whether a condition of the claim was inactive, and warnings about conditions."""
    inactive, warnings = False, []
    if activity is None:
        return inactive, warnings
    for need in claim.conditions:
        share, known, unknown = activity(place.env, need)
        condition = f"{need.column} above {need.bound} in {need.arm} on {place.env}"
        if share is not None and share < ACTIVE:
            inactive = True
            warnings.append(
                f"{condition}: in {share:.1%} of the updates, {ACTIVE:.0%} are needed; "
                "the claim is not tested, because what it is about was not active"
            )
        if unknown and share is None:
            warnings.append(
                f"{condition}: not known, no run has progress.csv or a row in acting.csv; "
                "the verdict assumes that it was active"
            )
        elif unknown:
            warnings.append(f"{condition}: known for {known} of {known + unknown} runs")
    return inactive, warnings


def row_without_effect(
    comparison: Comparison, place: Place, measure: str, look: ScoreLookup
) -> dict[str, Any]:
    sides, _ = side_scores(comparison, place, measure, look)
    n = [len(scores) for scores in sides]
    return NO_NUMBERS | {"n": n, "verdict": "not run"}


def give_verdicts(tested: list[tuple[dict[str, Any], Effect]]) -> None:
    """Write verdicts into the rows that Holm's correction counts together."""
    ps = stats.holm([effect.p for _, effect in tested])
    opposite = stats.holm([effect.p_opposite for _, effect in tested])
    for (row, effect), p, q in zip(tested, ps, opposite, strict=True):
        word = verdict(effect, p, q)
        row |= {"verdict": word, "p_holm": p}
        if word == "not shown":
            row["seeds_needed"] = effect.seeds_needed(len(tested))
        if word == "contradicted":  # the p-value of that verdict
            row |= {"p": effect.p_opposite, "p_holm": q}


def verdict(effect: Effect, p: float, p_opposite: float) -> str:
    if p < ALPHA and effect.consistent:
        return "holds"
    return "contradicted" if p_opposite < ALPHA else "not shown"


def combine(verdicts: list[str]) -> str:
    """A claim holds if all comparisons do; one that is contradicted contradicts it."""
    if "contradicted" in verdicts:
        return "contradicted"
    for word in ("not run", "not tested"):
        if all(v in ("not run", word) for v in verdicts):
            return word
    return "holds" if all(v == "holds" for v in verdicts) else "not shown"


# --- explanations ------------------------------------------------------------------------


def reason(rows: list[dict[str, Any]]) -> str:
    """One sentence on the verdicts of the comparisons."""
    if len(rows) == 1:
        parts = [interval(rows[0])]
    else:
        counts = {v: sum(row["verdict"] == v for row in rows) for v in VERDICTS}
        parts = [f"{v}: {n} of {len(rows)}" for v, n in counts.items() if n]
    for row in rows:
        # a few good seeds may make the mean
        if row["verdict"] == "not shown" and row["p_holm"] < ALPHA:
            parts.append(
                f"{row['text']}: the means differ, but P(first > second) may be "
                f"{row['probability_low']:.2f} to {row['probability_high']:.2f}"
            )
    return "; ".join(parts)


def interval(row: dict[str, Any]) -> str:
    if row["difference"] is None:
        return f"fewer than two seeds ({', '.join(map(str, row['n']))})"
    return f"{row['difference']:+,.0f} [{row['low']:+,.0f}, {row['high']:+,.0f}]"


def power(effects: list[Effect], measures: int, needed: int | None) -> str:
    """What so many seeds can detect, by each of so many measures; and how many are
    `needed` for a difference of 10 %."""
    if not effects:
        return ""
    n, count = min(min(e.n) for e in effects), len(effects) // measures
    size = stats.detectable(n, comparisons=count)
    plural = "s" * (count > 1)
    told = (
        f"{n} seeds per arm and {count} comparison{plural} detect a difference of "
        f"{size:.2f} standard deviations 80 % of the time"
    )
    if needed is None:
        return told
    return (
        f"{told}; at the measured spreads, {needed} seeds per arm detect one of "
        f"{100 * SHOWN:.0f} % of the return"
    )


def most_seeds(rows: list[dict[str, Any]]) -> int | None:
    """The seeds an arm that would show a difference of 10 % in every comparison that is
    not shown; None if there is none, or it is not known."""
    needed = [r["seeds_needed"] for r in rows if r["verdict"] == "not shown"]
    known = [n for n in needed if n is not None]
    return max(known, default=None) if len(known) == len(needed) else None
