"""Processes that share the folder of a search: each decides alone, and each config has one
of them. Locks go with the process that holds them, so a kill leaves nothing behind."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from penfac.errors import RunFolderBusy
from penfac.runs.folder import RunFolder
from penfac.runs.storage import Lock, read_file

DECIDING, CLAIM = "deciding.lock", "claim.lock"
TURN = "turn.txt"  # who decided last
PAUSE = 0.05  # seconds between two attempts


class Share:
    """What this process has of a search."""

    def __init__(self, folder: Path):
        self.folder, self.claims = folder, {}
        self.me = uuid.uuid4().hex.encode()

    @contextlib.contextmanager
    def alone(self, poll: Callable[[], None]) -> Iterator[bool]:
        """Decide while nobody else does; True if another process decided last."""
        while True:
            try:
                lock = Lock(self.folder, DECIDING)
                break
            except RunFolderBusy:
                poll()
                time.sleep(PAUSE)
        with lock:
            yield self.take_turn()

    def take_turn(self) -> bool:
        last = self.folder / TURN
        if last.is_file() and read_file(last) == self.me:
            return False
        RunFolder(self.folder).write(TURN, self.me)
        return True

    def claim(self, arm: str) -> bool:
        """Take a config; False if another process has it."""
        with contextlib.suppress(RunFolderBusy):
            self.claims[arm] = Lock(self.folder / arm, CLAIM)
            return True
        return False

    def release(self, arm: str) -> None:
        self.claims.pop(arm).release()

    def is_free(self, arm: str) -> bool:
        free = arm not in self.claims and self.claim(arm)
        if free:
            self.release(arm)
        return free

    def close(self) -> None:
        for arm in list(self.claims):
            self.release(arm)
