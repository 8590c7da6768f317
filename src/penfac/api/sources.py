"""The learner and the environment of a model: as given, or as its run says."""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from penfac.api.observations import open_checked, open_env
from penfac.envs.options import EnvOptions
from penfac.envs.own import Source, announce, recall, source_of
from penfac.envs.trust import refuse_unasked
from penfac.errors import ConfigError
from penfac.policy import ActionScale, Policy
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


class ModelEnv:
    """The environment of a model, announced before each use: ids are shared."""

    def __init__(self, source: Source, where: object = "", trust: bool = True):
        self.source, self.where = source, where
        self.trust = trust  # a module that only a file names is not imported unasked
        self._spaces: tuple[gymnasium.Space, gymnasium.Space] | None = None

    def announce(self) -> None:
        if self.source.lost:
            raise ConfigError(
                f"{self.source.id}: the environment was made by another program; "
                "pass it with penfac.load(path, env=...)"
            )
        refuse_unasked(self.source.id, self.where, self.trust)
        announce(self.source)

    def open(self) -> gymnasium.Env | VectorEnv:
        """Open one, checked."""
        self.announce()
        return open_env(self.source)

    def spaces(self) -> tuple[gymnasium.Space, gymnasium.Space]:
        """The spaces of observations and actions; the first call opens one."""
        if self._spaces is None:
            env = self.open()
            env.close()
            whose = "single_" if isinstance(env, VectorEnv) else ""
            seen, done = (f"{whose}{x}_space" for x in ("observation", "action"))
            self._spaces = getattr(env, seen), getattr(env, done)
        return self._spaces


def find_source(folder: Path, config: RunConfig, env: Any) -> Source:
    """Return the environment of a run, by its id or as given."""
    known = Source(config.env, config.env_options)
    if env is None or (isinstance(env, str) and env == known.id):
        return recall(folder, known)
    if known.lost:
        return source_of(env, known.options, known_as=known.id)
    given = given_source(config, env)
    return known if not differences(given, config) else given


def given_source(config: RunConfig, env: Any) -> Source:
    """Return an environment to act in, with the options that shape what a policy sees."""
    given = source_of(env, EnvOptions())
    options = dataclasses.replace(
        config.env_options,
        max_episode_steps=given.options.max_episode_steps,
        kwargs=given.options.kwargs,
    )
    return given._replace(options=options)


def differences(source: Source, config: RunConfig) -> str:
    """How an environment differs from the one of a run; empty if it does not."""
    names = [name.rpartition(":")[2] for name in (config.env, source.id)]
    if names[0] != names[1]:
        return f"{config.env} -> {source.id}"
    old, new = vars(config.env_options), vars(source.options)
    return "; ".join(f"{k}: {old[k]} -> {new[k]}" for k in old if old[k] != new[k])


def check_spaces(
    folder: Path, config: RunConfig, source: Source, policy: Policy
) -> None:
    """Refuse an environment that a run's policy cannot act in."""
    announce(source)
    world = open_checked(source)
    world.close()
    gives = sizes(world.obs_dim, world.actions)
    needs = sizes(len(policy.weights.mean), policy.actions)
    if gives != needs:
        raise ConfigError(
            f"{folder}: was trained on {config.env}, not on {source.id}: the policy has "
            f"{needs}, this environment {gives}; pass one with the same spaces"
        )


def sizes(n: int, actions: ActionScale) -> str:
    """The sizes and bounds that a policy and an environment must share, in words."""
    low, high = np.unique(actions.low), np.unique(actions.high)
    bounds = f"[{', '.join(map(str, low))}] to [{', '.join(map(str, high))}]"
    return f"{n} inputs and {len(actions.low)} actions from {bounds}"
