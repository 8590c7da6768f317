"""A process that holds some worlds of an environment and steps them when it is asked.

Its parent asks by `penfac.envs.process`. It leaves when its parent does, whatever happens.
"""

import contextlib
import ctypes
import logging
import mmap
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

from penfac.envs.calls import Watch
from penfac.envs.gym import GymWorld, check_id, open_world
from penfac.envs.worlds import GymWorlds
from penfac.errors import PenfacError

PR_SET_PDEATHSIG = 1  # of Linux


def serve(pipe: int, memory: int, parent: int) -> None:
    """Answer until the parent closes the pipe; `pipe` and `memory` are open files."""
    ignore_signals()
    end_with(parent)
    asked = Connection(pipe)
    try:
        worker = Worker(memory)
        asked.send((0, *worker.answer("take", asked.recv)))
        while True:
            number, *question = asked.recv()
            asked.send((number, *worker.answer(*question)))
    except (EOFError, OSError):  # nobody asks any more
        sys.stdout.flush()
        os._exit(0)  # threads of the environment may still run


def ignore_signals() -> None:
    """Leave signals that may reach every process to the parent. A handler, not SIG_IGN:
    programs that the environment starts would inherit that."""
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in stops:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)


def end_with(parent: int) -> None:
    """End when the parent does, even in a call of the environment."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:  # elsewhere than on Linux
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.getppid() != parent:  # it ended during our start
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class SharedWatch(Watch):
    """When the environment was entered, and how often since the last message: in memory
    that the parent reads."""

    def __init__(self, memory: int):
        self.shared = np.frombuffer(mmap.mmap(memory, mmap.PAGESIZE), float, 2)

    @property
    def entered(self) -> float | None:  # type: ignore
        return self.shared[0] or None

    @entered.setter
    def entered(self, when: float | None) -> None:  # type: ignore
        if when is not None:
            self.shared[1] += 1
        self.shared[0] = when or 0.0


class Worker:
    """Worlds in sets, one for training and one for evaluation; their numbers count from 0
    in each set of each process."""

    def __init__(self, memory: int):
        self.watch = SharedWatch(memory)
        self.sets: dict[int, GymWorlds] = {}
        self.heard: list[str] = []
        hear = logging.Handler(logging.INFO)
        hear.emit = lambda record: self.heard.append(record.getMessage())
        logging.getLogger("penfac").addHandler(hear)
        logging.getLogger("penfac").setLevel(logging.INFO)

    def answer(self, name: str, *given: Any) -> tuple[PenfacError | None, Any, list]:
        """An error or a result, and lines for the log."""
        error = result = None
        try:
            result = getattr(self, name)(*given)
        except PenfacError as fault:
            error = with_traceback(fault)
        except Exception as fault:
            what = f"unexpected {type(fault).__name__}: {fault}"
            error = with_traceback(PenfacError(what), fault)
        heard, self.heard = self.heard, []
        return error, result, heard

    def take(self, receive: Callable[[], tuple]) -> None:
        """Take what makes the environment; its classes may not exist here."""
        self.id, self.options, spec = receive()
        if spec is None:
            check_id(self.id)  # imports its module
        else:
            gymnasium.registry.setdefault(spec.id, spec)

    def open(self, which: int, count: int) -> None:
        """Make a set of worlds."""
        self.sets[which] = GymWorlds(self.open_one, count)

    def open_one(self) -> GymWorld:
        return open_world(self.id, self.options, self.watch)

    def about(self, which: int) -> tuple[str, Any, int]:
        worlds = self.sets[which]
        return worlds.id, worlds.actions, worlds.obs_dim

    def spec(self, which: int) -> Any:
        return self.sets[which].spec()

    def grow(self, which: int, count: int) -> None:
        self.sets[which].grow(count)

    def replace(self, which: int, w: int) -> None:
        self.sets[which].replace(w)

    def reset(self, which: int, w: int, seed: int) -> np.ndarray:
        return self.sets[which].reset(w, seed)

    def step(self, which: int, rows: bytes, actions: np.ndarray) -> tuple:
        """A step, as bytes: arrays cost three times as much to send."""
        worlds = self.sets[which]
        got = worlds.step(np.frombuffer(rows, np.int64), actions)
        for fault in got.faults.values():
            with_traceback(fault)
        arrays = (got.obs, got.reward, got.terminated, got.truncated)
        terms = {name: term.tobytes() for name, term in got.terms.items()}
        parts = tuple(array.tobytes() for array in arrays)
        return *parts, terms, got.faults

    def repeat(self, which: int, w: int, seed: int, actions: list) -> np.ndarray:
        """Bring a world to where it was: from the same seed, by the same actions."""
        world = self.sets[which].worlds[w]
        obs = world.reset(seed)
        for action in actions:
            obs = world.step(action)[0]
        return obs

    def close(self, which: int) -> None:
        self.sets.pop(which).close()


def with_traceback(error: PenfacError, cause: Exception | None = None) -> PenfacError:
    """The error with its traceback as a note: the traceback itself cannot be sent."""
    error.add_note("".join(traceback.format_exception(cause or error)).rstrip())
    return error
