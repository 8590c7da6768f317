"""One comparison of a claim in one place: the effect, its interval and its p-values."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from penfac import stats
from penfac.studies.claims import Comparison, Side

SHOWN = 0.1  # of the sides' mean return: the difference whose power is told
LEARNED = 0.1  # of what the best arm gained: a smaller gain is no learning

Scores = dict[int, float]  # by seed
ScoreLookup = Callable[[str, Side, str], Scores]  # env, side, measure (or "initial")


class Place(NamedTuple):
    """Where sides are compared: in an environment, or by their change to it."""

    env: str
    before: str | None = None

    def __str__(self) -> str:
        return self.env if self.before is None else f"{self.before} to {self.env}"


class Effect(NamedTuple):
    """The weighted difference of a comparison; every p-value is before Holm."""

    comparison: Comparison
    value: float
    low: float
    high: float
    p: float  # small if the comparison holds
    p_opposite: float  # small if its opposite holds
    probability: stats.Probability | None  # that the first side beats the second
    n: list[int]
    consistent: bool = True  # the interval of `probability` is above one half
    size: float = 0.0  # mean of the sides' returns, without their signs
    deviations: tuple[float, ...] = ()  # of the sides, or of the differences of pairs

    def as_row(self) -> dict:
        """The numbers of a row in findings.json."""
        chance = self.probability
        return {
            "difference": self.value,
            "low": self.low,
            "high": self.high,
            "p": self.p,
            "p_holm": self.p,
            "probability": None if chance is None else chance.p,
            "probability_low": None if chance is None else chance.low,
            "probability_high": None if chance is None else chance.high,
            "n": self.n,
            "seeds_needed": None,
        }

    def seeds_needed(self, comparisons: int) -> int | None:
        """The seeds an arm that would show a difference of SHOWN; None if not known."""
        if not self.deviations or self.size == 0:
            return None
        return stats.seeds_to_show(
            SHOWN * self.size, self.deviations, comparisons=comparisons
        )


def compare(
    comparison: Comparison,
    place: Place,
    measure: str,
    margin: float,
    arms: Sequence[str],
    look: ScoreLookup,
) -> Effect | None:
    """Compare the scores of the sides; None if a side has fewer than two seeds.

    `margin` is what counts as no difference, in standard deviations.
    """
    sides, weights = side_scores(comparison, place, measure, look)
    if any(len(scores) < 2 for scores in sides):
        return None
    if comparison.kind == "nothing":
        return no_learning(comparison, place.env, measure, arms, look)
    samples, paired = paired_samples(comparison, sides)
    if len(samples[0]) < 2:  # pairs
        return None
    deviations = [float(np.std(x, ddof=1)) for x in samples]
    if paired:
        c = stats.paired(*samples)
        deviations = [float(np.std(np.subtract(samples[0], samples[1]), ddof=1))]
        deviation = float(np.std(np.concatenate(samples), ddof=1))
    else:
        c = stats.contrast(samples, weights)
        deviation = float(np.sqrt(np.mean(np.square(deviations))))
    n = [len(x) for x in samples]
    probability = stats.improvement(*samples) if len(samples) == 2 else None
    p, p_opposite = direction_p(c)
    consistent = probability is None or probability.low > 0.5
    width = margin * deviation
    if comparison.kind == "not below":
        p, consistent = c.p_above(-width), True
    elif comparison.kind == "level":
        p = max(c.p_above(-width), c.p_below(width))  # two one-sided tests
        # beyond the margin on either side
        p_opposite = 2 * min(c.p_above(width), c.p_below(-width), 0.5)
        consistent = True
    return Effect(
        comparison, c.value, c.low, c.high, p, p_opposite, probability, n, consistent,
        float(np.mean([abs(np.mean(x)) for x in samples])), tuple(deviations),
    )  # fmt: skip


def direction_p(c: stats.Contrast) -> tuple[float, float]:
    """The two-sided p-value for the claimed direction, and for the opposite one."""
    if c.value == 0:
        return 1.0, 1.0
    return (c.p, 1.0) if c.value > 0 else (1.0, c.p)


def side_scores(
    comparison: Comparison, place: Place, measure: str, look: ScoreLookup
) -> tuple[list[Scores], tuple[float, ...]]:
    """The scores and weights of every side; for a change, those before it as well."""
    after = [look(place.env, side, measure) for side in comparison.sides]
    if place.before is None:
        return after, comparison.weights
    before = [look(place.before, side, measure) for side in comparison.sides]
    return after + before, comparison.weights + tuple(-w for w in comparison.weights)


def paired_samples(
    comparison: Comparison, sides: list[Scores]
) -> tuple[list[list[float]], bool]:
    """Two evaluations of the same policies are pairs; other sides are independent."""
    same = len({side.arm for side in comparison.sides}) == 1 and len(sides) == 2
    if same:
        both = sorted(sides[0].keys() & sides[1].keys())
        return [[side[seed] for seed in both] for side in sides], True
    return [list(side.values()) for side in sides], False


def no_learning(
    comparison: Comparison,
    env: str,
    measure: str,
    arms: Sequence[str],
    look: ScoreLookup,
) -> Effect | None:
    """Test the gain over the first policy against a tenth of the best arm's gain."""
    (side,) = comparison.sides

    def last_and_first(whose: Side) -> tuple[list[float], list[float]]:
        first, last = look(env, whose, "initial"), look(env, whose, measure)
        both = sorted(first.keys() & last.keys())
        return [last[s] for s in both], [first[s] for s in both]

    last, first = last_and_first(side)
    if len(last) < 2:  # a seed that failed before its first evaluation has no first
        return None
    c = stats.paired(last, first)
    others = [last_and_first(Side(arm)) for arm in arms]
    gains = [float(np.mean(np.subtract(*both))) for both in others if both[0]]
    bound = LEARNED * max([0.0, *gains])
    p, p_opposite = c.p_below(bound), c.p_above(bound)
    return Effect(comparison, c.value, c.low, c.high, p, p_opposite, None, [len(last)])
