"""One program for many learners: nobody reaches anybody else, a learner's place in it does
not matter, no loop over time is vmapped, and every episode begins where no other did."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr
from tests.engines.jobs import digest, finish, make_job, never
from tests.engines.turns import sharing, turn

from penfac.algos import ALGORITHMS
from penfac.core.noise import Exploration
from penfac.engines.base import Counters, Job
from penfac.engines.device import DeviceEngine
from penfac.envs.builtin import BUILT_IN
from penfac.envs.options import EnvOptions
from penfac.errors import Divergence
from penfac.randomness import Stream
from penfac.rollout.device import collect_episodes
from penfac.rollout.device_step import Noise, stream_keys
from penfac.training.loop import Evaluated, Failed, Updated

ENV, SEEDS, HORIZON, STEPS = "penfac/LQR-v0", [5, 6, 7], 5, 30
MAD = 666  # a seed whose worlds are not of this world
both = pytest.mark.parametrize("collect", ["episodes", "steps"])


def mad_keys() -> np.ndarray:
    """Every key that the first resets of seed MAD can have, in either collector."""
    seed, number = jnp.array([MAD], jnp.uint32), jnp.arange(6)[None]
    whole = stream_keys(seed, Stream.TRAIN_RESET, number)
    going = [
        stream_keys(seed, Stream.TRAIN_RESET, number, 0 * number + e) for e in (0, 1)
    ]
    keys = [jax.random.key_data(k).reshape(-1, 2) for k in (whole, *going)]
    return np.concatenate(keys)


def sometimes_mad():
    """The LQR; worlds of seed MAD begin far out, stay there, and pay NaN."""
    env, keys = BUILT_IN[ENV], mad_keys()

    def reset(key):
        mad = jnp.any(jnp.all(jax.random.key_data(key) == keys, axis=-1))
        return jnp.where(mad, 1e30, env.reset(key))

    def step(state, action, key):
        outcome, mad = env.step(state, action, key), jnp.any(jnp.abs(state) > 1e20)
        return outcome._replace(
            state=jnp.where(mad, 1e30, outcome.state),
            reward=jnp.where(mad, jnp.nan, outcome.reward),
        )

    return env._replace(reset=reset, step=step)


def three_arms(collect: str) -> tuple[Job, list]:
    """Short episodes, two of them or seven steps of two worlds; an arm for each seed."""
    sizes = {"episodes_per_update": 2, "worlds": 2, "steps_per_world": 7}
    job = make_job(ENV, steps=STEPS, collect=collect, **sizes)
    job = job._replace(options=EnvOptions(max_episode_steps=HORIZON))
    different = ({}, {"gamma": 0.5, "sigma": 0.4}, {"actor_update": "spg", "lam": 0.0})
    return job, [dataclasses.replace(job.cfg, **own) for own in different]


@pytest.fixture(scope="module")
def trios():
    """Three arms in one program, after three updates, for each collector."""
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BUILT_IN, ENV, sometimes_mad())
        for collect in ("episodes", "steps"):
            job, configs = three_arms(collect)
            engine = DeviceEngine(job, SEEDS, configs, at_once=3)
            events = finish(engine, 3, never(STEPS))
            assert not any(isinstance(e, Failed) for e in events)
            made[collect] = engine, events, [digest(engine, i) for i in range(3)]
        yield made


def again(engine: DeviceEngine, seeds, configs) -> DeviceEngine:
    """Other learners in the same compiled programs."""
    return sharing(engine, seeds, configs, at_once=3)


def told(events, learner: int) -> list:
    """What was said of one learner, wall clock aside."""
    return [
        e._replace(progress=e.progress._replace(seconds={}), learner=0)
        if isinstance(e, Updated)
        else e._replace(learner=0)
        for e in events
        if isinstance(e, Updated | Evaluated) and e.learner == learner
    ]


# --- learners do not meet ----------------------------------------------------------------


@pytest.mark.slow
@both
def test_a_learner_whose_worlds_are_spoiled_stops_alone(trios, collect):
    """The worlds of learner 1 pay NaN and stand at 1e30: it diverges in its first update
    and keeps what it had; of learners 0 and 2 every bit, every metric and every
    evaluation is as if it had been well."""
    engine, events, ends = trios[collect]
    configs = [job.cfg for job in engine.jobs]
    other = again(engine, [SEEDS[0], MAD, SEEDS[2]], configs)
    before = digest(other, 1)
    spoiled = finish(other, 3, never(STEPS))
    (failure,) = [e for e in spoiled if isinstance(e, Failed)]
    assert failure.learner == 1
    assert isinstance(failure.error, Divergence)
    assert "update 1" in str(failure.error)
    assert digest(other, 1) == before
    assert not any(isinstance(e, Updated) and e.learner == 1 for e in spoiled)
    for i in (0, 2):
        assert digest(other, i) == ends[i]
        assert told(spoiled, i) == told(events, i)
        assert len(told(spoiled, i)) == 3 + 2


@pytest.mark.slow
@both
def test_permuting_arms_and_seeds_permutes_the_ends(trios, collect):
    """(arm, seed) pairs in every other order: the same bits in that order."""
    engine, events, ends = trios[collect]
    configs = [job.cfg for job in engine.jobs]
    assert len(set(ends)) == 3
    for order in list(itertools.permutations(range(3)))[1::2]:
        other = again(engine, [SEEDS[k] for k in order], [configs[k] for k in order])
        moved = finish(other, 3, never(STEPS))
        assert [digest(other, i) for i in range(3)] == [ends[k] for k in order]
        for place, k in enumerate(order):
            assert told(moved, place) == told(events, k)


@pytest.mark.slow
def test_the_arm_and_the_seed_both_count(trios):
    """The same seeds with the arms exchanged are other learners; each explores as widely
    as its own arm says."""
    engine, events, ends = trios["episodes"]
    configs = [job.cfg for job in engine.jobs]
    other = again(engine, SEEDS, configs[::-1])
    finish(other, 3, never(STEPS))
    assert digest(other, 1) == ends[1]
    assert digest(other, 0) not in ends
    assert digest(other, 2) not in ends
    widths = {(e.learner, e.progress.sigma) for e in events if isinstance(e, Updated)}
    assert [(i, round(sigma, 6)) for i, sigma in sorted(widths)] == [
        (0, 0.2),
        (1, 0.4),
        (2, 0.2),
    ]


# --- loops over time ---------------------------------------------------------------------

L, W = 7, 11  # no other axis has these lengths
CAR = "penfac/MountainCarContinuous-v0"  # whose episodes end at different times
WORLDS = (L, W, 2)  # states of it


def inner(eqn) -> list:
    """The programs inside an instruction: the body of a loop, the branches of a choice."""
    found = []
    for parameter in eqn.params.values():
        for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
            if isinstance(item, ClosedJaxpr):
                found.append(item.jaxpr)
            elif isinstance(item, Jaxpr):
                found.append(item)
    return found


def loops(jaxpr, above=()):
    """Every loop of a program that carries states of worlds, what it stands in, and the
    shapes of whatever it carries that has no [L, W] axes."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "while":
            first = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
            carry = eqn.invars[first:]
        elif name == "scan":
            (body,) = inner(eqn)  # what it collects has the axis of time in front
            pairs = zip(eqn.outvars, body.outvars, strict=True)
            carry = [v for v, one in pairs if v.aval.shape == one.aval.shape]
        else:
            carry = []
        shapes = [tuple(n for n in v.aval.shape if n > 1) for v in carry]
        if WORLDS in shapes:
            rest = [shape for shape in shapes if (L, W) not in (shape[:2], shape[1:3])]
            yield eqn, above, rest
        for body in inner(eqn):
            yield from loops(body, (*above, name))


def stops_for_all(eqn, rest: list) -> bool:
    """A `while` of all learners together counts time in one scalar; vmapped, its counter
    and whatever else it carries has a learner axis, and it selects row by row."""
    return rest == [()] and not any(
        v.aval.shape == (L,)
        for e in eqn.params["cond_jaxpr"].jaxpr.eqns
        for v in e.invars
    )


def looped(collect: str, evaluation: bool = False):
    """The loops over time of the program that is compiled; `online` is a collector too."""
    own = {"actor_hidden": (4,), "critic_hidden": (4,), "worlds": W}
    if collect == "online":
        algorithm, own = ALGORITHMS["cacla"], own | {"rounds": 19}
    else:
        algorithm, sizes = ALGORITHMS["penfac"], {"episodes_per_update": W}
        sizes |= {"min_steps_per_update": 1, "steps_per_world": 13}
        own |= sizes | {"collect": collect}
    cfg = algorithm.config(**own)
    options = EnvOptions(max_episode_steps=17)
    engine = DeviceEngine(Job(algorithm, cfg, CAR, options, 1000), range(L), at_once=L)
    group, programs = engine.groups[0], engine.programs
    learners = jax.eval_shape(programs.begin, group.inputs)
    clock = engine.clock(group, {})
    if not evaluation:
        made = jax.make_jaxpr(programs.advance)(learners, group.inputs, clock)
    else:
        args = (clock.first, clock.first, clock.sigma, clock.active)
        play = lambda *args: programs.evaluate(*args, W, "mean")  # noqa: E731
        made = jax.make_jaxpr(play)(learners.state, group.inputs, *args)
    return list(loops(made.jaxpr))


def test_whole_episodes_are_one_loop_with_one_condition():
    """All worlds of all learners in one `while` that stands in no other loop."""
    ((eqn, above, rest),) = looped("episodes")
    assert eqn.primitive.name == "while"
    assert stops_for_all(eqn, rest)
    assert not {"while", "scan", "cond"} & set(above)


def test_running_worlds_are_one_loop_without_a_condition():
    """All worlds of all learners in one `scan`, as long as a batch, in no other loop; of an
    online algorithm in one more, of rounds."""
    ((eqn, above, rest),) = looped("steps")
    assert (eqn.primitive.name, eqn.params["length"]) == ("scan", 13)
    assert rest == []
    assert not {"while", "scan", "cond"} & set(above)
    (rounds, top, _), (eqn, above, rest) = looped("online")
    assert (rounds.primitive.name, rounds.params["length"]) == ("scan", 19)
    assert (eqn.primitive.name, eqn.params["length"]) == ("scan", 1)
    assert rest == []
    assert not {"while", "scan", "cond"} & set(top)
    assert [name for name in above if name in ("while", "scan", "cond")] == ["scan"]


@both
def test_an_evaluation_is_one_loop_with_one_condition(collect):
    ((eqn, above, rest),) = looped(collect, evaluation=True)
    assert eqn.primitive.name == "while"
    assert stops_for_all(eqn, rest)
    assert not {"while", "scan", "cond"} & set(above)


def test_a_vmapped_loop_would_be_found():
    """The same collector for one learner, vmapped, is not what the tests above accept."""
    env, how = BUILT_IN[CAR], Exploration("truncated")
    env = env._replace(spec=env.spec._replace(horizon=17))

    def collect(seeds, first):
        noise = Noise(how, jnp.full(len(seeds), 0.1), jnp.zeros(len(seeds), bool))
        mu = lambda obs: 0.1 * obs[..., :1]  # noqa: E731
        every = jnp.ones(len(seeds), bool)
        return collect_episodes(env, mu, noise, seeds, first, every, W)

    def vmapped(seeds, first):
        one = lambda seed, first: collect(seed[None], first[None])  # noqa: E731
        rows = jax.vmap(one)(seeds, first)
        return jax.tree.map(lambda x: x[:, 0], rows)

    given = jnp.zeros(L, jnp.uint32), jnp.zeros(L, jnp.uint32)
    ((eqn, _, rest),) = loops(jax.make_jaxpr(collect)(*given).jaxpr)
    assert stops_for_all(eqn, rest)
    ((eqn, _, rest),) = loops(jax.make_jaxpr(vmapped)(*given).jaxpr)
    assert not stops_for_all(eqn, rest)


# --- episodes ----------------------------------------------------------------------------


@pytest.mark.slow
@both
def test_every_episode_begins_where_no_other_did(trios, collect):
    """Four updates of three learners, two worlds each, a time limit of five: as many
    initial observations as episodes begun, and no two are alike."""
    engine = trios[collect][0]
    engine = again(engine, SEEDS, [job.cfg for job in engine.jobs])
    group = engine.groups[0]
    gather = jax.jit(lambda *given: engine.programs._collect(*given, 0))
    counters, starts, ended = [Counters() for _ in SEEDS], [], 0
    for _ in range(4):
        clock = engine.clock(group, dict(enumerate(enumerate(counters))))
        learners = group.learners
        begins = np.zeros((3, 2), int)
        if collect == "steps":
            begins = np.asarray(learners.worlds.t)
        _, batch, _ = jax.device_get(gather(learners, group.inputs, clock))
        rows = jax.tree.map(lambda x: x.reshape(3, 2, -1, *x.shape[2:]), batch)
        first = np.roll(rows.terminated | rows.truncated, 1, axis=2)
        first[:, :, 0] = begins == 0
        starts += [obs.tobytes() for obs in rows.obs[first & rows.mask]]
        played = turn(engine, counters)  # the program collects the same
        ended += sum(len(progress.stats.returns) for progress in played)
        assert {p.steps for p in played} == {int(rows.mask[0].sum())}
        for i, progress in enumerate(played):
            own = rows.reward[i][(rows.terminated | rows.truncated)[i]]
            assert len(progress.stats.returns) == len(own)
    going = 0 if collect == "episodes" else int((group.learners.worlds.t > 0).sum())
    assert len(starts) == ended + going >= 24
    assert len(set(starts)) == len(starts)
