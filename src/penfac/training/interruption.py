"""What stops a run early: signals, a time budget, an environment that hangs."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from penfac.envs.calls import Watch
from penfac.errors import EnvironmentFault
from penfac.process import CtrlC

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Save everything and leave with this code."""

    def __init__(self, reason: str, exit_code: int):
        super().__init__(reason)
        self.exit_code = exit_code


class Interruption:
    """Turns signals and a deadline into one exception at a safe moment.

    The first signal only sets a flag, which collecting, evaluating and the loop poll. A
    person's second one ends the process at once: the disk is consistent at every moment.
    In an interactive session it ends the run, and the session goes on.
    """

    def __init__(self, stop_after: float | None):
        self.deadline = None if stop_after is None else time.monotonic() + stop_after
        self.received: int | None = None
        self.previous: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                ignored = signal.getsignal(number) == signal.SIG_IGN
                if number != signal.SIGHUP or not ignored:  # as nohup has it
                    self.previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame) -> None:
        if self.received is None:
            self.received = number
        elif number == signal.SIGINT and hasattr(sys, "ps1"):
            raise CtrlC
        elif insists(self.received, number):
            os._exit(128 + number)

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


def insists(first: int, second: int) -> bool:
    """Whether a second signal asks to leave at once, without saving.

    A closed terminal sends SIGHUP several times, and a service manager SIGTERM with it.
    A driver may tell a worker to end, and then end itself.
    """
    if second == signal.SIGTERM:
        worker = multiprocessing.parent_process() is not None
        return first != signal.SIGHUP and not worker
    return second == signal.SIGINT


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
        # counts its own pauses and not the clock, which goes on while Ctrl-Z stops us
        pause = min(1.0, self.timeout / 4)
        call, lasted = None, 0.0
        while not self.over.wait(pause):
            entered = self.watch.since()
            lasted = lasted + pause if entered == call else 0.0
            call = entered
            if call is not None and lasted >= self.timeout:
                self.on_hang()
                os._exit(EnvironmentFault.exit_code)
