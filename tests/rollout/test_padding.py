"""Batches of few lengths."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penfac.rollout.padding import SMALLEST, pad, padded_length
from penfac.types import Transitions

steps = st.integers(1, 10**7)


@given(steps)
def test_a_length_holds_its_steps_and_wastes_less_than_a_quarter(n):
    """padded_length(n) >= n, and above the smallest one the padding is under 25 % of n."""
    length = padded_length(n)
    assert length >= n
    assert length == SMALLEST if n <= SMALLEST else (length - n) < 0.25 * n


@given(steps, steps)
def test_more_steps_never_get_a_smaller_padded_length(a, b):
    assert padded_length(min(a, b)) <= padded_length(max(a, b))


@given(steps)
def test_a_padded_length_is_its_own(n):
    """A batch of such a length is not padded."""
    assert padded_length(padded_length(n)) == padded_length(n)


def test_lengths_are_few():
    """Four an octave: 8 octaves from 64 to 16384 and the end itself make 33."""
    lengths = {padded_length(n) for n in range(1, 16384 + 1)}
    octaves = np.log2(16384 / 64)
    assert len(lengths) == 4 * octaves + 1
    assert {padded_length(n) for n in range(1, 129)} == {64, 80, 96, 112, 128}


def test_padding_is_zeros_that_the_mask_excludes():
    """Real steps come first and unchanged; what follows is zero and masked out."""
    n, rng = 70, np.random.default_rng(0)
    batch = Transitions(
        mask=np.ones(n, bool),
        obs=rng.normal(size=(n, 3)).astype(np.float32),
        next_obs=rng.normal(size=(n, 3)).astype(np.float32),
        action=rng.normal(size=(n, 2)).astype(np.float32),
        reward=rng.normal(size=n).astype(np.float32),
        terminated=rng.random(n) < 0.5,
        truncated=rng.random(n) < 0.5,
        last=np.ones(n, bool),
    )
    padded = pad(batch)
    for name, before, after in zip(batch._fields, batch, padded, strict=True):
        assert after.shape == (padded_length(n), *before.shape[1:]), name
        assert after.dtype == before.dtype, name
        assert after[:n].tobytes() == before.tobytes(), name
        assert not after[n:].any(), name
