"""The device engine: one program, a learner axis, and nobody reaches anybody else."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.engines.jobs import digest, finish, learn, make_job, never

from penfac.engines import device
from penfac.engines.base import Counters
from penfac.engines.compiled import compiler_options
from penfac.engines.device import DeviceEngine
from penfac.engines.programs import episodes_for
from penfac.envs.builtin import BUILT_IN
from penfac.envs.options import EnvOptions
from penfac.errors import Divergence, EnvironmentFault, OutOfMemory
from penfac.randomness import Stream
from penfac.rollout.device_step import stream_keys
from penfac.training.loop import Evaluated, Failed, Schedule, Updated

COMPILED: list[
    str
] = []  # an entry for each program that this process compiled or loaded
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: "backend_compile" in event and COMPILED.append(event)
)
ENV, SEEDS, STEPS = "penfac/LQR-v0", [5, 6, 7], 300  # three updates of 2 x 50 steps


def together(job, seeds) -> DeviceEngine:
    """All learners in one program, as on an accelerator."""
    engine = DeviceEngine(job, seeds, at_once=len(seeds))
    assert len(engine.groups) == 1
    return engine


def like(engine: DeviceEngine, seeds, at_once: int | None = None) -> DeviceEngine:
    """Another engine with the same job, its programs not compiled again."""
    return DeviceEngine(engine.job, seeds, at_once=at_once, compiled=engine.compiled)


@pytest.fixture(scope="module")
def trio():
    """Three learners of one program after three updates."""
    engine = together(make_job(ENV, steps=STEPS, sigma_end=0.1), SEEDS)
    events = finish(engine, 3, never(STEPS))
    return engine, events, [digest(engine, i) for i in range(3)]


@pytest.fixture(scope="module")
def single():
    """Three learners with a program of their own each, after three updates."""
    engine = DeviceEngine(make_job(ENV, steps=STEPS, sigma_end=0.1), SEEDS)
    finish(engine, 3, never(STEPS))
    return engine, [digest(engine, i) for i in range(3)]


# --- learners do not meet ----------------------------------------------------------------


def test_a_learner_that_diverges_stops_alone(trio):
    """Learner 0 of one program gets weights that overflow: it fails in its first update
    and keeps its state, the others keep every bit."""
    engine, _, undisturbed = trio
    other = like(engine, SEEDS, 3)
    arrays = other.snapshot(0)
    bad = {
        k: np.full_like(v, 1e30) if ".critic." in k else v for k, v in arrays.items()
    }
    assert any((bad[k] != arrays[k]).any() for k in bad)
    other.restore(0, bad)
    before = digest(other, 0)
    events = finish(other, 3, never(STEPS))
    (failure,) = [e for e in events if isinstance(e, Failed)]
    assert failure.learner == 0
    assert isinstance(failure.error, Divergence)
    assert "update 1" in str(failure.error)
    assert digest(other, 0) == before
    assert [digest(other, i) for i in (1, 2)] == undisturbed[1:]


def test_permuting_seeds_permutes_the_ends(trio):
    """A learner's row in the program does not reach its bits."""
    engine, _, ends = trio
    order = [2, 0, 1]
    other = like(engine, [SEEDS[k] for k in order], 3)
    finish(other, 3, never(STEPS))
    assert [digest(other, place) for place in range(3)] == [ends[k] for k in order]
    assert len(set(ends)) == 3


def test_one_program_and_many_agree(trio, single):
    """Three learners in one program and three alone: the same numbers to float32."""
    for i in range(3):
        one, other = trio[0].snapshot(i), single[0].snapshot(i)
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_allclose(
                one[key], other[key], rtol=1e-3, atol=1e-4, err_msg=key
            )


def test_seeds_together_end_as_each_alone(single):
    """On a CPU eight seeds are eight single runs, bit for bit."""
    engine, ends = single
    alone = like(engine, [SEEDS[2]])
    finish(alone, 1, never(STEPS))
    assert digest(alone, 0) == ends[2]


def test_a_learner_that_is_not_due_keeps_every_bit(trio):
    """Advancing learner 1 alone leaves the rows of the others as they were."""
    engine = like(trio[0], SEEDS, 3)
    before = [digest(engine, i) for i in range(3)]
    ((i, progress),) = engine.advance([(1, Counters())])
    assert i == 1
    assert progress.steps == 100
    after = [digest(engine, i) for i in range(3)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


# --- evaluation --------------------------------------------------------------------------


def test_evaluating_more_often_changes_no_bit_of_learning(single):
    engine, ends = single
    other = like(engine, SEEDS)
    finish(other, 3, Schedule(STEPS, 1, 1))
    assert [digest(other, i) for i in range(3)] == ends


def test_an_evaluation_leaves_everything_as_it_was(single):
    """It repeats its returns when fixed, and plays other states when not."""
    engine, ends = single

    def returns(number: int, fixed: bool) -> list[float]:
        due = [(0, Counters(evaluations=number))]
        ((_, played),) = engine.evaluate(due, 1, fixed)
        return played["mean"][0]

    assert returns(0, True) == returns(5, True) == returns(0, False)
    assert len({r for n in range(4) for r in returns(n, False)}) == 4
    assert digest(engine, 0) == ends[0]


def test_an_evaluation_is_an_episode_of_its_own_stream(single):
    """Played by hand from the state that (seed, EVAL_RESET, 0, 0) names, the policy earns
    what the engine says; from the state of training's first episode it does not."""
    engine, _ = single
    ((_, played),) = engine.evaluate([(0, Counters())], 1, True)
    returns, lengths, ended = played["mean"]
    policy, env = engine.policy(0), BUILT_IN[ENV]
    seed = jnp.asarray(engine.groups[0].seeds[:1])
    which = jnp.zeros((1, 1), jnp.uint32)
    keys = stream_keys(seed, Stream.EVAL_RESET, which, which)[0, 0]
    state, total = env.reset(jax.random.split(keys)[0]), 0.0
    trained = env.reset(stream_keys(seed, Stream.TRAIN_RESET, which)[0, 0])
    assert np.abs(state - trained).max() > 1e-3
    for _ in range(env.spec.horizon):
        outcome = env.step(state, policy(env.observe(state)), keys)
        state, total = outcome.state, total + float(outcome.reward)
    assert returns[0] == pytest.approx(total, rel=1e-4)
    assert (lengths, ended) == ([env.spec.horizon], [False])


def test_the_policy_and_the_program_act_alike(single):
    """mu inside the program and the policy in numpy agree on any observation."""
    engine, _ = single
    obs = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    group = engine.groups[0]
    state = jax.tree.map(jnp.asarray, group.state(0))
    numbers = group.numbers[0]
    inside = engine.job.algo.mu(state, jnp.asarray(obs), engine.plan, numbers)
    bound = BUILT_IN[ENV].spec.action_high
    np.testing.assert_allclose(engine.policy(0)(obs), inside * bound, atol=1e-5)


# --- counting ----------------------------------------------------------------------------


def test_progress_says_what_was_played(trio):
    """Steps, lengths and sigma on its line, for every learner; Python's numbers."""
    _, events, _ = trio
    for learner in range(3):
        updates = [
            e.progress
            for e in events
            if isinstance(e, Updated) and e.learner == learner
        ]
        assert len(updates) == 3
        for k, progress in enumerate(updates):
            assert progress.steps == 100
            assert progress.stats.lengths == [50, 50]
            assert len(set(progress.stats.returns)) == 2
            assert progress.next_episode == 2 * (k + 1)
            assert progress.sigma == pytest.approx(
                0.2 - 0.1 * 100 * k / STEPS, rel=1e-5
            )
            assert type(progress.steps) is type(progress.next_episode) is int
    points = [
        e.point.step for e in events if isinstance(e, Evaluated) and e.learner == 0
    ]
    assert points == [0, STEPS]


def test_a_program_is_compiled_once(trio):
    """Once every program has run, further learners of the same shape compile nothing."""
    engine, _, _ = trio
    finish(like(engine, SEEDS, 3), 3, never(STEPS))
    before = len(COMPILED)
    finish(like(engine, SEEDS, 3), 3, never(STEPS))
    assert before > 0
    assert len(COMPILED) == before


def test_learners_begin_one_after_the_other_on_a_cpu(trio):
    """Two batches of matrices that two threads of jaxlib factor at once may wait for each
    other forever: sixty learners of one program did, once in some twenty starts."""
    engine, _, _ = trio
    text = engine.compiled.begin.lower(engine.groups[0].inputs).as_text()
    shapes = re.findall(r"lapack_sgeqrf_ffi.*?: \(tensor<([0-9x]+)f32>", text)
    assert shapes
    assert all(shape.count("x") == 2 for shape in shapes), shapes


def test_what_a_gpu_is_told_is_known_to_this_jaxlib():
    options = compiler_options("gpu")
    assert options
    assert min(options.values()) > 0
    assert jax.jit(jnp.negative, compiler_options=options)(1.0) == -1.0
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option"):
        jax.jit(jnp.negative, compiler_options={"xla_gpu_nonsense": 1})(1.0)
    assert compiler_options("cpu") is None


def test_counters_beyond_32_bits(single):
    """Past 2**31 episodes a learner goes on; its episodes are none of the first ones."""
    engine, _ = single
    other = like(engine, [5])
    start = 2**31 - 2
    counters = [Counters(update=start, step=start, episode=start, evaluations=start)]
    returns = []
    for event, _ in learn(
        other, 1, Schedule(start + STEPS, 100, 1, "episodes"), counters
    ):
        if isinstance(event, Updated):
            returns += event.progress.stats.returns
    assert counters[0].step == start + STEPS
    assert counters[0].episode == start + 6
    assert all(type(v) is int for v in vars(counters[0]).values())
    assert len(set(returns)) == 6


def test_the_floor_in_steps_counts_whole_time_limits():
    """At least so many episodes, and at least so many steps if none ends early."""
    env = BUILT_IN[ENV]
    for episodes, floor, expected in (
        (4, 1, 4),
        (4, 1000, 20),
        (4, 1001, 21),
        (30, 1000, 30),
    ):
        job = make_job(ENV, episodes_per_update=episodes, min_steps_per_update=floor)
        assert episodes_for(job.collecting, env) == expected


def test_a_time_limit_of_one_s_own_reaches_the_program():
    job = make_job(ENV)._replace(options=EnvOptions(max_episode_steps=13))
    assert DeviceEngine(job, [0]).env.spec.horizon == 13


# --- worlds that go on -------------------------------------------------------------------


def test_running_worlds_resume_bit_for_bit():
    """States and worlds in mid-episode, restored into another engine, end the same."""
    job = make_job(ENV, steps=400, collect="steps", worlds=2, steps_per_world=30)
    engine, stopped = DeviceEngine(job, [5]), None
    for event, counters in learn(engine, 1, never(400)):
        if isinstance(event, Updated) and counters[0].update == 3:
            stopped = engine.snapshot(0), Counters(**vars(counters[0]))
    assert stopped is not None
    arrays, counters = stopped
    assert (arrays["worlds.t"] == 90 % 50).all()
    other = like(engine, [5])
    other.restore(0, arrays)
    for _ in learn(other, 1, never(400), [counters]):
        pass
    assert digest(other, 0) == digest(engine, 0)


# --- worlds that break -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [0, 10**6])
def test_a_world_that_breaks_is_a_fault(monkeypatch, restarts):
    """It ends the run as an environment fault that names the world, unless restarts were
    allowed: then it is counted and learning goes on."""
    env = BUILT_IN[ENV]

    def step(state, action, key):
        outcome = env.step(state, action, key)
        return outcome._replace(broken=jax.random.bernoulli(key, 0.02))

    monkeypatch.setitem(BUILT_IN, ENV, env._replace(step=step))
    job = make_job(
        ENV, steps=400, collect="steps", steps_per_world=50, job={"restarts": restarts}
    )
    engine = DeviceEngine(job, [1])
    ((_, got),) = engine.advance([(0, Counters(faults=3))])
    if restarts:
        assert not isinstance(got, Exception)
        assert got.faults > 3
        assert got.steps == 2 * 50 - (got.faults - 3)
    else:
        assert isinstance(got, EnvironmentFault)
        assert "world" in str(got)
    ((_, played),) = engine.evaluate([(0, Counters())], 20, True)
    assert isinstance(played, EnvironmentFault)


def test_what_a_program_loses_is_not_begun_again():
    """A program that fails has taken the learners with it: nobody may save fresh ones in
    their place."""
    engine = DeviceEngine(make_job(ENV), [5])
    list(engine.advance([(0, Counters())]))

    def fails(*_):
        raise MemoryError

    engine.compiled = engine.compiled._replace(advance=fails)
    with pytest.raises(MemoryError):
        list(engine.advance([(0, Counters(update=1, step=100, episode=2))]))
    with pytest.raises(RuntimeError, match="lost"):
        engine.snapshot(0)


@pytest.mark.parametrize(
    ("learners", "advice"),
    [(5, "5 learners at once: .*; --slice 2 runs 2 at a time"), (1, "fewer worlds")],
)
def test_too_little_memory_is_an_error_that_says_what_helps(
    monkeypatch, learners, advice
):
    """Exit code 8, the number of learners, and half of them as the next thing to try."""

    def fails(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(device, "programs_are_kept", lambda: False)
    engine = together(make_job(ENV), range(learners))
    engine.compiled = engine.compiled._replace(advance=fails)
    with pytest.raises(OutOfMemory, match=advice) as refused:
        list(engine.advance([(0, Counters())]))
    assert refused.value.exit_code == 8
    assert ("--slice" in str(refused.value)) == (learners > 1)
