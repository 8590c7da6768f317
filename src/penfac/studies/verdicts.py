"""Does a claim hold? Scores by seed in, a verdict with its numbers out.

`holds` and `contradicted` need an effect that chance makes in fewer than 5 of 100 claims
(Holm over all comparisons of a claim); everything between is `not shown`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from penfac import stats
from penfac.studies.claims import Claim, Comparison, Side

ALPHA = 0.05
LEARNED = 0.1  # of what the best arm gained: less is nothing
VERDICTS = ("holds", "contradicted", "not shown", "not run")

Scores = dict[int, float]  # by seed
Look = Callable[[str, Side, str], Scores]  # env, whose, measure (or "initial")


class Finding(NamedTuple):
    """One comparison on one environment: the number, how sure, and in which direction."""

    env: str
    comparison: Comparison
    value: float
    low: float
    high: float
    p: float  # of what would be so if the comparison did not hold
    against: float  # ... of what would be so if its opposite did not
    probability: stats.Probability | None
    n: list[int]
    lead: bool = True  # P(first > second) is not against it


def judge(claim: Claim, envs: Sequence[str], arms: Sequence[str], look: Look) -> dict:
    """A claim's verdict, and each comparison's."""
    rows: list[dict[str, Any]] = []
    found: list[Finding] = []
    for env in claim.envs or envs:
        for comparison in claim.comparisons:
            finding = compare(claim, comparison, env, arms, look)
            row = {"env": env, "text": comparison.text, "measure": claim.measure}
            if finding is None:
                rows.append(row | not_run(comparison, env, claim, look))
            else:
                found.append(finding)
                rows.append(row | as_row(finding))
    ps = stats.holm([f.p for f in found]) if found else []
    against = stats.holm([f.against for f in found]) if found else []
    verdicts = iter(zip(found, ps, against, strict=True))
    for row in rows:
        if row["verdict"] != "not run":
            finding, p, q = next(verdicts)
            word = verdict(finding, p, q)
            row |= {"verdict": word, "p_holm": p}
            if word == "contradicted":  # the p of what it says
                row |= {"p": finding.against, "p_holm": q}
    return {
        "words": claim.words,
        "where": claim.where,
        "verdict": together([row["verdict"] for row in rows]),
        "reason": reason(rows),
        "power": power(found),
        "comparisons": rows,
    }


def compare(
    claim: Claim, comparison: Comparison, env: str, arms: Sequence[str], look: Look
) -> Finding | None:
    """None where a side has fewer than two seeds."""
    sides = [look(env, side, claim.measure) for side in comparison.sides]
    if any(len(scores) < 2 for scores in sides):
        return None
    if comparison.kind == "nothing":
        return learns_nothing(claim, comparison, env, arms, look)
    samples, paired = paired_samples(comparison, sides)
    if len(samples[0]) < 2:  # pairs
        return None
    if paired:
        c = stats.paired(*samples)
        deviation = float(np.std(np.concatenate(samples), ddof=1))
    else:
        c = stats.contrast(samples, comparison.weights)
        deviation = float(np.sqrt(np.mean([np.var(x, ddof=1) for x in samples])))
    two = len(samples) == 2
    probability = stats.improvement(*samples) if two else None
    lead = probability is None or probability.low > 0.5
    n = [len(x) for x in samples]
    finding = Finding(
        env, comparison, c.value, c.low, c.high, *directed(c), probability, n, lead
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
    claim: Claim, comparison: Comparison, env: str, arms: Sequence[str], look: Look
) -> Finding | None:
    """What it gained over its first policy, against a tenth of what the best arm did."""
    (side,) = comparison.sides

    def gains(whose: Side) -> tuple[list[float], list[float]]:
        first, last = look(env, whose, "initial"), look(env, whose, claim.measure)
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
    return Finding(env, comparison, c.value, c.low, c.high, p, against, None, n)


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
    if all(v == "not run" for v in verdicts):
        return "not run"
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


def power(found: list[Finding]) -> str:
    """What so many seeds can see."""
    if not found:
        return ""
    n = min(min(f.n) for f in found)
    seen = stats.detectable(n, comparisons=len(found))
    return (
        f"with {n} seeds an arm and {len(found)} "
        f"comparison{'s' * (len(found) > 1)} a difference of {seen:.2f} standard "
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
    comparison: Comparison, env: str, claim: Claim, look: Look
) -> dict[str, Any]:
    empty = dict.fromkeys(
        ("difference", "low", "high", "p", "p_holm", "probability",
         "probability_low", "probability_high")
    )  # fmt: skip
    n = [len(look(env, side, claim.measure)) for side in comparison.sides]
    return empty | {"n": n, "verdict": "not run"}
