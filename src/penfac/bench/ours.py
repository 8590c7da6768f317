"""Our side of a contest: a learner with the settings that both sides share."""

from typing import Any

from penfac.algos import ALGORITHMS
from penfac.bench.contest import Race, mean_return, settings
from penfac.engines.base import Counters, Job
from penfac.engines.host import HostEngine
from penfac.envs.options import EnvOptions
from penfac.training.loop import count_update


def our_engine(
    algo: str, race: Race, seed: int, steps: int, **more: Any
) -> tuple[HostEngine, Counters]:
    """Return an engine with a learner at the start of a run."""
    algorithm = ALGORITHMS[algo]
    values = settings(algo, race) | dict(algorithm.overrides) | more
    job = Job(algorithm, algorithm.config(**values), race.env, EnvOptions(), steps)
    return HostEngine(job, [seed]), Counters()


def advance(engine: HostEngine, counters: Counters, steps: int) -> None:
    """Run whole updates for at least this number of steps."""
    end = counters.step + steps
    while counters.step < end:
        [(_, progress)] = list(engine.advance([(0, counters)]))
        if isinstance(progress, Exception):
            raise progress
        count_update(counters, progress)


def our_score(algo: str, race: Race, seed: int) -> float:
    """Train for the peer's number of steps, then evaluate mu."""
    steps = race.steps[algo]
    engine, counters = our_engine(algo, race, seed, steps)
    advance(engine, counters, steps)
    policy = engine.policy(0)
    engine.close()
    return mean_return(policy, race)
