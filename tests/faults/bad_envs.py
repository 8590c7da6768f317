"""Environments that break the contract, or keep it in a way few others do.

Importing this module registers them: `--env tests.faults.bad_envs:RaisesResetting-v0`.
Counts are of one environment object's life, so an evaluation, which plays fewer steps,
passes where training meets the fault.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LIMIT = 10  # steps of an episode
FAULT_AT = 25  # the step of an object's life at which it breaks


class Plain(gymnasium.Env):
    """Nothing wrong: three numbers in, one action, and every action must be legal."""

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own idiom
    observation_space: spaces.Space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space: spaces.Space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(
        self,
        at: int = FAULT_AT,
        path: str | None = None,
        chosen: list[int] | None = None,
    ):
        self.at, self.path = at, path
        self.chosen = chosen or []  # episodes by the seed they are reset with
        self.life = self.t = 0
        self.seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self.t, self.seed = 0, seed
        self.state = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.observe(), {}

    def step(self, action: Any):
        assert self.action_space.contains(action), f"{action} is not a legal action"
        self.life, self.t = self.life + 1, self.t + 1
        push = np.float32(np.mean(action))
        self.state = np.float32(0.9) * self.state + np.float32(0.1) * push
        return self.observe(), self.reward(), self.terminated(), False, {}

    def observe(self) -> Any:
        return self.state.copy()

    def reward(self) -> Any:
        return -float(np.sum(self.state**2))

    def terminated(self) -> Any:
        return False

    @property
    def broken(self) -> bool:
        return self.life >= self.at


# --- raising and hanging --------------------------------------------------------------


class RaisesBuilding(Plain):
    def __init__(self):
        raise RuntimeError("no licence for this robot")


class RaisesResetting(Plain):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("the gripper is stuck")


class RaisesStepping(Plain):
    def reward(self):
        if self.broken:
            raise RuntimeError("the motor burned\nand the gearbox with it")
        return super().reward()


class RaisesOnce(Plain):
    """Breaks once; `path` remembers that it did."""

    def reward(self):
        if self.broken and not Path(self.path).exists():
            Path(self.path).touch()
            raise RuntimeError("a cable came loose")
        return super().reward()


class RaisesResettingOnce(Plain):
    def reset(self, *, seed=None, options=None):
        if self.broken and not Path(self.path).exists():
            Path(self.path).touch()
            raise RuntimeError("the door is locked")
        return super().reset(seed=seed, options=options)


class RaisesInChosen(Plain):
    """The chosen episodes break whenever they are played, others never do."""

    def reward(self):
        if self.seed in self.chosen and self.t == 3:
            raise RuntimeError("a bad place")
        return super().reward()


class DiesInChosen(Plain):
    """Takes its process with it."""

    def reward(self):
        if self.seed in self.chosen and self.t == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reward()


class DiesResetting(Plain):
    def reset(self, *, seed=None, options=None):
        if seed in self.chosen:
            os._exit(7)
        return super().reset(seed=seed, options=options)


class RaisesClosing(Plain):
    def close(self):
        raise RuntimeError("the window is gone")


class Hangs(Plain):
    def reward(self):
        if self.broken:
            time.sleep(1000)
        return super().reward()


class HangsResetting(Plain):
    def reset(self, *, seed=None, options=None):
        time.sleep(1000)


class HangsBuilding(Plain):
    def __init__(self):
        time.sleep(1000)


# --- numbers --------------------------------------------------------------------------


class NanAtReset(Plain):
    def observe(self):
        return np.array([0, np.nan, 0], np.float32) if self.t == 0 else self.state


class NanAtStep(Plain):
    def observe(self):
        state = self.state.copy()
        if self.broken:
            state[2] = np.nan
        return state


class InfAtStep(Plain):
    def observe(self):
        state = self.state.copy()
        if self.broken:
            state[1] = -np.inf
        return state


class NanInFinal(Plain):
    """Only the observation after an episode's last step is bad."""

    def observe(self):
        state = self.state.copy()
        if self.broken and self.t == LIMIT:
            state[0] = np.nan
        return state


class HugeObservation(Plain):
    """Finite in float64, infinite in float32."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def observe(self):
        return self.state.astype(np.float64) * (1e300 if self.broken else 1)


class NanInChosen(Plain):
    def observe(self):
        bad = self.seed in self.chosen and self.t == 3
        return np.full(3, np.nan, np.float32) if bad else self.state.copy()


class FarInChosen(Plain):
    """Observes the largest numbers there are in the chosen episodes: legal, but no use."""

    def observe(self):
        far = np.array([3e38, -3e38, 3e38], np.float32)
        return far if self.seed in self.chosen else self.state.copy()


class OddReward(Plain):
    """Pays `pay` when broken; what is odd about it is for the subclasses to say."""

    pay: Any = 0.0

    def reward(self):
        return self.pay if self.broken else super().reward()


class NanReward(OddReward):
    pay = float("nan")


class InfReward(OddReward):
    pay = float("-inf")


class HugeReward(OddReward):
    pay = 1e38


class HugerReward(OddReward):
    """Finite in float64, infinite in float32."""

    pay = 1e39


class HugestReward(OddReward):
    """Two of them overflow float64; met from the first step on."""

    pay = 1e308


class HugeInChosen(Plain):
    """Pays too much in the chosen episodes, and there alone."""

    def reward(self):
        return 1e38 if self.seed in self.chosen else super().reward()


class ZeroReward(Plain):
    def reward(self):
        return 0.0


class NoneReward(OddReward):
    pay = None


class BoolReward(OddReward):
    pay = True


class WordReward(OddReward):
    pay = "1.0"


class TwoRewards(OddReward):
    pay = np.zeros(2)


class ArrayReward(Plain):
    def reward(self):
        return np.array([super().reward()], np.float32)


class ScalarArrayReward(Plain):
    def reward(self):
        return np.array(super().reward())


class IntReward(Plain):
    def reward(self):
        return -1


# --- observations ---------------------------------------------------------------------


class WrongShape(Plain):
    def observe(self):
        return np.zeros(4, np.float32) if self.broken else self.state


class ObjectObservation(Plain):
    def observe(self):
        return self.state.astype(object) if self.broken else self.state


class ListObservation(Plain):
    def observe(self):
        return self.state.tolist()


class Float64Observation(Plain):
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def observe(self):
        return self.state.astype(np.float64)


class Strided(Plain):
    """A view with a stride: the memory between its numbers is not its own."""

    def observe(self):
        wide = np.full(6, np.nan, np.float32)
        wide[::2] = self.state
        return wide[::2]


class ReusedBuffer(Plain):
    """Hands out the same array every time and changes it in place."""

    def observe(self):
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros(3, np.float32)
        self.buffer[:] = self.state
        return self.buffer


class Dictionary(Plain):
    observation_space = spaces.Dict(
        {
            "place": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "speed": spaces.Box(-np.inf, np.inf, (1,), np.float32),
        }
    )

    def observe(self):
        return {"place": self.state[:2].copy(), "speed": self.state[2:].copy()}


class Swapped(Dictionary):
    """The same parts, inserted in the other order."""

    def observe(self):
        return dict(reversed(super().observe().items()))


class Tuple(Plain):
    observation_space = spaces.Tuple((spaces.Box(-1, 1, (3,), np.float32),))


class Image(Plain):
    observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)

    def observe(self):
        return np.full((4, 4, 3), int(abs(self.state[0]) * 100), np.uint8)


# --- ends -----------------------------------------------------------------------------


class Endless(Plain):
    """Registered without a time limit."""


class OneStep(Plain):
    def terminated(self):
        return True


class BothFlags(Plain):
    """Terminates at the very step at which its time limit truncates."""

    def terminated(self):
        return self.t == LIMIT


class ArrayFlag(Plain):
    def terminated(self):
        return np.array([False, False])


class OldInterface(Plain):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


# --- actions --------------------------------------------------------------------------


class Discrete(Plain):
    action_space = spaces.Discrete(3)


class MultiDiscrete(Plain):
    action_space = spaces.MultiDiscrete([2, 3])


class IntActions(Plain):
    action_space = spaces.Box(-2, 2, (1,), np.int32)


class Unbounded(Plain):
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class HalfBounded(Plain):
    action_space = spaces.Box(
        np.zeros(2, np.float32), np.array([np.inf, 5], np.float32)
    )


class NoRoom(Plain):
    action_space = spaces.Box(np.array([-1, 2], np.float32), np.full(2, 2, np.float32))


class NanBounds(Plain):
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space.low = np.array([np.nan], np.float32)


class Asymmetric(Plain):
    action_space = spaces.Box(
        np.array([-1.0, 0.1]), np.array([3.0, 0.3]), dtype=np.float64
    )


class Shaped(Plain):
    action_space = spaces.Box(-2, 1, (2, 3), np.float32)


class Scalar(Plain):
    action_space = spaces.Box(-1, 1, (), np.float32)


def _register() -> None:
    kinds = [
        kind
        for kind in globals().values()
        if isinstance(kind, type) and issubclass(kind, Plain)
    ]
    for kind in kinds:
        name = f"{kind.__name__}-v0"
        if name in gymnasium.registry:
            continue
        limit = None if kind is Endless else LIMIT
        gymnasium.register(name, entry_point=kind, max_episode_steps=limit)


_register()
