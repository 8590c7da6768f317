"""A `gymnasium.vector.VectorEnv` and what its environments are doing.

Gymnasium's three modes say when an environment that ended is reset: in the next step
(which ignores its action), in the same step (its last observation is in `info`), or by
its user. One that can be reset alone, with a seed, is reset here in every mode.
"""

import contextlib
import warnings
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from penfac.envs.calls import Call, Watch
from penfac.envs.gym import action_scale, observation_shape
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError, EnvironmentFault

MODES = "NEXT_STEP, SAME_STEP or DISABLED"


class Pool:
    """All environments of one object; `k` is the number of one of them."""

    def __init__(
        self, env_id: str, env: VectorEnv, options: EnvOptions, watch: Watch, limit: int
    ):
        self.id, self.env, self.limit = env_id, env, limit
        self.resetting = Call(env_id, "reset", watch)
        self.stepping = Call(env_id, "step", watch)
        self.closing = Call(env_id, "close", watch)
        self.count, self.mode = int(env.num_envs), mode_of(env_id, env)
        self.actions = action_scale(env_id, env.single_action_space, options)
        self.obs_shape = observation_shape(env_id, env.single_observation_space)
        middle = self.actions.to_env(np.zeros((1, len(self.actions.low))))
        self.middle = np.repeat(middle, self.count, axis=0)
        self.terms: list[str] | None = None
        self.forget()
        self.alone = self._resets_alone()
        if self.mode is AutoresetMode.DISABLED and not self.alone:
            raise ConfigError(
                f"{env_id}: its autoreset mode is DISABLED, but options["
                '"reset_mask"] does not reset one environment with its seed; use '
                "NEXT_STEP or SAME_STEP"
            )

    def forget(self) -> None:
        """What was before a reset of all."""
        self.playing = np.zeros(self.count, bool)  # somebody plays it
        self.ended = np.zeros(self.count, bool)  # in the last step
        self.length = np.zeros(self.count, np.int64)
        self.fresh: dict[int, np.ndarray] = {}  # initial observations nobody took yet

    def _resets_alone(self) -> bool:
        """Try to reset the first environment by a mask, with its seed."""
        seeds = list(range(self.count))
        first = np.arange(self.count) == 0
        if self.mode is AutoresetMode.NEXT_STEP and not getattr(
            self.env.unwrapped, "shared_memory", True
        ):  # AsyncVectorEnv then resets it once more
            return False
        with contextlib.suppress(Exception):
            begun = self._reset(seeds)
            moved = self._observations(self.env.step(self.middle)[0], "step")
            again = self._reset([0] + [None] * (self.count - 1), first)
            same = np.array_equal(again[0], begun[0])
            kept = np.array_equal(again[1:], moved[1:])
            # where nothing moves, nothing is shown
            seen = not np.array_equal(begun, moved)
            return same and kept and (seen or self.mode is AutoresetMode.DISABLED)
        return False

    # --- resets ---------------------------------------------------------------------

    def reset(self, k: int, seed: int) -> np.ndarray | None:
        """Begin an episode. None: the next step does it, and its row is the beginning."""
        obs = self._reset_one(k, seed)
        self.playing[k], self.length[k] = True, 0
        if obs is not None and not np.all(np.isfinite(obs)):
            bad = obs[~np.isfinite(obs)][0]
            raise EnvironmentFault(f"{self.id}: an observation is {bad} at reset")
        return obs

    def _reset_one(self, k: int, seed: int) -> np.ndarray | None:
        if self.alone:
            seeds: list[int | None] = [None] * self.count
            seeds[k], self.ended[k] = seed, False
            return self._reset(seeds, np.arange(self.count) == k)[k]
        if not self.playing.any():  # all begin
            self.forget()
            self.fresh = dict(enumerate(self._reset(seed)))
        if k in self.fresh:
            return self.fresh.pop(k)
        if self.mode is AutoresetMode.NEXT_STEP and self.ended[k]:
            return None
        raise EnvironmentFault(
            f"{self.id}: environment {k} cannot be reset before its episode ends"
        )

    def _reset(self, seed: Any, mask: np.ndarray | None = None) -> np.ndarray:
        options = None if mask is None else {"reset_mask": mask}
        with self.resetting, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # EnvPool: it is deaf to seeds
            obs, _ = self.env.reset(seed=seed, options=options)
            return self._observations(obs, "reset")

    # --- steps ----------------------------------------------------------------------

    def step(self, rows: np.ndarray, actions: np.ndarray) -> tuple:
        """Step all environments; the observations, rewards, ends and terms of `rows`.
        What the others do does not matter."""
        if self.mode is AutoresetMode.DISABLED:
            self._reset_idle(rows)
        whole = self.middle.copy()
        whole[rows] = actions
        with self.stepping:
            obs, reward, terminated, truncated, info = self.env.step(whole)
            seen = self._observations(obs, "step")
            paid = self._column(reward, "reward", "fiu").astype(float)
            terminated = self._column(terminated, "terminated", "b")
            truncated = self._column(truncated, "truncated", "b")
            over, late = terminated | truncated, self._after(terminated | truncated)
            terms = self._terms(info, over)
            if self.mode is AutoresetMode.SAME_STEP and over.any():
                seen = self._last_observations(seen, over, info)
        if late is not None:
            raise EnvironmentFault(
                f"{self.id}: environment {late} has not ended after {self.limit} steps, "
                "its time limit; give its own limit with max_episode_steps"
            )
        return seen[rows], paid[rows], terminated[rows], truncated[rows], {
            name: term[rows] for name, term in terms.items()
        }  # fmt: skip

    def _after(self, over: np.ndarray) -> int | None:
        """Count the step; an environment that plays beyond the time limit, if any."""
        began = self.ended & (self.mode is AutoresetMode.NEXT_STEP)
        self.length = np.where(began, 0, self.length + 1)
        late = np.flatnonzero(self.playing & (self.length > self.limit))
        self.playing &= ~over
        self.ended, self.fresh = over, {}
        return int(late[0]) if len(late) else None

    def _reset_idle(self, rows: np.ndarray) -> None:
        """Gymnasium forbids a step of an environment that has ended."""
        idle = self.ended.copy()
        idle[rows] = False
        if idle.any():
            self._reset([None] * self.count, idle)

    def _last_observations(
        self, seen: np.ndarray, over: np.ndarray, info: dict
    ) -> np.ndarray:
        """The observations before the resets of this step."""
        last = info.get("final_obs")
        if last is None:
            raise EnvironmentFault(
                f"{self.id}: an episode ended in mode SAME_STEP, and info has no "
                '"final_obs", its last observation'
            )
        seen = seen.copy()
        for k in np.flatnonzero(over):
            self.fresh[int(k)] = seen[k].copy()
            seen[k] = np.asarray(last[k], np.float32).reshape(-1)
        return seen

    # --- what it returned -------------------------------------------------------------

    def _observations(self, obs: Any, when: str) -> np.ndarray:
        """... as float32 [count, n]; a copy, for some reuse their buffer."""
        shape = (self.count, *self.obs_shape)
        array = obs if isinstance(obs, np.ndarray) else np.empty(0, object)
        if array.shape != shape or array.dtype.kind not in "fiub":
            what = f"of shape {array.shape} and type {array.dtype}"
            what = what if array is obs else f"of type {type(obs).__name__}"
            raise EnvironmentFault(
                f"{self.id}: {when} returned observations {what}; they must be an array "
                f"of numbers of shape {shape}"
            )
        return array.astype(np.float32).reshape(self.count, -1)

    def _column(self, values: Any, what: str, kinds: str) -> np.ndarray:
        array = np.asarray(values)
        if array.shape != (self.count,) or array.dtype.kind not in kinds:
            raise EnvironmentFault(
                f"{self.id}: step returned {what} of shape {array.shape} and type "
                f"{array.dtype}; it must hold {self.count} "
                f"{'truth values' if kinds == 'b' else 'numbers'}"
            )
        return array.copy()

    def _terms(self, info: dict, over: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of the reward; the first step decides which there are."""
        final = info.get("final_info", {}) if over.any() else {}
        if self.terms is None:
            found = {**info, **final}
            self.terms = [k for k in found if self._is_term(k, found[k])]
        terms = {}
        for name in self.terms:
            term = self._term(info, name)
            if name in final:  # what `info` has there is of the reset
                term[over] = self._term(final, name)[over]
            terms[name] = term
        return terms

    def _term(self, info: dict, name: str) -> np.ndarray:
        known = name in info and self._is_term(name, info[name])
        return np.array(info[name], float) if known else np.zeros(self.count)

    def _is_term(self, name: str, value: Any) -> bool:
        array = np.asarray(value) if str(name).startswith("reward_") else np.empty(0)
        return array.shape == (self.count,) and array.dtype.kind == "f"

    def close(self) -> None:
        with self.closing:
            self.env.close()


def mode_of(env_id: str, env: VectorEnv) -> AutoresetMode:
    """When it resets an environment that ended; refused if it does not say."""
    mode = (env.metadata or {}).get("autoreset_mode")
    with contextlib.suppress(ValueError):
        return AutoresetMode(mode)
    raise ConfigError(
        f'{env_id}: its metadata["autoreset_mode"] is {mode}; must be {MODES} of '
        "gymnasium.vector.AutoresetMode"
    )
