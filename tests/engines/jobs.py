"""Small jobs for engines, and the bits they end with."""

import hashlib
from collections.abc import Iterator

import tests.rollout.worlds  # noqa: F401  registers the environments
from tests.full_batch import FULL_BATCH

from penfac.algos import ALGORITHMS
from penfac.engines.base import Counters, Engine, Job
from penfac.envs.options import EnvOptions
from penfac.training.loop import Event, Schedule, train

TINY = FULL_BATCH | {
    "gamma": 0.9,
    "lam": 0.9,
    "actor_hidden": (4,),
    "critic_hidden": (4,),
    "actor_steps": 2,
    "actor_lr": 1e-3,
    "fitted_iterations": 2,
    "critic_steps": 1,
    "critic_lr": 1e-3,
    "episodes_per_update": 2,
    "min_steps_per_update": 1,
    "worlds": 2,
    "steps_per_world": 25,
    "sigma": 0.2,
}


def make_job(
    env_id: str, algo: str = "penfac", steps: int = 1000, job=None, **settings
) -> Job:
    """A job with tiny networks; `settings` are values of the config."""
    algorithm = ALGORITHMS[algo]
    cfg = algorithm.config(**(TINY | algorithm.overrides | settings))
    return Job(algorithm, cfg, env_id, EnvOptions(), steps, **(job or {}))


def never(steps: int) -> Schedule:
    """Evaluate at the start and at the end alone."""
    return Schedule(steps, eval_every=10**15, eval_episodes=1)


def learn(
    engine: Engine, learners: int, schedule: Schedule, counters=None
) -> Iterator[tuple[Event, list[Counters]]]:
    counters = counters or [Counters() for _ in range(learners)]
    for event in train(engine, counters, schedule):
        yield event, counters


def finish(engine: Engine, learners: int, schedule: Schedule) -> list:
    """Train to the end; every event."""
    return [event for event, _ in learn(engine, learners, schedule)]


def digest(engine: Engine, learner: int) -> str:
    """Everything a checkpoint of this learner holds, as one hash."""
    found = hashlib.sha256()
    for name, array in sorted(engine.snapshot(learner).items()):
        found.update(name.encode() + array.tobytes())
    return found.hexdigest()
