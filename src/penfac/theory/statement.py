"""A statement of the paper, and what its check computed: both sides and the verdict."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class CheckResult(NamedTuple):
    """Both sides of a statement. Sides that are vectors are given by their lengths, with
    the length of the difference as gap; the gap of an inequality is right - left."""

    left: float
    right: float
    gap: float
    holds: bool
    numbers: Mapping[str, float]  # intermediate results by name


class Statement(NamedTuple):
    """One row of the table: what is stated, where, and how it is checked."""

    name: str
    where: str  # in the paper
    printed: bool  # in the paper; otherwise a sharper or corrected form of ours
    says: str  # one line
    sides: tuple[str, str]  # what left and right are
    relation: str  # claimed between left and right
    about: str  # a few sentences
    check: Callable[[], CheckResult]
    picture: Callable[[], bytes]  # its figure as PNG


def equal(
    left: ArrayLike,
    right: ArrayLike,
    within: float,
    numbers: Mapping[str, float],
    also: bool = True,
) -> CheckResult:
    """left = right within a tolerance; `also` must be true as well."""
    a, b = np.atleast_1d(np.asarray(left, float)), np.atleast_1d(np.asarray(right))
    gap = float(np.linalg.norm(a - b))
    holds = bool(gap <= within and also)
    return CheckResult(_size(a), _size(b), gap, holds, _floats(numbers))


def at_most(
    left: float, right: float, numbers: Mapping[str, float], also: bool = True
) -> CheckResult:
    """left <= right."""
    left, right = float(left), float(right)
    holds = bool(left <= right and also)
    return CheckResult(left, right, right - left, holds, _floats(numbers))


def below(
    left: float, right: float, numbers: Mapping[str, float], also: bool = True
) -> CheckResult:
    """left < right."""
    return at_most(left, right, numbers, also and bool(left != right))


def same_sign(left: float, right: float, numbers: Mapping[str, float]) -> CheckResult:
    """left and right are both positive or both negative."""
    left, right = float(left), float(right)
    gap, holds = abs(left - right), left * right > 0
    return CheckResult(left, right, gap, holds, _floats(numbers))


def _size(side: np.ndarray) -> float:
    return float(side[0]) if len(side) == 1 else float(np.linalg.norm(side))


def _floats(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in numbers.items()}
