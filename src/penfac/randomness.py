"""Random numbers are counted, not carried: every seed is a function of its purpose.

A stream is a purpose. A draw is named by (run seed, stream, counters). So a checkpoint
holds only counters, and more evaluations cannot change training (D16).
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """A number for each purpose; never reuse or renumber one."""

    INIT = 0
    TRAIN_RESET = 1
    NOISE = 2
    EVAL_RESET = 3
    EVAL_NOISE = 4
    PLAY_RESET = 5  # `penfac eval`: states that no evaluation in training uses
    PLAY_NOISE = 6
    LEARN = 7  # draws of an update: minibatches, smoothed targets, perturbed actors


def env_seed(seed: int, stream: Stream, *counters: int) -> int:
    """The seed for the reset of an environment."""
    sequence = np.random.SeedSequence([seed, int(stream), *counters])
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)  # Gymnasium wants int32


def generator(seed: int, stream: Stream, *counters: int) -> np.random.Generator:
    """A numpy generator for one draw."""
    sequence = np.random.SeedSequence([seed, int(stream), *counters])
    return np.random.Generator(np.random.Philox(sequence))
