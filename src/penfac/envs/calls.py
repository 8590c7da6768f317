"""Calls of an environment: timed for a watchdog, and whatever they raise is its fault."""

import os
import time
from collections.abc import Callable, Sequence

from penfac.errors import EnvironmentFault, PenfacError
from penfac.process import is_ctrl_c


class Watch:
    """When the environment was last entered and not yet left; a watchdog reads it."""

    entered: float | None = None
    elsewhere: Sequence[Callable[[], float | None]] = ()  # the same of other processes

    def since(self) -> float | None:
        """The earliest call that has not returned."""
        calls = (self.entered, *(entered() for entered in self.elsewhere))
        return min((when for when in calls if when is not None), default=None)


class Call:
    """A kind of call of an environment.

    SystemExit and KeyboardInterrupt are faults too: an environment does not end a run.
    """

    def __init__(self, env_id: str, what: str, watch: Watch):
        self.id, self.what, self.watch, self.process = env_id, what, watch, os.getpid()

    def __enter__(self) -> None:
        self.watch.entered = time.monotonic()

    def __exit__(
        self, kind: object, error: BaseException | None, where: object
    ) -> None:
        self.watch.entered = None
        if os.getpid() != self.process:
            os._exit(EnvironmentFault.exit_code)  # a fork that would train as well
        if error is None or isinstance(error, PenfacError) or is_ctrl_c(error):
            return
        raise EnvironmentFault(
            f"{self.id}: {self.what} raised {told(error)}"
        ) from error


def told(error: BaseException) -> str:
    """The kind and the text of an error whose own code may raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return type(error).__name__
