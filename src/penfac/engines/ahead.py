"""Programs that compile on threads of their own, while there is something else to do.

On an accelerator a program compiles for a minute, and a run needs several: one to begin,
one to judge, one to learn. A thread leaves its program in JAX's cache of compiled
programs, where the first call finds it.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import jax

from penfac.machine import runs_on_accelerator


class Ahead:
    def __init__(self) -> None:
        self.begun = False
        self.threads: dict[str, threading.Thread] = {}

    def compile(self, name: str, lowered: Any) -> None:
        def work() -> None:
            # the call that needs the program says what is wrong with it
            with contextlib.suppress(Exception):
                lowered.compile()

        self.threads[name] = threading.Thread(target=work, name=f"compiling {name}")
        self.threads[name].start()

    def wait(self, name: str) -> None:
        """Until this one is there, if it is on its way."""
        if name in self.threads:
            self.threads.pop(name).join()


def remembered() -> bool:
    """Whether compiled programs are kept where another thread or process finds them."""
    return bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]


def remember_programs() -> None:
    """On an accelerator, where compiling takes a minute, the next process need not."""
    if not runs_on_accelerator() or remembered():
        return
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jax.config.update("jax_compilation_cache_dir", str(Path(home) / "penfac" / "xla"))
