"""Arms: learners of one program may differ in every number of their config; what shapes a
program makes engines of their own; and nobody can tell either from the results."""

import dataclasses
import typing

import jax
import numpy as np
import pytest
from tests.engines.jobs import digest, finish, make_job, never
from tests.engines.turns import distance, sharing, turn, turns
from tests.full_batch import FULL_BATCH
from tests.rollout.worlds import WANDERER

from penfac.algos import ALGORITHMS
from penfac.engines import device
from penfac.engines.base import Counters, Job
from penfac.engines.build import build_engine
from penfac.engines.device import DeviceEngine
from penfac.engines.host import HostEngine
from penfac.engines.plans import program_shapes
from penfac.engines.several import Several
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError
from penfac.settings import presets
from penfac.settings.configs import check
from penfac.settings.declaration import known_fields
from penfac.training.loop import Evaluated
from penfac.training.request import Request, resolve

ENV, SEEDS, UPDATES = "penfac/LQR-v0", (0, 1), 3
# of the preset's sizes, and steps so long that three updates tell the arms apart
SHORT = {
    "actor_hidden": (4,),
    "critic_hidden": (4,),
    "actor_steps": 5,
    "episodes_per_update": 2,
    "actor_lr": 0.01,
    "critic_lr": 0.1,
    "beta_start": 1.0,
}


def ablation() -> tuple[list[str], list[int], list]:
    """Name, seed and config of the fourteen learners of Figure 4, arm by arm."""
    arms = presets.arms("ablation")
    resolved = resolve(
        Request(ENV, preset="authors", settings=SHORT, arms=arms, distinct=True)
    )
    rows = [
        (arm, seed, cfg) for arm, cfg in (resolved.arms or {}).items() for seed in SEEDS
    ]
    names, seeds, configs = zip(*rows, strict=True)
    return list(names), list(seeds), list(configs)


ARMS, ARM_SEEDS, CONFIGS = ablation()
JOB = Job(ALGORITHMS["penfac"], CONFIGS[0], ENV, EnvOptions(), 300)
WITHOUT = "no-batch-norm"  # the one arm whose plan alone is another than with the rest
ALL = range(14)


def alone(i: int) -> DeviceEngine:
    """Learner i, and it knows of no other arm."""
    job = JOB._replace(cfg=CONFIGS[i])
    return DeviceEngine(job, [ARM_SEEDS[i]], at_once=1)


class Fourteen(typing.NamedTuple):
    """All of them in one program."""

    engine: DeviceEngine
    traced: list  # an entry for each time that an update was traced
    after: list  # their snapshots after each update


@pytest.fixture(scope="module")
def fourteen():
    traced = []

    def counted(*args):
        traced.append(args)
        return JOB.algo.update(*args)

    job = JOB._replace(algo=JOB.algo._replace(update=counted))
    engine = build_engine(job, "device", ARM_SEEDS, CONFIGS, at_once=14)
    counters, after = [Counters() for _ in ALL], []
    for _ in range(UPDATES):
        turn(engine, counters)
        after.append([engine.snapshot(i) for i in ALL])
    return Fourteen(engine, traced, after)


@pytest.fixture(scope="module")
def lone():
    """Learner i alone, not begun; programs are compiled once for each of the two plans."""
    first = {}

    def engine(i: int) -> DeviceEngine:
        made = alone(i)
        return sharing(first.setdefault(made.plan, made), [ARM_SEEDS[i]], job=made.job)

    return engine


# --- one program -------------------------------------------------------------------------


@pytest.mark.slow
def test_the_ablation_is_one_program(fourteen):
    """Seven arms of two seeds: one engine, an update traced once and compiled once."""
    engine, traced, _ = fourteen
    assert len(set(CONFIGS)) == 7
    assert isinstance(engine, DeviceEngine)
    assert [group.size for group in engine.groups] == [14]
    assert len(traced) == 1
    assert engine.compiled.advance._cache_size() == 1


@pytest.mark.slow
def test_an_arm_among_others_is_the_arm_alone(fourteen, lone):
    """Each of fourteen learners and a run of its config alone, whose program has L = 1
    and, for the arm without batch norm, another plan: 1.1e-5 apart after one update and
    4e-4 after three of large steps, in units of each array's largest number. Two arms
    with the same seed are 0.6 apart and more."""
    for i in ALL:
        # room for batch norm that is off: its statistics are kept, and nobody reads them
        unread = "batch_stats" if ARMS[i] == WITHOUT else "nothing"
        engine, counters = lone(i), [Counters()]
        apart = []
        for k in range(UPDATES):
            turn(engine, counters)
            here, there = fourteen.after[k][i], engine.snapshot(0)
            apart.append(distance(here, there, unread))
        assert apart[0] < 1e-4, ARMS[i]
        assert apart[-1] < 2e-3, ARMS[i]
    ends = [
        {k: v for k, v in arrays.items() if ".actor.layers" in k}
        for arrays in fourteen.after[-1]
    ]
    for i in ALL:
        for j in ALL:
            if ARM_SEEDS[i] == ARM_SEEDS[j] and i != j:
                assert distance(ends[i], ends[j]) > 0.2, (ARMS[i], ARMS[j])


@pytest.mark.slow
def test_one_at_a_time_an_arm_has_the_bits_of_a_run_alone(lone, monkeypatch):
    """at_once = 1: a group for each learner. Those with batch norm end with every bit of
    their run alone; the one without, whose own plan has no room for it, with every bit of
    a run alone that has."""
    chosen = ALL[::2]  # one seed of each arm
    engine = DeviceEngine(JOB, [0] * 7, [CONFIGS[i] for i in chosen], at_once=1)
    assert [group.size for group in engine.groups] == [1] * 7
    turns(engine, 7, UPDATES)
    for k, i in enumerate(chosen):
        if ARMS[i] == WITHOUT:
            assert alone(i).plan != engine.plan
            monkeypatch.setattr(device, "one_plan", lambda plans: engine.plan)
        assert digest(turns(lone(i), 1, UPDATES), 0) == digest(engine, k), ARMS[i]
        monkeypatch.undo()
    assert len({digest(engine, k) for k in range(7)}) == 7


# --- several programs --------------------------------------------------------------------


LINEAR = {"gamma": 0.9, "rounds": 10, "actor_hidden": (), "critic_hidden": ()}
CACLA = Job(
    ALGORITHMS["cacla"],
    ALGORITHMS["cacla"].config(**LINEAR),
    ENV,
    EnvOptions(),
    100,
)


def in_turn(**other) -> list:
    """Configs of four learners: of two shapes, in turn."""
    return [CACLA.cfg, dataclasses.replace(CACLA.cfg, **other)] * 2


@pytest.mark.parametrize("other", [{"actor_hidden": (3,)}, {"worlds": 2}])
def test_what_shapes_a_program_makes_engines_of_their_own(other):
    """Sizes of networks, and how steps are collected."""
    several = build_engine(CACLA, "device", [4, 5, 6, 7], in_turn(**other), at_once=4)
    assert isinstance(several, Several)
    assert [own for _, own in several.parts] == [[0, 2], [1, 3]]
    assert [engine.groups[0].seeds.tolist() for engine, _ in several.parts] == [
        [4, 6],
        [5, 7],
    ]


def test_several_engines_are_one_to_whoever_asks():
    """Learners of two shapes in turn: each one's snapshot, policy and evaluation, and
    what it becomes after a restore, are those of an engine of its own shape."""
    job, configs, seeds = CACLA, in_turn(worlds=2), [4, 5, 6, 7]
    several = build_engine(job, "device", seeds, configs, at_once=2)
    assert isinstance(several, Several)
    parts = []
    for engine, own in several.parts:
        part = job._replace(cfg=configs[own[0]])
        parts.append(sharing(engine, [seeds[i] for i in own], None, 2, part))
    places = [(parts[i % 2], i // 2) for i in range(4)]

    def assert_equal():
        for i, (engine, k) in enumerate(places):
            assert digest(several, i) == digest(engine, k)
        assert len({digest(several, i) for i in range(4)}) == 4

    early = snapshots_of(several)
    turns(several, 4, 2)
    for engine in parts:
        turns(engine, 2, 2)
    assert_equal()
    # policies and evaluations
    obs = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    due = [(i, Counters(evaluations=i)) for i in (0, 1, 3)]
    played = dict(several.evaluate(due, 2, False))
    assert played.keys() == {0, 1, 3}
    for i, counters in due:
        engine, k = places[i]
        assert dict(engine.evaluate([(k, counters)], 2, False)) == {k: played[i]}
        assert several.policy(i)(obs).tobytes() == engine.policy(k)(obs).tobytes()
    # what is restored reaches one learner, and it goes on from there
    before = digest(several, 3)
    several.restore(3, early[3])
    parts[1].restore(1, early[3])
    assert digest(several, 3) != before
    assert_equal()
    ((i, _),) = several.advance([(3, Counters(update=7))])
    assert i == 3
    list(parts[1].advance([(1, Counters(update=7))]))
    assert_equal()


def snapshots_of(engine) -> list:
    return [engine.snapshot(i) for i in range(4)]


# --- the host ----------------------------------------------------------------------------


def test_arms_on_the_host_are_engines_of_their_own():
    """Two configs of two seeds, in turn: bit for bit two engines of one config each."""
    job = make_job(WANDERER, steps=160)
    configs = [job.cfg, dataclasses.replace(job.cfg, gamma=0.5, actor_steps=3)] * 2
    seeds = [1, 2, 3, 4]
    several = build_engine(job, "host", seeds, configs)
    assert isinstance(several, Several)
    events = finish(several, 4, never(160))
    ends = [digest(several, i) for i in range(4)]
    for (part, _), first in zip(several.parts, (0, 1), strict=True):
        theirs = job._replace(cfg=configs[first])
        engine = HostEngine(theirs, seeds[first::2], part.compiled)
        theirs = finish(engine, 2, never(160))
        assert [digest(engine, k) for k in (0, 1)] == ends[first::2]
        for k in (0, 1):
            assert points(theirs, k) == points(events, first + 2 * k)
    several.close()
    assert len(set(ends)) == 4


def points(events, learner: int) -> list:
    """What the evaluations of one learner were."""
    return [
        e.point for e in events if isinstance(e, Evaluated) and e.learner == learner
    ]


# --- what shapes a program ---------------------------------------------------------------

NETWORKS = {"actor_hidden", "critic_hidden", "activation", "actor_output", "init"}
EPISODES = {"episodes_per_update", "min_steps_per_update"}
WORLDS = {"worlds", "steps_per_world"}
BY_EPISODES = NETWORKS | EPISODES | {"exploration", "collect"}
ONLINE = NETWORKS | {"exploration", "optimiser", "actor_update", "worlds", "rounds"}
TILES = {"tilings", "tiles", "tile_memory", "tile_low", "tile_high"}
REPLAY = {
    "exploration", "random_steps", "rounds", "collect",
    "replay", "batch_size", "n_step", "critics",
    "target_noise",  # whether it is 0
}  # fmt: skip
SHAPING = {  # arms that differ in one of these do not share a program
    "penfac": BY_EPISODES | {"minibatches", "dpg_share", "dpg_share_start"},
    "nfac": BY_EPISODES | {"minibatches", "dpg_share", "dpg_share_start"},
    "offpenfac": NETWORKS
    | WORLDS
    | {"exploration", "collect", "minibatches", "reuse", "dpg_share_start"},
    "cacla": ONLINE,
    "cac": ONLINE,
    "spg": ONLINE | {"spg_critic"},
    "dpg": ONLINE | {"q"},
    "ddpg": NETWORKS | WORLDS | REPLAY,
    "td3": NETWORKS | WORLDS | REPLAY,
    "sac": (NETWORKS - {"actor_output"})
    | WORLDS
    | {"random_steps", "rounds", "replay", "batch_size", "critics"},
    "ppo": NETWORKS | WORLDS | {"collect", "epochs", "minibatches", "clip_action"},
    "cacla tiles": ONLINE | TILES | {"features"},
}
OFF = {  # what another setting has switched off, and so changes nothing at all
    "penfac": WORLDS,
    "offpenfac": EPISODES,
    "nfac": WORLDS | {"beta_start", "beta_min", "beta_max", "early_stop"},
    "cacla": TILES | {"q", "spg_critic"},
    "cac": TILES | {"q", "spg_critic"},
    "spg": TILES | {"q"},
    "dpg": TILES | {"spg_critic"},
    "ddpg": EPISODES | {"ou_theta", "ou_dt", "critic_l2_on"},
    "td3": EPISODES | {"ou_theta", "ou_dt", "critic_l2_on"},
    "ppo": EPISODES,
    "cacla tiles": {"q", "spg_critic"},
}


def others(kind, value) -> list:
    """Other values of a field; not all are valid."""
    args = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        found = list(args)
    elif typing.get_origin(kind) is tuple:
        found = [tuple(kind(5) for kind in args[:1])]
    elif kind is bool:
        found = [not value]
    elif kind is int:
        found = [value + 1, value // 2]
    else:  # float, or float | None
        found = [0.0, 0.05, 0.3, (value or 1.0) / 2, (value or 1.0) * 2]
    return [x for x in found if x != value]


@pytest.mark.parametrize("name", SHAPING)
def test_what_shapes_a_program_and_what_is_a_number(name):
    """Each field of a config shapes the program, and is listed here; or it reaches the
    numbers of its learner (or how widely it explores), and arms that differ in it share a
    program; or it is switched off. Nothing is read from the first arm on behalf of all."""
    algo = ALGORITHMS[name.split()[0]]
    tiled = {"features": "tiles", "normalise": "none"} if "tiles" in name else {}
    # in company with these every field has another valid value
    whole = FULL_BATCH | {"exploration": "gaussian"}
    base = whole if name in ("penfac", "nfac") else tiled
    cfg = algo.config(**(base | dict(algo.overrides)))
    job = Job(algo, cfg, ENV, EnvOptions(), 100)

    def numbers(cfg) -> list:
        own = job._replace(cfg=cfg)
        leaves = [x.item() for x in jax.tree.leaves(algo.numbers(cfg))]
        return [*leaves, own.sigma(0), own.sigma(50)]

    shaping, moving, tried = set(), set(), set()
    for field, kind in known_fields(algo.config).items():
        for value in others(kind, getattr(cfg, field)):
            other = dataclasses.replace(cfg, **{field: value})
            try:
                check(other)
            except ConfigError:
                continue
            tried.add(field)
            here, there = program_shapes(job, [cfg, other])
            if here != there:
                shaping.add(field)
            if numbers(cfg) != numbers(other):
                moving.add(field)
    untried = known_fields(algo.config).keys() - tried
    # valid in company alone
    assert untried <= {"features", "normalise", "tile_box", "reuse", "collect"}
    assert shaping == SHAPING[name] - untried
    assert tried - shaping - moving == OFF.get(name, set())
    floats = {f for f, kind in known_fields(algo.config).items() if kind is float}
    listed = {"target_noise", "tile_low", "tile_high", "dpg_share"}
    assert floats & shaping <= listed


def test_every_algorithm_is_listed():
    assert {name.split()[0] for name in SHAPING} == ALGORITHMS.keys()
