"""The ring of transitions against a list that forgets its oldest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from penfac.algos.replay import Replay, append, replay_init, sample, state_behind
from penfac.core.returns import n_step_returns
from penfac.types import Transitions

GAMMA, WINDOW, CAPACITY, ROWS = 0.9, 3, 7, 5
put = jax.jit(append, static_argnums=2)


@jax.jit
def windows_at(replay, key):
    """100 sampled windows, their returns and the states behind them."""
    one = jnp.float32(1)
    found = sample(replay, key, 100, WINDOW, GAMMA * one, one)
    total, discount, last = n_step_returns(found.reward, found.discount, found.follows)
    return found, total, discount, state_behind(replay, found, last)


def steps(numbers, ends=None, mask=None, jumps=()):
    """Steps with tags: obs = number, next_obs = number + 1, reward = 10 number.

    `ends[i]` is "", "terminated", "truncated" or "cut"; a state behind `jumps` is one
    that no number continues.
    """
    count = len(numbers)
    ends = ends or [""] * (count - 1) + ["cut"]
    mask = np.ones(count, bool) if mask is None else np.array(mask)
    x = np.array(numbers, np.float32)
    ahead = np.array([n + 0.5 if n in jumps else n + 1 for n in numbers], np.float32)
    batch = Transitions(
        mask=mask, obs=x[:, None], next_obs=ahead[:, None], action=-x[:, None],
        reward=10 * x, terminated=np.array([e == "terminated" for e in ends]),
        truncated=np.array([e == "truncated" for e in ends]),
        last=np.array([e != "" for e in ends]),
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, batch)


def fresh(capacity=CAPACITY) -> Replay:
    return replay_init(capacity, 1, 1)


def content(replay):
    """What is stored, oldest first, as (obs, follows)."""
    capacity, total = len(replay.rows.reward), int(replay.total)
    order = [k % capacity for k in range(max(0, total - capacity), total)]
    obs = np.asarray(replay.rows.obs)[order, 0].astype(int).tolist()
    return obs, np.asarray(replay.rows.follows)[order].tolist()


def test_what_is_stored_keeps_its_order_and_its_fields():
    """Every field of every row, in the order in which it was played."""
    replay = put(fresh(), steps(range(5)), False)
    assert content(replay)[0] == [0, 1, 2, 3, 4]
    rows = jax.tree.map(np.asarray, replay.rows)
    for k in range(5):
        assert rows.obs[k, 0] == k
        assert rows.next_obs[k, 0] == k + 1
        assert rows.action[k, 0] == -k
        assert rows.reward[k] == 10 * k
    assert replay.total == 5


def test_the_newest_overwrite_the_oldest():
    """Seven rows: of 15 steps the last seven remain."""
    replay = fresh()
    for start in (0, 5, 10):
        replay = put(replay, steps(range(start, start + 5)), False)
    assert replay.total == 15
    assert content(replay)[0] == [8, 9, 10, 11, 12, 13, 14]


def test_a_batch_as_large_as_the_ring_fills_it():
    """Exactly once around, wherever the writing began."""
    replay = put(fresh(), steps([90, 91]), False)
    replay = put(replay, steps(range(7)), True)
    assert content(replay)[0] == list(range(7))


@pytest.mark.parametrize(
    "mask", [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 0, 1, 0, 1], [0, 1, 1, 1, 0]]
)
def test_padding_is_dropped(mask):
    """At the end, at the start and in the middle."""
    mask = np.array(mask, bool)
    replay = put(fresh(), steps(range(5), mask=mask), False)
    assert content(replay)[0] == [k for k in range(5) if mask[k]]
    assert replay.total == 3


def test_a_batch_of_padding_changes_nothing():
    """Not a bit of it, in a ring that holds something and in an empty one."""
    for replay in (fresh(), put(fresh(), steps(range(5)), True)):
        after = put(replay, steps(range(5), mask=[False] * 5), True)
        assert jax.tree.all(
            jax.tree.map(lambda a, b: bool((a == b).all()), after, replay)
        )


@pytest.mark.parametrize("end", ["terminated", "truncated", "cut"])
def test_steps_follow_inside_an_episode_only(end):
    """Not behind an end, and not behind the last row of the batch."""
    replay = put(fresh(), steps(range(5), ["", end, "", "", "cut"]), False)
    assert content(replay)[1] == [True, False, True, True, False]


def test_one_world_goes_on_from_batch_to_batch():
    """The next batch begins in the state where the last one stopped: joined."""
    replay = put(fresh(), steps([0, 1]), True)
    assert content(replay)[1] == [True, False]
    replay = put(replay, steps([2, 3]), True)
    assert content(replay)[1] == [True, True, True, False]


def test_several_worlds_are_never_joined():
    """Even where states happen to fit."""
    replay = put(fresh(), steps([0, 1]), False)
    replay = put(replay, steps([2, 3]), False)
    assert content(replay)[1] == [True, False, True, False]


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_episode_that_ended_is_not_joined(end):
    """Though the next one starts exactly in its last state."""
    replay = put(fresh(), steps([0, 1], ["", end]), True)
    replay = put(replay, steps([2, 3]), True)
    assert content(replay)[1] == [True, False, True, False]


def test_a_batch_that_starts_elsewhere_is_not_joined():
    """A world that was opened anew: its first state is no successor."""
    replay = put(fresh(), steps([0, 1]), True)
    replay = put(replay, steps([5, 6]), True)
    assert content(replay)[1] == [True, False, True, False]


def test_the_first_real_row_decides_about_joining():
    """Padding in front of it does not."""
    replay = put(fresh(), steps([0, 1]), True)
    replay = put(replay, steps([9, 9, 2], mask=[False, False, True]), True)
    assert content(replay) == ([0, 1, 2], [True, True, False])
    replay = put(fresh(), steps([0, 1]), True)
    replay = put(replay, steps([2, 9, 8], mask=[False, False, True]), True)
    assert content(replay)[1] == [True, False, False]


def test_an_empty_ring_joins_nothing():
    """Its zero rows are no steps: a first state of 0 follows none of them."""
    start = steps([0, 1])._replace(obs=jnp.zeros((2, 1)))
    replay = put(fresh(), start, True)
    assert not np.asarray(replay.rows.follows)[2:].any()


def test_sampling_is_uniform_over_what_is_filled(key):
    """Chi-square over the rows: half full, and full."""
    one = jnp.float32(1)
    for count, expected in ((4, 4), (18, CAPACITY)):
        replay = fresh()
        for start in range(0, count, 2):
            replay = put(replay, steps([start, start + 1]), True)
        found = sample(replay, key, 7000, 1, one, one)
        counts = np.bincount(np.asarray(found.at), minlength=CAPACITY)
        assert np.all(counts[expected:] == 0)
        assert stats.chisquare(counts[:expected]).pvalue > 1e-3


def test_a_time_limit_counts_as_told(key):
    """Discount gamma behind a truncation with bootstrap 1, 0 with 0; a death always 0."""
    replay = put(fresh(), steps([0, 1, 2], ["truncated", "terminated", "cut"]), False)
    for bootstrap in (0.0, 1.0):
        found = sample(replay, key, 50, 1, jnp.float32(GAMMA), jnp.float32(bootstrap))
        by_row = dict(
            zip(
                np.asarray(found.at).tolist(),
                np.asarray(found.discount)[:, 0].tolist(),
                strict=True,
            )
        )
        assert by_row == pytest.approx({0: GAMMA * bootstrap, 1: 0.0, 2: GAMMA})


# --- any sequence of batches ----------------------------------------------------------


class Step(NamedTuple):
    number: int
    terminated: bool
    follows: bool  # the next stored step is the next one played


@st.composite
def histories(draw):
    """Batches of ROWS rows with padding anywhere, of one world or of several.

    A state's number goes on by 1 inside an episode; behind an end, or where a world is
    opened anew, it jumps by 10.
    """
    one_world, number, batches = draw(st.booleans()), 0, []
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 3)) == 0:
            number += 10
        mask = draw(st.lists(st.booleans(), min_size=ROWS, max_size=ROWS))
        real = [i for i in range(ROWS) if mask[i]]
        numbers, ends = [777] * ROWS, [""] * ROWS
        for i in real:
            choice = ["", "", "", "terminated", "truncated"]
            choice += [] if one_world else ["cut"]
            end = draw(st.sampled_from(choice))
            numbers[i] = number
            ends[i] = end or ("cut" if i == real[-1] else "")
            number += 1 if end == "" else 10
        batches.append((numbers, ends, mask))
    return one_world, batches


def remembered(one_world, batches):
    """The last CAPACITY steps, as a list."""
    stored: list[Step] = []
    for numbers, ends, mask in batches:
        first = True
        for number, end, real in zip(numbers, ends, mask, strict=True):
            if not real:
                continue
            if first and stored and one_world:
                before = stored[-1]
                joined = before.number + 1 == number  # jumps by 10 behind every end
                stored[-1] = before._replace(follows=joined)
            stored.append(Step(number, end == "terminated", end == ""))
            first = False
        stored = stored[-CAPACITY:]
    return stored


def target_of(stored, k):
    """Rewards from step k on, what is left of gamma, and the state reached."""
    total, product = 0.0, 1.0
    for step in stored[k : k + WINDOW]:
        total += product * 10 * step.number
        product *= 0.0 if step.terminated else GAMMA
        if not step.follows:
            break
    return total, product, step.number + 1


@settings(max_examples=60)
@given(histories())
def test_windows_of_any_history_are_those_of_a_list(history):
    """Content and follows as a list has them; no window crosses an end or the head."""
    one_world, batches = history
    replay, stored = fresh(), remembered(one_world, batches)
    for batch in batches:
        replay = put(replay, steps(*batch), one_world)
    obs, follows = content(replay)
    assert obs == [s.number for s in stored]
    assert follows == [s.follows for s in stored]
    if not stored:
        return
    assert not follows[-1]
    found, total, discount, behind = windows_at(replay, jax.random.key(0))
    place = {s.number: k for k, s in enumerate(stored)}
    assert len(place) == len(stored)
    tags = np.asarray(found.obs)[:, 0].astype(int)
    assert set(tags) <= set(place)
    expected = np.array([target_of(stored, place[tag]) for tag in tags])
    np.testing.assert_allclose(total, expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(discount, expected[:, 1], rtol=1e-5)
    np.testing.assert_allclose(behind[:, 0], expected[:, 2])
    np.testing.assert_allclose(found.action[:, 0], -tags)
