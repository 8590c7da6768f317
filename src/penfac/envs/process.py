"""A process that steps environments, and the way to ask it; it runs penfac.envs.worker."""

import contextlib
import json
import logging
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Pipe
from typing import Any

import numpy as np

LOG = logging.getLogger(__name__)
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from penfac.envs.worker import serve; serve(*map(int, sys.argv[2:]))"
)
# an environment that computes on a GPU leaves room there for others
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
PATIENCE = 2.0  # seconds that a process may take to leave


class Died(Exception):
    """A process ended without an answer; `calls` of the environment had begun."""

    def __init__(self, how: str, calls: int):
        super().__init__(how)
        self.calls = calls


class EnvProcess:
    """A process with some worlds, and the way to ask it."""

    def __init__(self, recipe: bytes, heard: set[str]):
        self.recipe, self.asked, self.heard = recipe, 0, heard
        self.start()

    def start(self) -> None:
        self.memory = open_memory()
        # when it entered the environment, and how often since the last question
        page = mmap.mmap(self.memory, mmap.PAGESIZE)
        self.shared = np.frombuffer(page, float, 2)
        self.pipe, theirs = Pipe()
        numbers = theirs.fileno(), self.memory, os.getpid()
        paths = json.dumps([str(path) or os.getcwd() for path in sys.path])
        stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, stops
        )  # until it ignores them
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, paths, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                env=ENVIRONMENT | os.environ,
                pass_fds=numbers[:2],
                process_group=0,  # Ctrl-C reaches the parent alone
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(self.recipe)

    def ask(self, name: str, *more: Any) -> None:
        self.asked += 1
        self.shared[1] = 0
        with contextlib.suppress(OSError):  # it died: `answer` tells
            self.pipe.send((self.asked, name, *more))

    def answer(self) -> Any:
        """The result of the last question, or its error."""
        while True:
            try:
                number, error, result, heard = self.pipe.recv()
            except (EOFError, OSError):
                raise self._death() from None
            for line in heard:
                if line not in self.heard:  # another process said it already
                    self.heard.add(line)
                    LOG.info("%s", line)
            if number < self.asked:  # an exception left it unread
                continue
            if error is not None:
                raise error
            return result

    def _death(self) -> Died:
        calls = int(self.shared[1])
        self.leave()
        code = self.process.returncode
        if code < 0:
            return Died(f"was killed by {signal.Signals(-code).name}", calls)
        return Died(f"ended with code {code}", calls)

    def entered(self) -> float | None:
        return float(self.shared[0]) or None

    def leave(self) -> None:
        """Let it go, or make it."""
        self.pipe.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.memory)


def open_memory() -> int:
    """A page of memory that another process can share, as an open file without a name."""
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("penfac")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.truncate(memory, mmap.PAGESIZE)
    return memory
