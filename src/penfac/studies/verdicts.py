"""Does a claim hold? Scores by seed in, a verdict with its numbers out.

`holds` and `contradicted` need an effect that chance makes in fewer than 5 of 100 claims
(Holm over all comparisons of a claim by one measure, so that another measure beside it
changes no verdict); everything between is `not shown`. A claim that rests on something
that did not act in the arm that has it is `not tested`.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from penfac import stats
from penfac.studies.claims import Claim, Comparison, Need, Side

ALPHA = 0.05
LEARNED = 0.1  # of what the best arm gained: less is nothing
ACTING = 0.1  # of the updates: what acts in fewer does not act
VERDICTS = ("holds", "contradicted", "not shown", "not tested", "not run")

Scores = dict[int, float]  # by seed
Look = Callable[[str, Side, str], Scores]  # env, whose, measure (or "initial")


class Acted(NamedTuple):
    """In which share of an arm's updates a condition held, and of how many runs that is
    known and not known."""

    share: float | None
    known: int
    unknown: int


Act = Callable[[str, Need], Acted]  # env, condition


class Place(NamedTuple):
    """Where sides are compared: on one environment, or by their change to it."""

    env: str
    before: str | None = None

    def __str__(self) -> str:
        return self.env if self.before is None else f"{self.before} to {self.env}"


class Finding(NamedTuple):
    """One comparison in one place: the number, how sure, and in which direction."""

    comparison: Comparison
    value: float
    low: float
    high: float
    p: float  # of what would be so if the comparison did not hold
    against: float  # ... of what would be so if its opposite did not
    probability: stats.Probability | None
    n: list[int]
    lead: bool = True  # P(first > second) is not against it


def judge(
    claim: Claim,
    envs: Sequence[str],
    arms: Sequence[str],
    look: Look,
    act: Act | None = None,
) -> dict:
    """A claim's verdict, and each comparison's."""
    rows: list[dict[str, Any]] = []
    found: list[tuple[dict[str, Any], Finding]] = []
    told: dict[str, None] = {}
    for place in places(claim, envs):
        idle, warnings = resting(claim, place, act)
        told |= dict.fromkeys(warnings)
        for comparison, measure in product(claim.comparisons, claim.measures):
            finding = compare(claim, comparison, place, arms, look, measure)
            row = {"env": str(place), "text": comparison.text, "measure": measure}
            rows.append(row)
            if finding is None:
                row |= not_run(comparison, place, measure, look)
                continue
            row |= as_row(finding)
            if idle:
                row["verdict"] = "not tested"
            else:
                found.append((row, finding))
    for measure in claim.measures:
        settle([pair for pair in found if pair[0]["measure"] == measure])
    return {
        "words": claim.words,
        "where": claim.where,
        "verdict": together([row["verdict"] for row in rows]),
        "reason": reason(rows),
        "power": power([finding for _, finding in found], len(claim.measures)),
        "warnings": list(told),
        "measures": {
            measure: together([r["verdict"] for r in rows if r["measure"] == measure])
            for measure in claim.measures
        },
        "comparisons": rows,
    }


def settle(found: list[tuple[dict[str, Any], Finding]]) -> None:
    """Give rows that are judged together their verdicts."""
    ps = stats.holm([finding.p for _, finding in found])
    against = stats.holm([finding.against for _, finding in found])
    for (row, finding), p, q in zip(found, ps, against, strict=True):
        word = verdict(finding, p, q)
        row |= {"verdict": word, "p_holm": p}
        if word == "contradicted":  # the p of what it says
            row |= {"p": finding.against, "p_holm": q}


def places(claim: Claim, envs: Sequence[str]) -> list[Place]:
    if claim.changes:
        return [Place(after, before) for before, after in claim.changes]
    return [Place(env) for env in claim.envs or envs]


def resting(claim: Claim, place: Place, act: Act | None) -> tuple[bool, list[str]]:
    """Whether something that the claim rests on did not act, and what to say of it."""
    idle, told = False, []
    if act is None:
        return idle, told
    for need in claim.conditions:
        share, known, unknown = act(place.env, need)
        what = f"{need.column} above {need.bound} in {need.arm} on {place.env}"
        if share is not None and share < ACTING:
            idle = True
            told.append(
                f"{what}: in {share:.1%} of the updates, fewer than {ACTING:.0%}; what "
                "the other arm leaves out did not act, and nothing is tested"
            )
        if unknown and share is None:
            told.append(
                f"{what}: not known, no run has progress.csv or a line in acting.csv; "
                "the verdict takes it that it did"
            )
        elif unknown:
            told.append(f"{what}: known of {known} runs, not of {unknown}")
    return idle, told


def scores_of(
    comparison: Comparison, place: Place, measure: str, look: Look
) -> tuple[list[Scores], tuple[float, ...]]:
    """Scores of every side, and their weights; of a change those before it as well."""
    after = [look(place.env, side, measure) for side in comparison.sides]
    if place.before is None:
        return after, comparison.weights
    before = [look(place.before, side, measure) for side in comparison.sides]
    return after + before, comparison.weights + tuple(-w for w in comparison.weights)


def compare(
    claim: Claim,
    comparison: Comparison,
    place: Place,
    arms: Sequence[str],
    look: Look,
    measure: str,
) -> Finding | None:
    """None where a side has fewer than two seeds."""
    sides, weights = scores_of(comparison, place, measure, look)
    if any(len(scores) < 2 for scores in sides):
        return None
    if comparison.kind == "nothing":
        return learns_nothing(comparison, place.env, arms, look, measure)
    samples, paired = paired_samples(comparison, sides)
    if len(samples[0]) < 2:  # pairs
        return None
    if paired:
        c = stats.paired(*samples)
        deviation = float(np.std(np.concatenate(samples), ddof=1))
    else:
        c = stats.contrast(samples, weights)
        deviation = float(np.sqrt(np.mean([np.var(x, ddof=1) for x in samples])))
    two = len(samples) == 2
    probability = stats.improvement(*samples) if two else None
    lead = probability is None or probability.low > 0.5
    n = [len(x) for x in samples]
    finding = Finding(
        comparison, c.value, c.low, c.high, *directed(c), probability, n, lead
    )
    margin = claim.margin * deviation
    if comparison.kind == "not below":
        return finding._replace(p=c.p_above(-margin), lead=True)
    if comparison.kind == "level":
        # apart is what contradicts: beyond the margin, on either side
        apart = 2 * min(c.p_above(margin), c.p_below(-margin), 0.5)
        inside = max(c.p_above(-margin), c.p_below(margin))  # two one-sided tests
        return finding._replace(p=inside, against=apart, lead=True)
    return finding


def paired_samples(
    comparison: Comparison, sides: list[Scores]
) -> tuple[list[list[float]], bool]:
    """Two judgements of the same policies are pairs; other sides are independent."""
    same = len({side.arm for side in comparison.sides}) == 1 and len(sides) == 2
    if same:
        both = sorted(sides[0].keys() & sides[1].keys())
        return [[side[seed] for seed in both] for side in sides], True
    return [list(side.values()) for side in sides], False


def learns_nothing(
    comparison: Comparison, env: str, arms: Sequence[str], look: Look, measure: str
) -> Finding | None:
    """What it gained over its first policy, against a tenth of what the best arm did."""
    (side,) = comparison.sides

    def gains(whose: Side) -> tuple[list[float], list[float]]:
        first, last = look(env, whose, "initial"), look(env, whose, measure)
        both = sorted(first.keys() & last.keys())
        return [last[s] for s in both], [first[s] for s in both]

    if len(gains(side)[0]) < 2:  # one that failed before it was judged has no first
        return None
    c = stats.paired(*gains(side))
    others = [gains(Side(arm)) for arm in arms]
    means = [float(np.mean(np.subtract(*both))) for both in others if both[0]]
    margin = LEARNED * max([0.0, *means])
    p, against = c.p_below(margin), c.p_above(margin)
    n = [len(gains(side)[0])]
    return Finding(comparison, c.value, c.low, c.high, p, against, None, n)


def directed(c: stats.Contrast) -> tuple[float, float]:
    """Two-sided p for the claimed direction, and for the opposite one."""
    return (c.p, 1.0) if c.value > 0 else (1.0, c.p) if c.value < 0 else (1.0, 1.0)


def verdict(finding: Finding, p: float, against: float) -> str:
    if p < ALPHA and finding.lead:
        return "holds"
    return "contradicted" if against < ALPHA else "not shown"


def together(verdicts: list[str]) -> str:
    """All must hold; one that is contradicted contradicts."""
    if "contradicted" in verdicts:
        return "contradicted"
    for word in ("not run", "not tested"):
        if all(v in ("not run", word) for v in verdicts):
            return word
    return "holds" if all(v == "holds" for v in verdicts) else "not shown"


def reason(rows: list[dict[str, Any]]) -> str:
    """One sentence: which comparisons went how."""
    found = {v: [r for r in rows if r["verdict"] == v] for v in VERDICTS}
    told = []
    for word in VERDICTS:
        if not found[word]:
            continue
        if len(rows) > 1:
            told.append(f"{len(found[word])} of {len(rows)} {word}")
        first = found[word][0]
        if len(rows) == 1 and first["difference"] is not None:
            told.append(
                f"{first['difference']:+,.0f} [{first['low']:+,.0f}, {first['high']:+,.0f}]"
            )
        elif len(rows) == 1:
            told.append(f"fewer than two seeds ({', '.join(map(str, first['n']))})")
    for row in found["not shown"]:
        if row["p_holm"] < ALPHA:  # a few seeds may make the mean
            low, high = row["probability_low"], row["probability_high"]
            told.append(
                f"of {row['text']} the means alone are apart: a run of the first beats one "
                f"of the second with a chance of {low:.2f} to {high:.2f}"
            )
    return "; ".join(told)


def power(found: list[Finding], measures: int) -> str:
    """What so many seeds can see, by each of so many measures."""
    if not found:
        return ""
    n, count = min(min(f.n) for f in found), len(found) // measures
    seen = stats.detectable(n, comparisons=count)
    return (
        f"with {n} seeds an arm and {count} "
        f"comparison{'s' * (count > 1)} a difference of {seen:.2f} standard "
        "deviations is seen 80 % of the time"
    )


def as_row(finding: Finding) -> dict[str, Any]:
    likely = finding.probability
    return {
        "difference": finding.value,
        "low": finding.low,
        "high": finding.high,
        "p": finding.p,
        "p_holm": finding.p,
        "probability": None if likely is None else likely.p,
        "probability_low": None if likely is None else likely.low,
        "probability_high": None if likely is None else likely.high,
        "n": finding.n,
        "verdict": "",
    }


def not_run(
    comparison: Comparison, place: Place, measure: str, look: Look
) -> dict[str, Any]:
    empty = dict.fromkeys(
        ("difference", "low", "high", "p", "p_holm", "probability",
         "probability_low", "probability_high")
    )  # fmt: skip
    n = [len(scores) for scores in scores_of(comparison, place, measure, look)[0]]
    return empty | {"n": n, "verdict": "not run"}
