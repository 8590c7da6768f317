"""Trackers of experiments: they hear what TensorBoard hears, in a thread of their own.

Training never waits for one and never ends with one: what fails, or does not answer, is
dropped with a line.
"""

import contextlib
import json
import queue
import re
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from penfac.errors import ConfigError, CorruptFile
from penfac.runs import trackers
from penfac.runs.folder import RunFolder
from penfac.runs.storage import read_file

FILE = "track.json"  # the ids under which trackers know a learner
CLOSING = 30.0  # seconds that the end of a run waits for one
WAITING = 10_000  # messages that may wait for one


class Tracker(Protocol):
    """What a tracker does; it is made as `Kind(about)`, in its thread."""

    def scalars(self, values: dict[str, float], step: int) -> None: ...

    def close(self, state: str) -> None:
        """The run is finished, stopped or failed."""


class About(NamedTuple):
    """The learner that a tracker hears of."""

    id: str  # the same when the run is resumed
    name: str
    group: str  # the run, search or study that it is part of
    settings: dict[str, Any]


Kind = Callable[[About], Tracker]
KINDS: dict[str, Kind] = {"wandb": trackers.Wandb, "mlflow": trackers.Mlflow}
NAMES = ("wandb", "mlflow", "tensorboard")  # TensorBoard's files are always written


def check(names: tuple[str, ...]) -> None:
    """Fail before training where a name is unknown or its package is missing."""
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--track {name}: must be {', '.join(NAMES)}")
        if name in trackers.CHECKS:
            trackers.CHECKS[name]()


def open_all(
    names: tuple[str, ...],
    path: Path,
    name: str,
    group: str,
    settings: dict[str, Any],
    tell: Callable[[str], None],
) -> "list[Courier]":
    """The trackers of the learner in a folder."""
    kinds = {name: KINDS[name] for name in dict.fromkeys(names) if name in KINDS}
    if not kinds:
        return []
    for word in kinds:
        trackers.hush(word)
    ids = read_ids(path)
    known = {word: ids.get(word, uuid.uuid4().hex[:16]) for word in kinds}
    RunFolder(path).write_json(FILE, ids | known)
    return [
        Courier(word, kind, About(known[word], name, group, settings), tell)
        for word, kind in kinds.items()
    ]


def read_ids(path: Path) -> dict[str, str]:
    """The ids of an earlier process; of an edited file what can be one."""
    try:
        document = json.loads(read_file(path / FILE))
    except (OSError, ValueError, RecursionError, CorruptFile):
        return {}
    found = document if isinstance(document, dict) else {}
    return {
        word: value
        for word, value in found.items()
        if word in KINDS and isinstance(value, str) and re.fullmatch(r"\w{1,64}", value)
    }


class Courier:
    """Carries messages to a tracker in a thread of its own."""

    def __init__(
        self, name: str, kind: Kind, about: About, tell: Callable[[str], None]
    ):
        self.name, self.kind, self.about, self.tell = name, kind, about, tell
        self.messages: queue.Queue[tuple[Any, ...]] = queue.Queue(WAITING)
        self.trouble: str | None = None
        self.told = False
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    def scalars(self, values: dict[str, float], step: int) -> None:
        self._say_trouble()
        if self.trouble is None:
            try:
                self.messages.put_nowait(("scalars", dict(values), step))
            except queue.Full:
                self.trouble = "it does not keep up"

    def close(self, state: str) -> None:
        with contextlib.suppress(queue.Full):
            self.messages.put_nowait(("close", state))
        self.thread.join(CLOSING)
        if self.thread.is_alive() and self.trouble is None:
            self.trouble = f"it did not end within {CLOSING:g} s"
        self._say_trouble()

    def _say_trouble(self) -> None:
        if self.trouble is not None and not self.told:
            self.told = True
            self.tell(
                f"--track {self.name}: {self.trouble}; the run goes on without it"
            )

    def _carry(self) -> None:
        try:
            tracker = self.kind(self.about)
            while self.trouble is None:
                what, *arguments = self.messages.get()
                getattr(tracker, what)(*arguments)
                if what == "close":
                    return
        except BaseException as error:  # not even SystemExit ends a run
            text = " ".join(str(error).split())[:300]
            self.trouble = f"{type(error).__name__}: {text}"
