"""Our side of a contest: a learner with the settings that both sides share, or ours."""

from collections.abc import Callable
from typing import Any

import numpy as np

from penfac.algos import ALGORITHMS
from penfac.bench.contest import Race, mean_return, settings
from penfac.engines.base import Counters, Job
from penfac.engines.host import HostEngine
from penfac.envs.calls import Watch
from penfac.envs.hiring import crew_for
from penfac.envs.options import EnvOptions
from penfac.settings.penfac import Config
from penfac.training.loop import count_update

Act = Callable[[np.ndarray], np.ndarray]
Told = Callable[[int, Act], bool]  # hears steps and policy, says whether to stop


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


def train_tuned(env_id: str, seed: int, steps: int, told: Told) -> None:
    """Train PeNFAC as `penfac train` does, with a crew of processes where it pays."""
    cfg, options, watch = Config(), EnvOptions(), Watch()
    with crew_for(env_id, options, cfg.worlds, None, watch, lambda _: None) as crew:
        job = Job(ALGORITHMS["penfac"], cfg, env_id, options, steps, crew=crew)
        engine, counters = HostEngine(job, [seed]), Counters()
        while counters.step < steps:
            advance(engine, counters, 1)
            if told(counters.step, engine.policy(0)):
                break
        engine.close()
