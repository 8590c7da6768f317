"""Worlds that are environments of one `gymnasium.vector.VectorEnv`, or of several."""

import contextlib
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import FlattenObservation

from penfac.envs.calls import Call, Watch
from penfac.envs.gym import time_step_of
from penfac.envs.options import EnvOptions
from penfac.envs.pool import Pool, mode_of
from penfac.envs.stepped import Stepped
from penfac.errors import ConfigError, EnvironmentFault
from penfac.types import EnvSpec


class VectorWorlds:
    """See penfac.envs.worlds.Worlds. `size` environments belong together, those of a
    learner: a step moves all of them. Without it an environment may have a size of its
    own."""

    def __init__(
        self, env_id: str, options: EnvOptions, count: int, size: int | None, watch: Watch
    ):  # fmt: skip
        self.id, self.options, self.size, self.watch = env_id, options, size, watch
        self.pools: list[Pool] = []
        # of each world: its pool, and its place there
        self.home = np.zeros((0, 2), np.int64)
        self.seconds = 0.0
        self.grow(count)
        first = self.pools[0]
        self.actions, self.obs_dim = first.actions, int(np.prod(first.obs_shape))
        self.repeats = all(pool.alone for pool in self.pools)

    @property
    def count(self) -> int:
        return len(self.home)

    def grow(self, count: int) -> None:
        while self.count < count:
            pool = self._open(self.size or count - self.count)
            places = np.arange(pool.count)
            here = np.full(pool.count, len(self.pools))
            self.home = np.concatenate([self.home, np.stack([here, places], axis=1)])
            self.pools.append(pool)

    def _open(self, wanted: int) -> Pool:
        with Call(self.id, "making it", self.watch):
            env = open_vector(self.id, self.options, wanted)
        try:
            return self._checked(env)
        except BaseException:
            env.close()  # it may have processes
            raise

    def _checked(self, env: VectorEnv) -> Pool:
        limit = limit_of(env, self.id, self.options)
        if limit is None:
            raise ConfigError(
                f"{self.id}: has no time limit, so an episode may never end; say which "
                "it has with --max-episode-steps N"
            )
        n = env.num_envs
        if self.size not in (None, n):
            raise ConfigError(
                f"{self.id}: num_envs = {n}: must be the number of worlds, {self.size}; "
                f"make it with num_envs={self.size}, or set worlds={n} (where "
                f"collect=episodes: episodes_per_update={n})"
            )
        return Pool(self.id, env, self.options, self.watch, limit)

    def spec(self) -> EnvSpec:
        first = self.pools[0]
        space: Any = first.env.single_observation_space
        seen = (np.ravel(space.low), np.ravel(space.high))
        bounds = (self.actions.low, self.actions.high)
        dt = time_step_of(asked(first.env, "dt"))
        return EnvSpec(self.id, self.obs_dim, *bounds, first.limit, *seen, dt)

    def reset(self, w: int, seed: int) -> np.ndarray | None:
        pool, k = self.home[w]
        try:
            return self.pools[pool].reset(int(k), seed)
        except EnvironmentFault as fault:
            fault.where |= {"reset_seed": seed}
            raise

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is caught as such
    def step(self, rows: np.ndarray, actions: np.ndarray) -> Stepped:
        n, entered = len(rows), time.monotonic()
        got = Stepped(
            np.zeros((n, self.obs_dim), np.float32), np.zeros(n), np.zeros(n, bool),
            np.zeros(n, bool), {}, {},
        )  # fmt: skip
        pools, places = self.home[rows].T
        for p in np.unique(pools):
            at = np.flatnonzero(pools == p)
            try:
                *parts, terms = self.pools[p].step(places[at], actions[at])
            except EnvironmentFault as fault:
                got.faults.update(dict.fromkeys(at.tolist(), fault))
                continue
            for array, part in zip(got[:4], parts, strict=True):
                array[at] = part
            for name, term in terms.items():
                got.terms.setdefault(name, np.zeros(n))[at] = term
        self.seconds += time.monotonic() - entered
        return got

    def replace(self, w: int) -> None:
        raise EnvironmentFault(
            f"{self.id}: is a vector environment, of which world {w} alone cannot be "
            "replaced"
        )

    def close(self) -> None:
        for pool in self.pools:
            pool.close()


def open_vector(env_id: str, options: EnvOptions, wanted: int) -> VectorEnv:
    """Make a vector environment by its id; it may have a size of its own."""
    spec = gymnasium.spec(env_id.rpartition(":")[2])
    entry = spec.vector_entry_point
    kwargs = spec.kwargs | options.kwargs
    limit = options.max_episode_steps or spec.max_episode_steps
    if limit is not None:
        kwargs["max_episode_steps"] = limit
    try:  # not by make_vec, which gives EnvPool's another `spec` that they cannot use
        make: Any = entry if callable(entry) else load_env_creator(str(entry))
        env = make(num_envs=wanted, **kwargs)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise ConfigError(f"{env_id}: {error}") from error
    if not isinstance(env, VectorEnv):
        raise ConfigError(
            f"{env_id}: its vector_entry_point made a {type(env).__name__}; must make a "
            "gymnasium.vector.VectorEnv"
        )
    parts = gymnasium.spaces.Dict | gymnasium.spaces.Tuple
    if options.flatten_obs and isinstance(env.single_observation_space, parts):
        if mode_of(env_id, env) is AutoresetMode.SAME_STEP:
            raise ConfigError(
                f"--flatten-obs: {env_id} resets in mode SAME_STEP, whose last "
                "observations Gymnasium does not join; use NEXT_STEP or DISABLED"
            )
        env = FlattenObservation(env)
    return env


def limit_of(env: VectorEnv, env_id: str, options: EnvOptions) -> int | None:
    """Its time limit: as the options say, itself, its environments, or its id."""
    whole: Any = env.unwrapped
    spec = getattr(whole, "spec", None)
    settings = [getattr(spec, "kwargs", None), getattr(whole, "config", None)]
    named = [x.get("max_episode_steps") for x in settings if isinstance(x, dict)]
    found = (
        options.max_episode_steps,
        *named,
        getattr(spec, "max_episode_steps", None),
        asked(env, "_max_episode_steps"),
        getattr(whole, "max_episode_steps", None),
        gymnasium.spec(env_id.rpartition(":")[2]).max_episode_steps,
    )
    return next((int(n) for n in found if isinstance(n, int) and n > 0), None)


def asked(env: VectorEnv, name: str) -> Any:
    """A number of the first environment. AsyncVectorEnv ends where there is none, so it
    is asked before."""
    whole: Any = env.unwrapped
    with contextlib.suppress(Exception):
        if hasattr(whole, "call"):
            there = whole.call("has_wrapper_attr", name)[0]
            return whole.get_attr(name)[0] if there else None
    return getattr(whole, name, None)
