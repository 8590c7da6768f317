"""What stops a run early: signals, a time budget, an environment that hangs."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from penfac.envs.gym import Watch


class StopRequested(Exception):
    """Save everything and leave with this code."""

    def __init__(self, reason: str, exit_code: int):
        super().__init__(reason)
        self.exit_code = exit_code


class Interruption:
    """Turns SIGINT, SIGTERM and a deadline into one exception at a safe moment.

    The first signal only sets a flag, which collecting, evaluating and the loop poll. The
    second one ends the process at once: the disk is consistent at every moment. In an
    interactive session it ends the run, and the session goes on.
    """

    def __init__(self, stop_after: float | None):
        self.deadline = None if stop_after is None else time.monotonic() + stop_after
        self.received: int | None = None
        self.previous: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame) -> None:
        if self.received is not None:
            if number == signal.SIGINT and hasattr(sys, "ps1"):
                raise KeyboardInterrupt
            os._exit(128 + number)
        self.received = number

    def left(self) -> float | None:
        """Seconds until the deadline, if there is one."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def poll(self) -> None:
        if self.received is not None:
            name = signal.Signals(self.received).name
            raise StopRequested(f"stopped by {name}", 128 + self.received)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise StopRequested("stopped after the time given", 0)


class Watchdog:
    """Ends the process when one call of an environment lasts too long.

    A hung call cannot be left by an exception when it hangs in C, so the whole process
    goes; the checkpoint of the last interval is on the disk.
    """

    def __init__(self, watch: Watch, timeout: float, on_hang: Callable[[], None]):
        self.watch, self.timeout, self.on_hang = watch, timeout, on_hang
        self.over = threading.Event()

    def __enter__(self) -> "Watchdog":
        threading.Thread(target=self._guard, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()

    def _guard(self) -> None:
        while not self.over.wait(min(1.0, self.timeout / 4)):
            entered = self.watch.since()
            if entered is not None and time.monotonic() - entered > self.timeout:
                self.on_hang()
                os._exit(3)
