"""The learner and the environment of a model that is loaded."""

from pathlib import Path
from typing import Any

from penfac.api.keywords import options_of
from penfac.envs.own import Source, recall, source_of
from penfac.errors import ConfigError
from penfac.runs.config import RunConfig
from penfac.runs.learners import Learner
from penfac.runs.run import Run


def find_learner(run: Run, seed: int | None) -> Learner:
    """Return the learner of a seed, which must be named where a run has several."""
    seeds = run.config.seeds
    if seed is None and run.config.arms is None and len(seeds) > 1:
        there = ", ".join(map(str, seeds))
        raise ConfigError(f"{run.path}: has the seeds {there}; choose one with seed=")
    learner = run.learner(seed)
    run.refuse_changed()
    return learner


def find_source(folder: Path, config: RunConfig, env: Any) -> Source:
    """Return the environment of a run, by its id or as given."""
    known = Source(config.env, config.env_options)
    if env is None or env == known.id:
        return recall(folder, known)
    if known.lost:
        return source_of(env, known.options, known_as=known.id)
    given = source_of(env, options_of(None, None, False, None))
    if given.id.rpartition(":")[2] != known.id.rpartition(":")[2]:
        raise ConfigError(
            f"{folder}: was trained on {known.id}, not on {given.id}; leave env out"
        )
    return known
