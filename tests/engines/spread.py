"""Run by test_sharding.py in a process that has four devices: trains the same learners
together and one at a time, and prints what became of them as JSON."""

import dataclasses
import json
import sys

import jax
from tests.engines.jobs import digest, make_job
from tests.engines.turns import distance, sharing, turn

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Job
from penfac.engines.device import DeviceEngine
from penfac.envs.options import EnvOptions

ENV, UPDATES, ORDER = "penfac/LQR-v0", 3, [2, 0, 3, 1]
REPLAY = {
    "actor_hidden": (4,), "critic_hidden": (4,), "replay": 40, "learning_starts": 5,
    "random_steps": 5, "batch_size": 8, "steps_per_world": 15, "gradient_steps": 3,
}  # fmt: skip


def jobs() -> dict[str, Job]:
    ddpg = ALGORITHMS["ddpg"]
    penfac = make_job(ENV, steps=300, actor_lr=0.01, critic_lr=0.1)
    return {
        "penfac": penfac._replace(options=EnvOptions(max_episode_steps=10)),
        "ddpg": Job(ddpg, ddpg.config(**REPLAY), ENV, EnvOptions(), 300),
    }


def after(engine: DeviceEngine, counters: list[Counters]) -> dict:
    """What a checkpoint of each learner holds, and what it earns."""
    due = [(i, Counters(evaluations=3)) for i in range(len(counters))]
    played = dict(engine.evaluate(due, 2, False))
    return {
        "digests": [digest(engine, i) for i in range(len(counters))],
        "returns": [played[i]["mean"][0] for i in range(len(counters))],
    }


def trained(engine: DeviceEngine, learners: int) -> dict:
    counters = [Counters() for _ in range(learners)]
    for _ in range(UPDATES):
        turn(engine, counters)
    return after(engine, counters)


def places(engine: DeviceEngine) -> dict:
    """On how many devices the arrays are, and how many rows each has there."""
    leaves = jax.tree.leaves((engine.groups[0].learners, engine.groups[0].inputs))
    return {
        "devices": sorted({len(x.sharding.device_set) for x in leaves}),
        "rows": sorted({s.data.shape[0] for x in leaves for s in x.addressable_shards}),
        "compiled": engine.compiled.advance._cache_size(),
    }


def compare(job: Job, learners: int) -> tuple[dict, DeviceEngine, DeviceEngine]:
    """Learners over four devices, and one at a time on one of them."""
    engine = DeviceEngine(job, range(learners), at_once=learners)
    one = DeviceEngine(job, range(learners), at_once=1)
    begun = [digest(e, i) for e in (engine, one) for i in range(learners)]
    found = {"together": trained(engine, learners), "alone": trained(one, learners)}
    apart = [distance(engine.snapshot(i), one.snapshot(i)) for i in range(learners)]
    found |= {"apart": max(apart), "begun": [begun[:learners], begun[learners:]]}
    return found | places(engine), engine, one


def permuted(spread: DeviceEngine) -> dict:
    """The same learners, each on another device."""
    return trained(sharing(spread, ORDER, at_once=4), 4)


def resumed(spread: DeviceEngine, one: DeviceEngine) -> dict:
    """A checkpoint of four devices goes on there, there on other ones, and on one alone."""
    counters = Counters(update=UPDATES, step=60, episode=6)
    snapshots = [spread.snapshot(i) for i in range(4)]
    moved = sharing(spread, ORDER, at_once=4)
    lone = sharing(one, range(4), at_once=1)
    for place, seed in enumerate(ORDER):
        moved.restore(place, snapshots[seed])
        lone.restore(seed, snapshots[seed])
    found = {"restored": [digest(lone, i) for i in range(4)]}
    for engine in (spread, moved, lone):
        turn(engine, [dataclasses.replace(counters) for _ in range(4)])
    apart = [distance(spread.snapshot(i), lone.snapshot(i)) for i in range(4)]
    found["there"] = [digest(spread, i) for i in range(4)]
    found["elsewhere"] = [digest(moved, i) for i in range(4)]
    return found | {"apart": max(apart)}


def main() -> None:
    assert len(jax.local_devices()) == 4
    found, work = {}, jobs()
    found["four"], spread, one = compare(work["penfac"], 4)
    found["permuted"] = permuted(spread)
    found["resumed"] = resumed(spread, one)
    found["six"], _, _ = compare(work["ddpg"], 6)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
