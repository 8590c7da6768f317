"""A claim: a sentence of the paper, and the comparisons that test it.

A comparison is one line:

    penfac above ppo                    the first is better than the second
    ppo not below ppo[sampled]          at most half a standard deviation worse
    no-batch-norm level with penfac     at most half a standard deviation apart
    spg-update learns nothing           ends with the return of its first policy
    a - b above c - d                   the first difference is larger than the second

A name is an arm; `[mode]` is how it is evaluated, by default `mean`. A claim may need a
condition to be active in an arm, or else the other arm leaves nothing out:

    penfac: beta above beta_min         in a tenth of the updates, by progress.csv
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from penfac.errors import ConfigError

MEASURES = {
    "final": "mean return of the last tenth of the evaluations",
    "early": "mean return over the first quarter of the steps",
    "area": "mean return over all steps",
    "relative": "mean return over all steps, divided by the size of the first return",
}
MARGIN = 0.5  # a smaller difference counts as none; in standard deviations
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
SIDE = rf"({NAME})(?:\[([a-z0-9-]+)\])?"
FORMS = {
    "interaction": rf"{SIDE} - {SIDE} above {SIDE} - {SIDE}",
    "above": rf"{SIDE} above {SIDE}",
    "not below": rf"{SIDE} not below {SIDE}",
    "level": rf"{SIDE} level with {SIDE}",
    "nothing": rf"{SIDE} learns nothing",
}
WEIGHTS = {"interaction": (1.0, -1.0, -1.0, 1.0), "nothing": (1.0,)}
NEED = rf"({NAME}): ([a-z0-9_]+) above ([a-z0-9_.]+)"


class Side(NamedTuple):
    """An arm, evaluated in one of its modes."""

    arm: str
    mode: str = "mean"


class Comparison(NamedTuple):
    """One line, parsed."""

    text: str
    kind: str
    sides: tuple[Side, ...]

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the sides' means in the sum that is compared with 0."""
        return WEIGHTS.get(self.kind, (1.0, -1.0))


class Need(NamedTuple):
    """A condition that must hold in a share of an arm's updates to be active there."""

    text: str
    arm: str
    column: str  # of progress.csv
    bound: str  # a setting of the arm, or a number


@dataclass(frozen=True)
class Claim:
    """A sentence that can be tested, where it is printed, and the comparisons."""

    words: str
    compare: tuple[str, ...]
    where: str = ""
    measure: str = "final"  # one of MEASURES, or several: "final, area"
    margin: float = MARGIN
    envs: tuple[str, ...] = ()  # empty: all of the study
    # pairs of environments: compare the change of each side from the first to the second
    changes: tuple[tuple[str, str], ...] = ()
    needs: tuple[
        str, ...
    ] = ()  # conditions; if one is not active, the claim is not tested

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        return tuple(map(parse, self.compare))

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(word.strip() for word in self.measure.split(","))

    @property
    def conditions(self) -> tuple[Need, ...]:
        return tuple(map(parse_need, self.needs))


def parse(text: str) -> Comparison:
    line = " ".join(text.split())
    for kind, form in FORMS.items():
        found = re.fullmatch(form, line)
        if found:
            words = found.groups()
            pairs = zip(words[::2], words[1::2], strict=True)
            return Comparison(line, kind, tuple(Side(a, m or "mean") for a, m in pairs))
    raise ConfigError(
        f"{text!r}: must be `a above b`, `a not below b`, `a level with b`, "
        "`a learns nothing` or `a - b above c - d`"
    )


def parse_need(text: str) -> Need:
    line = " ".join(text.split())
    found = re.fullmatch(NEED, line)
    if found is None:
        raise ConfigError(
            f"{text!r}: must be `arm: column above bound`, such as "
            "`penfac: beta above beta_min`"
        )
    return Need(line, *found.groups())


def check(claim: Claim, arms: set[str]) -> None:
    """Refuse unknown arms and measures."""
    if not isinstance(claim.words, str) or not isinstance(claim.where, str):
        raise ConfigError(f"claim {claim.words!r}: words must be text")
    if not isinstance(claim.measure, str):
        raise ConfigError(f"measure {claim.measure!r}: must be text")
    for measure in claim.measures:
        if measure not in MEASURES:
            listed = ", ".join(MEASURES)
            raise ConfigError(f"measure {measure!r}: must be one of {listed}")
    if not claim.compare:
        raise ConfigError(f"{claim.words!r}: must compare two arms")
    if not isinstance(claim.margin, int | float) or not 0 < claim.margin < 10:
        raise ConfigError(
            f"margin {claim.margin}: must be above 0 (in standard deviations)"
        )
    named = [(c.text, side.arm) for c in claim.comparisons for side in c.sides]
    for text, arm in named + [(need.text, need.arm) for need in claim.conditions]:
        if arm not in arms:
            listed = ", ".join(sorted(arms))
            raise ConfigError(f"{text!r}: {arm} is not an arm; the arms are {listed}")
    for comparison in claim.comparisons if claim.changes else ():
        if len(comparison.sides) != 2:
            raise ConfigError(
                f"{comparison.text!r}: with changes, must compare two arms"
            )
