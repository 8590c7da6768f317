"""Environments that reach for the process they run in; they begin at their 25th step."""

import ctypes
import os
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import gymnasium
import numpy as np
from tests.faults.bad_envs import LIMIT, Plain


class Rogue(Plain):
    """Does something of its own at one step, and then goes on as if nothing was."""

    def reward(self):
        if self.life == self.at:
            self.act()
        return super().reward()

    def act(self) -> None:
        raise NotImplementedError


# --- that leave ----------------------------------------------------------------------------


class Exits(Rogue):
    def act(self):
        sys.exit(0)


class ExitsWithWords(Rogue):
    def act(self):
        sys.exit("no licence")


class ExitsBuilding(Plain):
    def __init__(self):
        sys.exit(0)


class ExitsResetting(Plain):
    def reset(self, *, seed=None, options=None):
        sys.exit(0)


class Interrupts(Rogue):
    def act(self):
        raise KeyboardInterrupt


class Generates(Rogue):
    def act(self):
        raise GeneratorExit


class Segfaults(Rogue):
    def act(self):
        ctypes.string_at(0)


class CrashesOnce(Rogue):
    """A file remembers that it did."""

    def act(self):
        if not Path("crashed").exists():
            Path("crashed").touch()
            ctypes.string_at(0)


class Aborts(Rogue):
    def act(self):
        os.abort()


class LeavesAtOnce(Rogue):
    def act(self):
        os._exit(0)


class Recurses(Rogue):
    def act(self):
        self.act()


class Unspeakable(Rogue):
    def act(self):
        class Mute(Exception):
            def __str__(self):
                raise RuntimeError("cannot be said")

        raise Mute


class Odd(Rogue):
    """An error whose text no terminal should meet."""

    def act(self):
        raise RuntimeError("\x1b[2J\x1b]0;owned\x07 \udcff\n" + "x" * 10_000)


class OutOfMemory(Rogue):
    def act(self):
        raise MemoryError


# --- that hang -----------------------------------------------------------------------------


class Sleeps(Rogue):
    def act(self):
        time.sleep(1000)


class Spins(Rogue):
    """Holds the interpreter's lock all the while."""

    def act(self):
        ctypes.PyDLL(None).sleep(1000)


class SleepsClosing(Plain):
    def close(self):
        time.sleep(1000)


# --- that may, and change nothing ----------------------------------------------------------


class Prints(Rogue):
    def act(self):
        print("hello " * 1000, flush=True)
        print("oh no " * 1000, file=sys.stderr, flush=True)


class Warns(Rogue):
    def act(self):
        warnings.warn("old robot", DeprecationWarning, stacklevel=1)


class Wanders(Rogue):
    def act(self):
        os.chdir("/")


class MutatesAction(Plain):
    def step(self, action):
        given = super().step(action)
        action[...] = 99
        return given


class Reuses(Plain):
    """One array for all observations, spoiled before each step."""

    buffer = None

    def observe(self):
        if self.buffer is None:
            self.buffer = np.zeros(3, np.float32)
        self.buffer[:] = self.state
        return self.buffer

    def step(self, action):
        if self.buffer is not None:
            self.buffer[:] = np.nan
        return super().step(action)


class ReusesInfo(Plain):
    info: dict = {}  # noqa: RUF012

    def step(self, action):
        obs, reward, end, cut, _ = super().step(action)
        self.info["t"] = self.t
        return obs, reward, end, cut, self.info


class TurningInfo(Plain):
    """A part of the reward that is a number first and text later."""

    def step(self, action):
        obs, reward, end, cut, _ = super().step(action)
        return obs, reward, end, cut, {"reward_run": "fast" if self.broken else 1.0}


class Seeds(Rogue):
    def act(self):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)


class StrictFloats(Rogue):
    def act(self):
        np.seterr(all="raise")


class Threads(Rogue):
    def act(self):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


class Forks(Rogue):
    """A child that stays as long as its parent lives."""

    def act(self):
        if os.fork() == 0:
            os._exit(0)


class Handles(Rogue):
    def act(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Environs(Rogue):
    def act(self):
        os.environ.clear()


class Leaks(Rogue):
    def act(self):
        self.kept = [open("/dev/null") for _ in range(100)]  # noqa: SIM115


# --- that spoil the disk -------------------------------------------------------------------


def own_run() -> Path:
    return next(Path("runs").glob("*/run"))


class DeletesProgress(Rogue):
    def act(self):
        (own_run() / "progress.csv").unlink(missing_ok=True)


class ReplacesProgress(Rogue):
    def act(self):
        file = own_run() / "progress.csv"
        file.unlink(missing_ok=True)
        file.write_text("a,b\n1,2\n")


class DeletesRun(Rogue):
    def act(self):
        import shutil

        shutil.rmtree(own_run())


class DeletesCheckpoints(Rogue):
    def act(self):
        import shutil

        shutil.rmtree(own_run() / "checkpoints", ignore_errors=True)


def register() -> None:
    for kind in list(globals().values()):
        if isinstance(kind, type) and issubclass(kind, Plain):
            name = f"Rogue{kind.__name__}-v0"
            if kind is not Plain and name not in gymnasium.registry:
                gymnasium.register(name, entry_point=kind, max_episode_steps=LIMIT)


register()
