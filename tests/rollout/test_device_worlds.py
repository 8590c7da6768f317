"""The device collector: the same record as the host's, from one compiled program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.rollout.random_ends import (
    ALL,
    EPISODES,
    HORIZON,
    RANDOM_END,
    SEEDS,
    SIGMA,
    STEPS,
    W,
    around_mu,
    bits,
    episodes_of,
    evaluation_of,
    first_number,
    gains,
    linear_mu,
    rows,
    steps_of,
)
from tests.tiers import slow_cases

from penfac.envs.base import Outcome
from penfac.envs.builtin import BUILT_IN
from penfac.randomness import Stream
from penfac.rollout.device import (
    collect_episodes,
    play_episodes,
    start_worlds,
)
from penfac.rollout.device_step import stream_keys
from penfac.types import Transitions


@pytest.fixture(scope="module")
def played():
    """Sixty episodes of three learners, ending at random."""
    return jax.device_get(episodes_of(gains(), SIGMA, SEEDS, first_number(0, 7, 9)))


# --- whole episodes ----------------------------------------------------------------------


def test_every_episode_is_whole_and_ends_once(played):
    """The mask is a prefix; its end is the only `last`, terminated or else truncated at
    the time limit, and each step's successor is the next row's observation."""
    batch, _ = played
    for learner in range(3):
        b = rows(batch, learner, EPISODES)
        length = b.mask.sum(axis=1)
        assert set(length) == set(range(1, HORIZON + 1))
        t = np.arange(HORIZON)
        np.testing.assert_array_equal(b.mask, t < length[:, None])
        np.testing.assert_array_equal(b.last, t == length[:, None] - 1)
        np.testing.assert_array_equal(b.terminated ^ b.truncated, b.last)
        np.testing.assert_array_equal(
            b.truncated.any(axis=1), (length == HORIZON) & ~b.terminated.any(axis=1)
        )
        goes_on = b.mask[:, 1:]
        np.testing.assert_array_equal(
            b.next_obs[:, :-1][goes_on], b.obs[:, 1:][goes_on]
        )
        np.testing.assert_array_equal(b.obs[..., 2][b.mask], np.nonzero(b.mask)[1])


def test_padding_is_zero(played):
    """What was not played is zero in every field: finite and inert."""
    batch, _ = played
    assert not batch.mask.all()
    for name, x in zip(batch._fields, batch, strict=True):
        assert np.isfinite(x).all(), name
        assert not x[~batch.mask].any(), name


def test_returns_and_lengths_are_those_of_the_steps(played):
    """Each episode's return is the sum of its rewards, counted once, where it ended."""
    batch, finished = played
    for learner in range(3):
        b = rows(batch, learner, EPISODES)
        ended = finished.ended[learner]
        assert ended.sum(axis=1).tolist() == [1] * EPISODES
        returns = finished.returned[learner][ended]
        np.testing.assert_allclose(returns, b.reward.sum(axis=1), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(
            finished.length[learner][ended], b.mask.sum(axis=1)
        )


def test_those_not_active_play_nothing(played):
    """... and the others have the bits that they have among active ones."""
    active = jnp.array([True, False, True])
    given = (gains(), SIGMA, SEEDS, first_number(0, 7, 9))
    batch, finished = jax.device_get(episodes_of(*given, active))
    assert not any(x[1].any() for x in (*batch, finished.ended))
    for learner in (0, 2):
        assert bits((batch, finished), learner) == bits(played, learner)
    given = (gains(), SEEDS, first_number(3, 3, 3))
    some, every = evaluation_of(*given, active), evaluation_of(*given)
    assert not any(np.asarray(x[1]).any() for x in some)
    for learner in (0, 2):
        assert bits(some, learner) == bits(every, learner)


@pytest.mark.parametrize(
    ("active", "rounds"),
    slow_cases([((1, 1), 9), ((1, 0), 2), ((0, 0), 0)], ((1, 1), 9)),
)
def test_nobody_waits_for_those_not_active(active, rounds):
    """The episodes of the first learner end after two steps, those of the second with the
    time limit."""
    env = RANDOM_END._replace(
        spec=RANDOM_END.spec._replace(horizon=9),
        step=lambda state, action, key: Outcome(
            state.at[2].add(1), jnp.float32(0), (action[0] > 0) & (state[2] >= 1),
            jnp.bool_(False),
        ),
    )  # fmt: skip
    asked = []

    def mu(obs, *_):
        jax.debug.callback(lambda: asked.append(1))
        sides = jnp.array([0.9, -0.9])[:, None, None]
        return jnp.broadcast_to(sides, (*obs.shape[:2], 2))

    seeds, first, who = SEEDS[:2], first_number(0, 0), jnp.array(active, bool)
    noise = around_mu([1e-3, 1e-3])
    collect = jax.jit(lambda: collect_episodes(env, mu, noise, seeds, first, who, 4))
    judge = jax.jit(
        lambda: play_episodes(env, mu, seeds, Stream.EVAL_RESET, first, who, 4)
    )
    for program in (collect, judge):
        asked.clear()
        jax.block_until_ready(program())
        jax.effects_barrier()
        assert len(asked) == rounds


def test_initial_states_all_differ(played):
    """Three learners of sixty episodes start from 180 different states."""
    starts = {
        rows(played[0], k, EPISODES).obs[e, 0].tobytes()
        for k in range(3)
        for e in range(EPISODES)
    }
    assert len(starts) == 3 * EPISODES


def test_an_episode_is_named_by_its_number(played):
    """Playing from number 5 on gives the bits that episodes 5, 6, ... had before."""
    later, _ = episodes_of(gains(), SIGMA, SEEDS, first_number(5, 12, 14))
    for learner in range(3):
        early, late = rows(played[0], learner, EPISODES), rows(later, learner, EPISODES)
        for name, a, b in zip(early._fields, early, late, strict=True):
            assert a[5:].tobytes() == b[:-5].tobytes(), name


def test_noise_is_independent():
    """Correlations across steps, worlds, learners and dimensions stay under
    4 / sqrt(N)."""
    still, parts = jnp.zeros((3, 3, 2)), []
    for k in range(20):
        first = jnp.full(3, EPISODES * k, jnp.int32)
        batch, _ = jax.device_get(episodes_of(still, SIGMA / 3, SEEDS, first))
        parts.append(jax.tree.map(lambda x: x.reshape(3, EPISODES, HORIZON, -1), batch))
    steps = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *parts)
    noise = np.where(steps.mask, steps.action, np.nan)
    pairs = {
        "steps": (noise[:, :, :-1], noise[:, :, 1:]),
        "worlds": (noise[:, :-1], noise[:, 1:]),
        "updates": (noise[:, :-EPISODES], noise[:, EPISODES:]),
        "learners": (noise[:-1], noise[1:]),
        "dimensions": (noise[..., 0], noise[..., 1]),
    }
    for name, (a, b) in pairs.items():
        both = ~np.isnan(a) & ~np.isnan(b)
        correlation = np.corrcoef(a[both], b[both])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(both.sum()), name
    assert abs(np.nanstd(noise) - 0.1) < 4 * 0.1 / np.sqrt(2 * steps.mask.sum())


# --- learners do not meet ----------------------------------------------------------------


def test_a_spoiled_learner_leaves_the_others_every_bit():
    """NaN in learner 0's policy changes no bit of learners 1 and 2, in either collector
    and in the evaluation."""
    first, worlds = first_number(0, 0, 0), start_worlds(RANDOM_END, SEEDS, W)
    spoiled = gains().at[0].set(jnp.nan)
    programs = (
        lambda g: episodes_of(g, SIGMA, SEEDS, first),
        lambda g: steps_of(g, SIGMA, SEEDS, worlds),
        lambda g: evaluation_of(g, SEEDS, first),
    )
    for program in programs:
        good, bad = program(gains()), program(spoiled)
        assert bits(good, 0) != bits(bad, 0)
        for learner in (1, 2):
            assert bits(good, learner) == bits(bad, learner)


def test_permuting_seeds_permutes_results():
    """A learner's place in the program does not reach its numbers."""
    order = np.array([2, 0, 1])
    seeds = SEEDS[order]
    first, numbers = first_number(0, 7, 9), np.array([0, 7, 9])[order]
    here = episodes_of(gains(), SIGMA, SEEDS, first)
    there = episodes_of(gains(seeds), SIGMA, seeds, first_number(*numbers))
    run = steps_of(gains(), SIGMA, SEEDS, start_worlds(RANDOM_END, SEEDS, W))
    moved = steps_of(gains(seeds), SIGMA, seeds, start_worlds(RANDOM_END, seeds, W))
    for place, learner in enumerate(order):
        assert bits(there, place) == bits(here, learner)
        assert bits(moved, place) == bits(run, learner)


# --- worlds that go on -------------------------------------------------------------------


@pytest.fixture(scope="module")
def running():
    """Five batches of three learners' worlds."""
    worlds, batches = start_worlds(RANDOM_END, SEEDS, W), []
    for _ in range(5):
        worlds, *batch = steps_of(gains(), SIGMA, SEEDS, worlds)
        batches.append(jax.device_get(batch))
    return batches


def joined(running, learner: int) -> Transitions:
    """[W, 5 * STEPS, ...]: the batches of one learner behind each other."""
    parts = [rows(batch, learner, W) for batch, _ in running]
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1), *parts)


def test_running_worlds_go_on_across_batches(running):
    """Inside an episode the next row continues it, across batches too; after an end the
    final observation is kept and the next row is a fresh start."""
    for learner in range(3):
        b = joined(running, learner)
        ended = (b.terminated | b.truncated)[:, :-1]
        after, following = b.next_obs[:, :-1], b.obs[:, 1:]
        np.testing.assert_array_equal(after[~ended], following[~ended])
        assert (after[ended] != following[ended]).any(axis=1).all()
        assert (following[ended][:, 2] == 0).all(), "a reset starts at t = 0"
        np.testing.assert_array_equal(after[..., 2], b.obs[:, :-1, 2] + 1)
        assert b.mask.all()
        limit = b.obs[..., 2] == HORIZON - 1
        np.testing.assert_array_equal(b.truncated, limit & ~b.terminated)
        assert b.truncated.any()
        assert b.terminated.any()


def test_every_reset_draws_a_fresh_state(running):
    """As many distinct initial states as episodes begun, over worlds and learners."""
    starts, begun = set(), 0
    for learner in range(3):
        b = joined(running, learner)
        first = b.obs[b.obs[..., 2] == 0]
        starts |= {row.tobytes() for row in first}
        begun += len(first)
    assert begun > 3 * W * 3
    assert len(starts) == begun


def test_the_end_of_a_row_cuts_without_ending(running):
    """`last` is where an episode ended or the row did; the cut has neither flag."""
    cuts = 0
    for batch, _ in running:
        for learner in range(3):
            b = rows(batch, learner, W)
            ended = b.terminated | b.truncated
            expected = ended.copy()
            expected[:, -1] = True
            np.testing.assert_array_equal(b.last, expected)
            cuts += int((b.last & ~ended).sum())
    assert cuts > 0


def test_running_returns_cross_batches(running):
    """An episode that began in an earlier batch is counted whole where it ends."""
    for learner in range(3):
        b = joined(running, learner)
        for w in range(W):
            total, length, expected = 0.0, 0, []
            for reward, over in zip(
                b.reward[w], (b.terminated | b.truncated)[w], strict=True
            ):
                total, length = total + float(reward), length + 1
                if over:
                    expected.append((total, length))
                    total, length = 0.0, 0
            found = [
                (float(r), int(n))
                for _, f in running
                for r, n, e in zip(
                    f.returned[learner, w],
                    f.length[learner, w],
                    f.ended[learner, w],
                    strict=True,
                )
                if e
            ]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_noise_of_running_worlds_is_independent():
    """Across steps, batches, worlds and learners, through many episodes."""
    worlds, parts = start_worlds(RANDOM_END, SEEDS, W), []
    for _ in range(40):
        worlds, batch, _ = steps_of(jnp.zeros((3, 3, 2)), SIGMA / 3, SEEDS, worlds)
        parts.append(np.asarray(batch.action).reshape(3, W, STEPS, 2))
    noise = np.concatenate(parts, axis=2)
    pairs = {
        "steps": (noise[:, :, :-1], noise[:, :, 1:]),
        "batches": (noise[:, :, :-STEPS], noise[:, :, STEPS:]),
        "worlds": (noise[:, :-1], noise[:, 1:]),
        "learners": (noise[:-1], noise[1:]),
        "dimensions": (noise[..., 0], noise[..., 1]),
    }
    for name, (a, b) in pairs.items():
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(a.size), name
    assert len(np.unique(noise)) > 0.99 * noise.size


# --- evaluation --------------------------------------------------------------------------


def test_evaluation_plays_whole_episodes_on_states_of_its_own():
    """Returns and lengths of fixed episodes; the same every time, others for another
    evaluation, and never a state of training."""
    seen = []

    def play(evaluation):
        which = jnp.full(3, evaluation, jnp.int32)
        return jax.device_get(evaluation_of(gains(), SEEDS, which))

    returns, lengths, ended = play(0)
    again, other = play(0), play(1)
    assert returns.tobytes() == again[0].tobytes()
    assert len(np.unique(np.concatenate([returns, other[0]]))) == 2 * returns.size
    assert set(lengths.ravel()) <= set(range(1, HORIZON + 1))
    assert (lengths[~ended] == HORIZON).all()
    assert (lengths < HORIZON).any()
    number = jnp.arange(EPISODES)[None, :].repeat(3, 0)
    for stream in (Stream.TRAIN_RESET, Stream.EVAL_RESET, Stream.NOISE):
        keys = stream_keys(SEEDS, stream, number)
        seen += [np.asarray(jax.random.key_data(keys)).reshape(-1, 2)]
    assert len(np.unique(np.concatenate(seen), axis=0)) == 3 * 3 * EPISODES


def test_evaluation_adds_rewards_until_the_end():
    """Mountain car driven by the sign of its speed: -0.1 a step and 100 at the goal."""
    env = BUILT_IN["penfac/MountainCarContinuous-v0"]
    pump = lambda obs, keys, t: jnp.where(obs[..., 1:] < 0, -1.0, 1.0)  # noqa: E731
    play = jax.jit(
        lambda which: play_episodes(env, pump, SEEDS, Stream.EVAL_RESET, which, ALL, 5)
    )
    returns, lengths, ended = jax.device_get(play(first_number(0, 0, 0)))
    assert ended.all()
    assert (lengths < env.spec.horizon).all()
    np.testing.assert_allclose(returns, 100 - 0.1 * lengths, atol=1e-3)


# --- the program -------------------------------------------------------------------------


def loops(jaxpr):
    """Every while loop in a program, inner ones too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "while":
            yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from loops(inner)


def test_no_loop_over_time_is_batched():
    """The collector is one loop whose clock is a single number. Under vmap the clock
    would have a learner or world axis, and every world would pay for the longest."""
    program = jax.make_jaxpr(
        lambda: collect_episodes(
            RANDOM_END,
            linear_mu(gains()),
            around_mu(SIGMA),
            SEEDS,
            first_number(0, 0, 0),
            ALL,
            W,
        )
    )()
    over_time = [
        loop
        for loop in loops(program.jaxpr)
        if any(v.aval.shape[:3] == (HORIZON, 3, W) for v in loop.outvars)
    ]
    assert len(over_time) == 1
    (condition,) = over_time[0].params["cond_jaxpr"].jaxpr.outvars
    assert condition.aval.shape == ()
    clocks = [
        v
        for v in over_time[0].outvars
        if v.aval.dtype == jnp.int32 and v.aval.shape[:1] in ((), (3,), (W,))
    ]
    assert [v.aval.shape for v in clocks] == [()]
