"""What checking a statement found: its two sides, and whether it holds."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Finding(NamedTuple):
    """Both sides of a statement. Of vectors the sides are lengths, and the gap is the
    length of the difference; of an inequality the gap is what is left of the room."""

    left: float
    right: float
    gap: float
    holds: bool
    numbers: Mapping[str, float]  # what else was computed on the way, by name


class Statement(NamedTuple):
    """One row of the table: what is said, where, by whom, and how it is checked."""

    name: str
    where: str  # in the paper
    printed: bool  # the paper says it; else it is a sharper or a corrected form of ours
    says: str  # one line
    sides: tuple[str, str]  # what left and right are
    relation: str  # that is to hold between them
    about: str  # a few sentences
    check: Callable[[], Finding]
    picture: str  # one of `figures.DRAWINGS`


def equal(
    left: ArrayLike,
    right: ArrayLike,
    within: float,
    numbers: Mapping[str, float],
    also: bool = True,
) -> Finding:
    """left = right, as near as `within`; `also` is what else must be true."""
    a, b = np.atleast_1d(np.asarray(left, float)), np.atleast_1d(np.asarray(right))
    gap = float(np.linalg.norm(a - b))
    holds = bool(gap <= within and also)
    return Finding(_size(a), _size(b), gap, holds, plain(numbers))


def _size(side: np.ndarray) -> float:
    return float(side[0]) if len(side) == 1 else float(np.linalg.norm(side))


def at_most(
    left: float, right: float, numbers: Mapping[str, float], also: bool = True
) -> Finding:
    """left <= right."""
    left, right = float(left), float(right)
    return Finding(
        left, right, right - left, bool(left <= right and also), plain(numbers)
    )


def below(
    left: float, right: float, numbers: Mapping[str, float], also: bool = True
) -> Finding:
    """left < right."""
    left, right = float(left), float(right)
    return Finding(
        left, right, right - left, bool(left < right and also), plain(numbers)
    )


def same_sign(left: float, right: float, numbers: Mapping[str, float]) -> Finding:
    """left and right are both positive or both negative."""
    left, right = float(left), float(right)
    return Finding(left, right, abs(left - right), left * right > 0, plain(numbers))


def plain(numbers: Mapping[str, float]) -> dict[str, float]:
    """Floats that JSON can hold."""
    return {name: float(value) for name, value in numbers.items()}
