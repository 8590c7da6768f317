"""Arms: learners of one program may differ in every number of their config, and in what
shapes a program they go to engines of their own; nobody can tell from the results."""

import dataclasses
import typing

import jax
import numpy as np
import pytest
from tests.engines.jobs import digest, finish, make_job, never
from tests.engines.turns import distance, sharing, turns
from tests.rollout.worlds import WANDERER

from penfac import presets
from penfac.algos import ALGORITHMS
from penfac.configs import from_values, known_fields
from penfac.engines import device
from penfac.engines.base import Counters, Job
from penfac.engines.build import build_engine, shapes
from penfac.engines.device import DeviceEngine, joined
from penfac.engines.host import HostEngine
from penfac.engines.several import Several
from penfac.envs.builtin import BUILT_IN
from penfac.envs.gym import EnvOptions
from penfac.errors import ConfigError
from penfac.request import Request, resolve

ENV, SEEDS, UPDATES = "penfac/LQR-v0", (0, 1), 3
# of the preset only sizes, and steps so long that three updates tell the arms apart
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
    request = Request(
        ENV, preset="authors", settings=SHORT, arms=presets.arms("ablation")
    )
    found = resolve(request)["arms"]
    config = ALGORITHMS["penfac"].config
    rows = [
        (arm, seed, from_values(config, values))
        for arm, values in found.items()
        for seed in SEEDS
    ]
    return tuple(map(list, zip(*rows, strict=True)))  # type: ignore[return-value]


ARMS, ARM_SEEDS, CONFIGS = ablation()
JOB = Job(ALGORITHMS["penfac"], CONFIGS[0], ENV, EnvOptions(), 300)
JOINED = JOB.algo.plan(CONFIGS[0], BUILT_IN[ENV].spec)  # with batch norm, as most are
LEFT_OUT = "batch_stats"  # the one thing batch norm leaves with a learner without it


def alone(cfg, seed: int) -> DeviceEngine:
    """One learner that knows of no arms."""
    return DeviceEngine(JOB._replace(cfg=cfg), [seed], at_once=1)


class Fourteen(typing.NamedTuple):
    """All arms in one program."""

    engine: DeviceEngine
    traced: list  # an entry for each time an update was traced
    first: list  # snapshots after one update
    last: list  # ... and after three


@pytest.fixture(scope="module")
def fourteen():
    traced = []

    def counted(*args):
        traced.append(args)
        return JOB.algo.update(*args)

    job = JOB._replace(algo=JOB.algo._replace(update=counted))
    engine = build_engine(job, "device", ARM_SEEDS, CONFIGS, at_once=14)
    counters = [Counters() for _ in CONFIGS]
    snapshots = []
    for _ in range(UPDATES):
        turns_of(engine, counters)
        snapshots.append([engine.snapshot(i) for i in range(14)])
    return Fourteen(engine, traced, snapshots[0], snapshots[-1])


@pytest.fixture(scope="module")
def lone():
    """An engine of one learner with batch norm and one without: their programs serve
    every other learner that is alone."""
    return {
        name: alone(CONFIGS[ARMS.index(name)], 0) for name in ("penfac", "no-batch-norm")
    }


def lone_engine(lone, i: int) -> DeviceEngine:
    name = "no-batch-norm" if ARMS[i] == "no-batch-norm" else "penfac"
    return sharing(lone[name], alone(CONFIGS[i], ARM_SEEDS[i]))


def turns_of(engine, counters):
    from tests.engines.turns import turn

    return turn(engine, counters)
