"""The host engine: learners that never meet, and few compilations."""

import jax
import numpy as np
import pytest
from tests.engines.jobs import digest, finish, learn, make_job, never
from tests.rollout.worlds import UNEVEN, WANDERER

from penfac.algos.penfac import Metrics
from penfac.engines.base import Counters
from penfac.engines.host import HostEngine
from penfac.errors import Divergence
from penfac.randomness import Stream, env_seed
from penfac.rollout.padding import padded_length
from penfac.training.loop import Evaluated, Failed, Schedule, Updated

SEEDS, STEPS = [0, 1, 2], 240  # three updates of two episodes of forty steps


@pytest.fixture(scope="module")
def host():
    """One engine of three learners and where they began; compiled once, used again."""
    engine = HostEngine(make_job(WANDERER, steps=STEPS, sigma_end=0.1), SEEDS)
    return engine, [engine.snapshot(i) for i in range(3)]


@pytest.fixture
def engine(host):
    """The learners as they were at the start."""
    engine, began = host
    for i, arrays in enumerate(began):
        engine.restore(i, arrays)
    return engine


def spoiled(arrays: dict) -> dict:
    """Finite weights so large that no update stays finite."""
    return {
        k: np.full_like(v, 1e30) if ".critic." in k or k.endswith("critic") else v
        for k, v in arrays.items()
    }


def test_a_learner_that_diverges_stops_alone(engine):
    """Learner 0 gets weights that overflow: it fails in its first update, keeps the state
    it had, and learners 1 and 2 end with the bits they have without it."""
    finish(engine, 3, never(STEPS))
    undisturbed = [digest(engine, i) for i in range(3)]
    other = HostEngine(engine.job, SEEDS, engine.compiled)
    bad = spoiled(other.snapshot(0))
    other.restore(0, bad)
    before = digest(other, 0)
    events = finish(other, 3, never(STEPS))
    (failure,) = [e for e in events if isinstance(e, Failed)]
    assert failure.learner == 0
    assert isinstance(failure.error, Divergence)
    assert "update 1" in str(failure.error)
    assert digest(other, 0) == before
    assert [digest(other, i) for i in (1, 2)] == undisturbed[1:]
    assert sum(isinstance(e, Updated) and e.learner > 0 for e in events) == 6


def test_seeds_together_end_as_each_alone(engine):
    """Three seeds in one engine have the bits of three engines, in any order."""
    finish(engine, 3, never(STEPS))
    alone = HostEngine(engine.job, [2, 0], engine.compiled)
    finish(alone, 2, never(STEPS))
    assert [digest(alone, 0), digest(alone, 1)] == [
        digest(engine, 2),
        digest(engine, 0),
    ]
    assert len({digest(engine, i) for i in range(3)}) == 3


def test_robots_in_lock_step_learn_as_each_alone():
    """Worlds of three learners in one call of the C engine: the same bits as apart."""
    job = make_job("RoboschoolHopper-v2", steps=200, min_steps_per_update=60)
    engine = HostEngine(job, SEEDS)
    finish(engine, 3, Schedule(200, 100, 2))
    for i, seed in enumerate(SEEDS):
        alone = HostEngine(job, [seed], engine.compiled)
        finish(alone, 1, never(200))
        assert digest(alone, 0) == digest(engine, i)


def test_evaluating_more_often_changes_no_bit_of_learning(engine):
    """The state after three updates does not depend on the schedule of evaluations."""
    ends = []
    began = [engine.snapshot(i) for i in range(3)]
    for schedule in (
        never(STEPS),
        Schedule(STEPS, 1, 3),
        Schedule(STEPS, 2, 1, "episodes"),
    ):
        for i, arrays in enumerate(began):
            engine.restore(i, arrays)
        finish(engine, 3, schedule)
        ends.append([digest(engine, i) for i in range(3)])
    assert ends[0] == ends[1] == ends[2]


def test_an_evaluation_leaves_everything_as_it_was(engine):
    """Weights, statistics and counters of exploration are untouched; fixed evaluations
    repeat their returns to the bit, changing ones do not."""
    before = digest(engine, 0)

    def returns(number: int, fixed: bool) -> list[float]:
        due = [(0, Counters(evaluations=number))]
        ((_, played),) = engine.evaluate(due, 4, fixed)
        return played["mean"][0]

    assert returns(0, True) == returns(5, True) == returns(0, False)
    assert len(set(returns(0, False) + returns(1, False) + returns(2, False))) == 12
    assert digest(engine, 0) == before


def test_progress_says_what_was_played(engine):
    """Steps, episodes, sigma and stats of each update; counters are Python's integers."""
    updates = [
        (event.progress, vars(counters[0]).copy())
        for event, counters in learn(engine, 1, never(STEPS))
        if isinstance(event, Updated)
    ]
    assert len(updates) == 3
    for k, (progress, counters) in enumerate(updates):
        assert progress.steps == 80
        assert progress.stats.lengths == [40, 40]
        assert counters["step"] == 80 * (k + 1)
        assert counters["episode"] == 2 * (k + 1)
        expected = 0.2 - 0.1 * (80 * k) / STEPS
        assert progress.sigma == pytest.approx(expected, rel=1e-6)
        assert all(type(v) is int for v in counters.values())
        assert all(type(v) in (int, float) for v in progress.metrics.values())
        assert "finite" not in progress.metrics


def test_counters_beyond_32_bits(engine):
    """Past 2**31 episodes and steps a learner goes on, with noise of its own."""
    start = 2**31 - 2
    counters = [Counters(update=start, step=start, episode=start)]
    for _ in learn(engine, 1, never(start + 160), counters):
        pass
    assert counters[0].step == start + 160
    assert counters[0].episode == start + 4
    there = digest(engine, 0)
    began = HostEngine(engine.job, SEEDS, engine.compiled)
    for _ in learn(began, 1, never(160)):
        pass
    assert digest(began, 0) != there


def cheap_update(state, batch, plan, numbers, now):
    """An update that only looks at how long its batch is."""
    zero = jax.numpy.zeros(())
    steps = jax.numpy.sum(batch.mask)
    values = dict.fromkeys(Metrics._fields, zero)
    values |= {"actor_steps": steps, "finite": jax.numpy.bool_(True)}
    metrics = Metrics(**values)
    return state, metrics


def test_an_update_is_compiled_once_for_each_padded_length():
    """Episodes of any length up to 250: as many programs as padded lengths, each named in
    the log once; every real step reaches the update and no padding does."""
    notes = []
    job = make_job(
        UNEVEN, steps=5000, episodes_per_update=1, job={"note": notes.append}
    )
    job = job._replace(algo=job.algo._replace(update=cheap_update))
    engine = HostEngine(job, [0, 1])
    events = finish(engine, 2, never(5000))
    played = [e.progress for e in events if isinstance(e, Updated)]
    lengths = {p.steps for p in played}
    padded = {padded_length(n) for n in lengths}
    assert set(engine.compiled) == padded
    assert len(notes) == len(padded) <= 9 < len(lengths)
    assert all(p.metrics["actor_steps"] == p.steps for p in played)
    engine.close()


@pytest.mark.parametrize("env_id", [WANDERER, "RoboschoolHopper-v2"])
def test_running_worlds_resume_bit_for_bit(env_id):
    """A snapshot between two updates, restored into another engine, ends with the same
    bits; worlds are in mid-episode then."""
    job = make_job(env_id, steps=400, collect="steps", steps_per_world=30)
    engine = HostEngine(job, [5])
    stopped = None
    for event, counters in learn(engine, 1, never(400)):
        if isinstance(event, Updated) and counters[0].update == 3:
            stopped = engine.snapshot(0), Counters(**vars(counters[0]))
    assert stopped is not None
    arrays, counters = stopped
    other = HostEngine(job, [5], engine.compiled)
    other.restore(0, arrays)
    played = other.players[0].length
    assert ((played > 0) & (played < 40)).all()
    for _ in learn(other, 1, never(400), [counters]):
        pass
    assert digest(other, 0) == digest(engine, 0)


def test_the_policy_is_what_evaluation_plays(engine):
    """The policy handed out earns, in a loop of one's own, what an evaluation says."""
    finish(engine, 3, never(STEPS))
    ((_, played),) = engine.evaluate([(0, Counters())], 3, True)
    returns, lengths, _ = played["mean"]
    policy, evaluator = engine.policy(0), engine.evaluator
    for k in range(3):
        world = evaluator.worlds.worlds[k]
        obs, total, over, n = (
            world.reset(env_seed(0, Stream.EVAL_RESET, 0, k)),
            0.0,
            False,
            0,
        )
        while not over:
            obs, reward, terminated, truncated, _ = world.step(policy(obs))
            total, n, over = total + reward, n + 1, terminated or truncated
        assert n == lengths[k]
        assert total == pytest.approx(returns[k], rel=1e-5)


def test_evaluated_points_carry_the_returns(engine):
    events = finish(engine, 3, Schedule(STEPS, 80, 2))
    points = [e.point for e in events if isinstance(e, Evaluated) and e.learner == 1]
    assert [p.step for p in points] == [0, 80, 160, 240]
    assert all(p.lengths == [40, 40] and p.terminated == [False, False] for p in points)


@pytest.mark.parametrize(
    ("env", "gamma"), [("Hopper-v5", 0.9927), ("HalfCheetah-v5", 0.985)]
)
def test_gamma_follows_the_time_step_and_the_log_says_so(env, gamma):
    """... where the config leaves it open; one that is given stays."""
    job = make_job(env, gamma=None)
    engine = HostEngine(job, [0])
    assert float(engine.numbers.gamma) == pytest.approx(gamma, abs=1e-4)
    assert job.settled_text(engine.spec) == f"; gamma = {gamma} here"
    engine.close()
    given = make_job(env, gamma=0.5)
    engine = HostEngine(given, [0])
    assert (float(engine.numbers.gamma), given.settled_text(engine.spec)) == (0.5, "")
    engine.close()
