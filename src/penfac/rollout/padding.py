"""Pad a batch to one of few lengths: an update compiles once for each length."""

from typing import Any

import numpy as np

from penfac.types import Transitions

SMALLEST = 64


def padded_length(steps: int) -> int:
    """The smallest of 64, 80, 96, 112, 128, 160, ... that holds `steps`.

    Four lengths an octave: an update costs at most a quarter more than its real steps
    would, and a run that meets every length from 64 to 16384 compiles 33 times.
    """
    length = SMALLEST
    while length * 2 <= steps:
        length *= 2
    quarter = length // 4
    return max(SMALLEST, -(-steps // quarter) * quarter)


def pad(steps: Transitions, length: int | None = None) -> Transitions:
    """Pad host arrays with zeros to `length` (default: `padded_length`); `mask` is False
    there."""
    n = len(steps.reward)
    missing = (padded_length(n) if length is None else length) - n
    if missing == 0:
        return steps

    def pad_array(x: np.ndarray) -> Any:
        return np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1))

    return Transitions(*(pad_array(np.asarray(x)) for x in steps))
