"""Randomness is counted, not carried: every seed is a function of who asks for what.

A stream is a purpose; a draw is named by (run seed, stream, counters). So a checkpoint
holds counters only, and evaluating more often cannot change training (D16).
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """One number for each purpose; never reuse one, never renumber."""

    INIT = 0
    TRAIN_RESET = 1
    NOISE = 2
    EVAL_RESET = 3
    EVAL_NOISE = 4
    PLAY_RESET = 5  # `penfac eval`: states no training run was judged on
    PLAY_NOISE = 6
    LEARN = 7  # what an update draws: minibatches, smoothed targets, perturbed actors


def env_seed(seed: int, stream: Stream, *counters: int) -> int:
    """The seed an environment is reset with."""
    sequence = np.random.SeedSequence([seed, int(stream), *counters])
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)  # Gymnasium wants int32


def generator(seed: int, stream: Stream, *counters: int) -> np.random.Generator:
    """A numpy stream of its own."""
    sequence = np.random.SeedSequence([seed, int(stream), *counters])
    return np.random.Generator(np.random.Philox(sequence))
