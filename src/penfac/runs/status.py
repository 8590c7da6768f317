"""status.json: how a learner stands."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from penfac.errors import CorruptFile, Divergence, EnvironmentFault
from penfac.runs.storage import read_file

FILE = "status.json"
LASTING = (EnvironmentFault.exit_code, Divergence.exit_code)  # would fail again


class Status(msgspec.Struct, frozen=True):
    """How a learner stands; `state` is running, stopped, finished or failed."""

    state: str
    exit_code: int | None = None
    resumable: bool = True
    last_checkpoint: int | None = None
    error: str | None = None

    @property
    def lasting_failure(self) -> str | None:
        """The error of a learner that would fail again, if it has one."""
        failed = self.state == "failed" and self.exit_code in LASTING
        return str(self.error) if failed else None

    def to_document(self) -> dict[str, Any]:
        """The content of status.json."""
        return msgspec.to_builtins(self)


NEW = Status("new")  # a learner without a status.json


def read_status(path: Path) -> Status:
    """The status of a learner's folder; `NEW` where there is none or it is torn."""
    try:
        return msgspec.json.decode(read_file(path / FILE), type=Status)
    except (OSError, ValueError, RecursionError, CorruptFile):
        return NEW


def write_elsewhere(status: Status) -> str:
    """Write a status that its run folder refused to a temporary file; return its name."""
    handle, name = tempfile.mkstemp(prefix="penfac-status-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(status.to_document(), file, indent=2)
    return name
