"""Environments that reach beyond themselves: they leave, fork, move, print and die.

Importing this module registers them, as `tests.faults.bad_envs` does.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tests.faults.bad_envs import LIMIT, Plain

WAYS = {
    "exit": SystemExit(0),
    "interrupt": KeyboardInterrupt(),
    "generator": GeneratorExit(),
    "cancelled": asyncio.CancelledError(),
}


class Leaves(Plain):
    """Raises what is no Exception in the call of its choice, once `path` is there."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, way: str = "exit", call: str = "step", render_mode=None, **more):
        super().__init__(**more)
        self.way, self.call, self.render_mode = way, call, render_mode
        self.leave("make")

    def leave(self, call: str) -> None:
        if self.path is not None and not Path(self.path).exists():
            return
        if call == self.call and (call != "step" or self.broken):
            raise WAYS[self.way]

    def reset(self, *, seed=None, options=None):
        self.leave("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.leave("step")
        return super().step(action)

    def render(self) -> Any:
        self.leave("render")
        return np.zeros((8, 8, 3), np.uint8)

    def close(self):
        self.leave("close")


class UnreadableError(Plain):
    """Its error raises as well, when it is read."""

    def reward(self):
        if self.broken:

            class Odd(Exception):
                def __str__(self):
                    raise SystemExit(0)

            raise Odd
        return super().reward()


class InfoTurnsText(Plain):
    """Names parts of the reward, then says something else."""

    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, "all is well" if self.broken else {"reward_alive": 1.0}


class PartTurnsText(Plain):
    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, {"reward_alive": "well" if self.broken else 1.0}


class OddTruth(Plain):
    def terminated(self):
        class Odd:
            def __bool__(self):
                raise SystemExit(0)

        return Odd() if self.broken else False


class Forks(Plain):
    """Both halves of a fork come back from the call."""

    def reward(self):
        if self.life == self.at:
            os.fork()
        return super().reward()


class ForkExits(Plain):
    """One half of a fork leaves as Python programs do."""

    def reward(self):
        if self.life == self.at and os.fork() == 0:
            sys.exit(0)
        return super().reward()


class Waits(Plain):
    """Once `path` is there, a reset takes long; it says so in that file."""

    def reset(self, *, seed=None, options=None):
        if self.path and Path(self.path).exists():
            Path(self.path).write_text("waiting")
            time.sleep(100)
        return super().reset(seed=seed, options=options)


class Moves(Plain):
    """Changes the folder of the process with every call."""

    def __init__(self, **more):
        super().__init__(**more)
        os.chdir("/")

    def reset(self, *, seed=None, options=None):
        os.chdir("/usr")
        return super().reset(seed=seed, options=options)

    def close(self):
        os.chdir("/")


class Prints(Plain):
    """Prints from Python and to the number 1, while it is played and when all is over."""

    def reward(self):
        print("how nice")
        os.write(1, b"how very nice\n")
        return super().reward()

    def __init__(self, **more):
        super().__init__(**more)
        import atexit

        atexit.register(print, "good bye")


class Dies(Plain):
    """A signal ends the process; once only, if a file remembers it."""

    number = signal.SIGSEGV

    def reward(self):
        path = self.path or os.environ.get("DIES_ONCE")
        if self.broken and not (path and Path(path).exists()):
            if path:
                Path(path).touch()
            os.kill(os.getpid(), self.number)
        return super().reward()


class Writes(Plain):
    """Writes into every array that it is given, and over those that it gave."""

    def __init__(self, **more):
        super().__init__(**more)
        self.given: list[np.ndarray] = []
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action):
        push = action.copy()
        action[...] = np.nan
        self.action_space.low[...] = -1e9
        for array in self.given:
            array[...] = np.nan
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        obs, *rest = super().step(push)
        self.given = [obs]
        return obs, *rest

    def observe(self):
        return self.state.copy()


def _register() -> None:
    for kind in list(globals().values()):
        if isinstance(kind, type) and issubclass(kind, Plain) and kind is not Plain:
            name = f"{kind.__name__}-v0"
            if name not in gymnasium.registry:
                gymnasium.register(name, entry_point=kind, max_episode_steps=LIMIT)


_register()
