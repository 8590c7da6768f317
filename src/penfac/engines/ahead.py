"""Programs that compile in threads while others compile or run.

On an accelerator a program compiles for a minute, and a run needs several: to begin, to
evaluate, to learn. A thread leaves its program in JAX's cache of compiled programs, where
the first call finds it.
"""

import contextlib
import threading
from typing import Any


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
