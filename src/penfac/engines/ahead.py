"""Programs that compile in threads while others compile or run.

On an accelerator a program compiles for a minute, and a run needs several: to begin, to
evaluate, to learn. A thread leaves its program in JAX's cache of compiled programs, where
the first call finds it.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import jax

from penfac.machine import runs_on_accelerator


class Ahead:
    """Threads that compile, by the name of their program."""

    def __init__(self) -> None:
        self.begun = False
        self.threads: dict[str, threading.Thread] = {}

    def compile(self, name: str, lowered: Any) -> None:
        def work() -> None:
            # an error comes up again in the call that needs the program
            with contextlib.suppress(Exception):
                lowered.compile()

        self.threads[name] = threading.Thread(target=work, name=f"compiling {name}")
        self.threads[name].start()

    def wait(self, name: str) -> None:
        """Wait for this program, if a thread compiles it."""
        if name in self.threads:
            self.threads.pop(name).join()


def programs_are_kept() -> bool:
    """Whether compiled programs are kept where other threads and processes find them."""
    return bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]


def keep_programs() -> None:
    """On an accelerator, keep compiled programs for the next process: compiling takes a
    minute there."""
    if not runs_on_accelerator() or programs_are_kept():
        return
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jax.config.update("jax_compilation_cache_dir", str(Path(home) / "penfac" / "xla"))
