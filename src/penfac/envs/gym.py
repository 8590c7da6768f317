"""Any Gymnasium environment with a Box action space, held to its contract."""

import importlib
import importlib.util
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from penfac.envs.calls import Call, Watch
from penfac.envs.mujoco_warnings import hear_mujoco
from penfac.envs.options import EnvOptions
from penfac.envs.trust import check_module
from penfac.errors import ConfigError, EnvironmentFault
from penfac.policy import ActionScale
from penfac.settings.suggest import nearest
from penfac.types import EnvSpec

EXTRAS = {  # id fragment -> (module to import first, extra that brings it)
    "BulletEnv": ("pybullet_envs_gymnasium", "pybullet"),
}


def check_id(env_id: str) -> None:
    """Refuse an unknown id before anything is built."""
    module, _, name = env_id.rpartition(":")
    for fragment, (package, extra) in EXTRAS.items():
        if fragment in name:
            if importlib.util.find_spec(package) is None:
                raise ConfigError(
                    f'{env_id}: {package} is missing; pip install "penfac[{extra}]"'
                )
            module = module or package
    if module:
        check_module(env_id, module)
        with Call(env_id, f"importing {module}", Watch()):
            try:
                importlib.import_module(module)
            except ImportError as error:
                text = f"{env_id}: cannot import {module} ({error})"
                raise ConfigError(text) from None
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        close = nearest(name, gymnasium.registry)
        hint = f"; nearest: {', '.join(close)}" if close else ""
        raise ConfigError(
            f"{env_id}: no such environment{hint} "
            "(`penfac envs` lists them; write MODULE:ID for one of your own)"
        ) from error


def is_vector(env_id: str) -> bool:
    """Whether an id has a vectorised version only: a `gymnasium.vector.VectorEnv`."""
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    return spec is not None and spec.entry_point is None


def open_world(
    env_id: str, options: EnvOptions, watch: Watch | None = None
) -> "GymWorld":
    """Build one environment and check what it promises."""
    name = env_id.rpartition(":")[2]
    if is_vector(env_id):
        raise ConfigError(
            f"{env_id}: is a vector environment, and this needs a single one; pass an "
            "environment with the same spaces"
        )
    if "mujoco" in str(gymnasium.spec(name).entry_point):
        hear_mujoco()
    kwargs = dict(options.kwargs)
    if options.max_episode_steps is not None:
        kwargs["max_episode_steps"] = options.max_episode_steps
    watch = watch or Watch()
    with Call(env_id, "making it", watch):
        try:
            env = gymnasium.make(name, disable_env_checker=True, **kwargs)
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise ConfigError(f"{env_id}: {error}") from error
        return GymWorld(env_id, env, options, watch)


def time_step(env: gymnasium.Env) -> float | None:
    """Seconds of one step: `dt` of the environment itself, as MuJoCo's tasks have it."""
    return time_step_of(getattr(env.unwrapped, "dt", None))


def time_step_of(dt: Any) -> float | None:
    if isinstance(dt, float | int) and math.isfinite(dt) and dt > 0:
        return float(dt)
    return None


class GymWorld:
    """One environment: observations as float32 [n], actions as the policy gives them."""

    def __init__(
        self, env_id: str, env: gymnasium.Env, options: EnvOptions, watch: Watch
    ):
        self.id, self.watch = env_id, watch
        self.resetting = Call(env_id, "reset", watch)
        self.stepping = Call(env_id, "step", watch)
        self.closing = Call(env_id, "close", watch)
        self.terms: list[str] | None = None
        self.actions = action_scale(env_id, env.action_space, options)
        parts = spaces.Dict | spaces.Tuple
        if options.flatten_obs and isinstance(env.observation_space, parts):
            env = gymnasium.wrappers.FlattenObservation(env)
        self.env = env
        self.obs_shape = observation_shape(env_id, env.observation_space)
        self.obs_dim = math.prod(self.obs_shape)

    def spec(self) -> EnvSpec:
        with Call(self.id, "asking for its limits", self.watch):
            return self._spec()

    def _spec(self) -> EnvSpec:
        limit = self.env.spec.max_episode_steps if self.env.spec else None
        if limit is None:
            raise ConfigError(
                f"{self.id}: has no time limit, so an episode may never end; "
                "set one with --max-episode-steps N"
            )
        space: Any = self.env.observation_space
        seen = (np.ravel(space.low), np.ravel(space.high))
        low, high = self.actions.low, self.actions.high
        return EnvSpec(
            self.id, self.obs_dim, low, high, limit, *seen, time_step(self.env)
        )

    def reset(self, seed: int) -> np.ndarray:
        try:
            with self.resetting:
                obs, _ = self.env.reset(seed=seed)
                obs = self._observation(obs, "reset")
        except EnvironmentFault as fault:
            fault.where |= {"reset_seed": seed}
            raise
        if not np.all(np.isfinite(obs)):
            raise non_finite(self.id, "observation", obs, "at reset")
        return obs

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, float]]:
        """... and the parts of the reward that `info` names reward_something."""
        with self.stepping:  # reading an odd result runs the environment's code too
            obs, reward, terminated, truncated, info = self.env.step(action)
            paid = reward if isinstance(reward, float) else self._reward(reward)
            try:
                ended, cut = bool(terminated), bool(truncated)
            except ValueError:
                raise EnvironmentFault(
                    f"{self.id}: step returned terminated = {terminated!r} and "
                    f"truncated = {truncated!r}; each must be one truth value"
                ) from None
            return self._observation(obs, "step"), paid, ended, cut, self._terms(info)

    def _terms(self, info: Any) -> dict[str, float]:
        """Which there are is decided by the first step: a log has fixed columns."""
        if self.terms is None:
            self.terms = [
                name
                for name, value in (info.items() if isinstance(info, dict) else ())
                if str(name).startswith("reward_") and np.ndim(value) == 0
                and isinstance(value, float | np.floating)
            ]  # fmt: skip
        if self.terms and not isinstance(info, dict):
            raise EnvironmentFault(
                f"{self.id}: step returned info of type {type(info).__name__}; it must "
                f"be a dict, as it was when it held {self.terms[0]}"
            )
        return {name: float(info.get(name, 0.0)) for name in self.terms}

    def close(self) -> None:
        with self.closing:  # a broken close loses nothing of ours
            self.env.close()

    def _observation(self, obs: Any, when: str) -> np.ndarray:
        if getattr(obs, "shape", None) != self.obs_shape:
            shape = getattr(obs, "shape", None)
            what = "not an array" if shape is None else f"of shape {shape}"
            raise EnvironmentFault(
                f"{self.id}: {when} returned an observation of type "
                f"{type(obs).__name__}, {what}; it must be an array of shape "
                f"{self.obs_shape}, as its space says"
            )
        if obs.dtype.kind not in "fiub":
            raise EnvironmentFault(
                f"{self.id}: {when} returned an observation of type {obs.dtype}; "
                "it must hold numbers"
            )
        return obs.astype(np.float32).reshape(-1)  # a copy: some reuse their buffer

    def _reward(self, reward: Any) -> float:
        try:
            array = np.asarray(reward)
        except ValueError:  # rows of different lengths
            array = np.empty(0)
        if array.size != 1 or array.dtype.kind not in "fiu":
            raise EnvironmentFault(
                f"{self.id}: step returned the reward {reward!r}; it must be a number"
            )
        return float(array.reshape(()))


def non_finite(
    env_id: str, what: str, values: np.ndarray, when: str
) -> EnvironmentFault:
    """Name the first bad component."""
    bad = int(np.flatnonzero(~np.isfinite(np.ravel(values)))[0])
    value = np.ravel(values)[bad]
    where = f"{what}[{bad}]" if np.size(values) > 1 else what
    return EnvironmentFault(f"{env_id}: {where} is {value} {when}")


def observation_shape(env_id: str, space: spaces.Space) -> tuple[int, ...]:
    if isinstance(space, spaces.Dict):
        raise ConfigError(
            f"{env_id}: the observation is a dict of {', '.join(space.keys())}; "
            "--flatten-obs joins its parts in this order"
        )
    if isinstance(space, spaces.Tuple):
        raise ConfigError(
            f"{env_id}: the observation space is Tuple, of {len(space.spaces)} parts; "
            "--flatten-obs joins them"
        )
    if not isinstance(space, spaces.Box):
        kind = type(space).__name__
        raise ConfigError(
            f"{env_id}: the observation space is {kind}; it must be a Box"
        )
    return space.shape


def action_scale(env_id: str, space: spaces.Space, options: EnvOptions) -> ActionScale:
    """The bounds of a Box action space, flat; asymmetric ones are fine."""
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        kind = type(space).__name__
        if isinstance(space, spaces.Box):
            kind = f"Box of {space.dtype}"
        raise ConfigError(
            f"{env_id}: the action space is {kind}; it must be a Box of floats"
        )
    # copies: the environment may change its own
    low, high = space.low.flatten(), space.high.flatten()
    if options.action_bounds is not None:
        own_low, own_high = (np.full_like(low, b) for b in options.action_bounds)
        low, high = np.maximum(low, own_low), np.minimum(high, own_high)
    if np.any(np.isnan(low)) or np.any(np.isnan(high)):
        raise ConfigError(f"{env_id}: the bounds of its actions must not be NaN")
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise ConfigError(
            f"{env_id}: the action space has no bounds; "
            "set them with --action-bounds LOW,HIGH"
        )
    if np.any(low >= high):
        i = int(np.flatnonzero(low >= high)[0])
        raise ConfigError(
            f"{env_id}: action {i} has low = {low[i]} and high = {high[i]}; "
            "low must be below high"
        )
    return ActionScale(low, high, space.shape)
