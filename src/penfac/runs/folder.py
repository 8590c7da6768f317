"""The run folder: what one learner leaves behind, and nothing that it could lose.

A checkpoint is written beside its place, synced, then renamed into it; the newest one
that verifies counts. CSV files only grow; going on from a checkpoint cuts them back to
the byte that it remembers.
"""

import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from penfac.errors import CorruptFile, PenfacError, RunFolderBusy, printable
from penfac.policy import Policy
from penfac.runs import checkpoints, csv_files, segments
from penfac.runs.checkpoints import Arrays, Checkpoint, Meta
from penfac.runs.csv_files import CsvFiles, Mark
from penfac.runs.segments import Segment
from penfac.runs.storage import (
    is_temporary,
    no_link,
    prepared,
    replace_file,
    storage,
)
from penfac.runs.tensorboard import Board

KEEP = 2  # checkpoints
BEST = "policy-best"  # the policy of the best evaluation
NAMES = (  # of the files that a run or a search leaves in its own folder
    *csv_files.KEPT, "config.json", "timing.csv", "checkpoints", "replay", "policy", BEST,
    "curve.png", "tb", "status.json", "log.txt", "fault.json", "lock", "search.csv",
    "best.toml", "optuna.journal", "track.json", "deciding.lock", "claim.lock", "turn.txt",
)  # fmt: skip


TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)


def create_folder(
    out: Path, algo: str, env_id: str, name: str | None, fill: Callable[[Path], None]
) -> Path:
    """Make a new folder, runs/<algo>/<env>_<k>, which appears when `fill` has filled it;
    two processes never get the same one."""
    parent = out / algo
    stem = folder_name(env_id)
    names = (f"{stem}_{k}" for k in itertools.count(1))
    with prepared(parent) as temporary:
        try:
            fill(temporary)
        except PenfacError as error:  # the name that it would have had says more
            where = str(parent / (name or stem))
            error.args = (str(error).replace(str(temporary), where),)
            raise
        for path in (parent / x for x in (names if name is None else [name])):
            with storage(path):
                try:
                    os.rename(temporary, path)  # over an empty folder, never another
                    return path
                except OSError as error:
                    if error.errno not in TAKEN:
                        raise
        raise RunFolderBusy(
            f"{parent / str(name)}: exists; choose another --name, "
            "or continue it with `penfac resume`"
        )


def folder_name(env_id: str) -> str:
    """The id of an environment as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", env_id)


class RunFolder:
    """The folder of one learner."""

    def __init__(self, path: Path):
        self.path = path
        self.tables = CsvFiles(path)
        self.board: Board | None = None
        self.hparams: dict[str, Any] = {}  # the settings that TensorBoard lists
        self.segments: list[Segment] = []  # of the replay on the disk
        self.refused: set[Path] = set()  # checkpoints that cannot be used

    # --- small files -------------------------------------------------------------------

    def write(self, name: str, data: bytes, sync: bool = False) -> None:
        """Write a whole file at once: readers see the old one or the new one."""
        path = self.path / name
        with storage(self.path):
            path.parent.mkdir(exist_ok=True)
            replace_file(path, data, sync)

    def remove(self, name: str) -> None:
        with storage(self.path):
            (self.path / name).unlink(missing_ok=True)

    def write_json(
        self, name: str, document: dict[str, Any], sync: bool = False
    ) -> None:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        self.write(name, text.encode(), sync)

    def write_policy(self, name: str, policy: Policy) -> None:
        """Write the folder of a policy: the file itself, and a text for people."""
        self.write(f"{name}/policy.safetensors", policy.to_bytes())
        self.write_json(f"{name}/policy.json", policy.description())

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with (
            storage(self.path),
            open(
                self.path / "log.txt",
                "a",
                encoding="utf-8",
                errors="backslashreplace",
                opener=no_link,
            ) as f,
        ):
            f.write(f"{stamp} {printable(text)}\n")

    def sweep(self) -> None:
        """Remove what a killed process had not finished writing."""
        for stray in (*self.path.glob(".*-*"), *self.path.glob("policy*/.tmp-*")):
            if is_temporary(stray) and stray.is_file():
                stray.unlink(missing_ok=True)

    # --- rows --------------------------------------------------------------------------

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add rows to a CSV file."""
        self.tables.append(name, rows)

    def rewind(self, marks: dict[str, Mark] | None) -> None:
        """Cut the CSV files back to what a checkpoint remembers; None: remove them."""
        self.tables.rewind(marks)

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Add values to the TensorBoard file."""
        with storage(self.path):
            if self.board is None:
                self.board = Board(self.path / "tb", step, self.hparams)
            self.board.scalars(values, step)

    def close(self) -> None:
        self.tables.close()
        if self.board is not None:
            with contextlib.suppress(OSError):
                self.board.file.close()
            self.board = None

    # --- checkpoints -------------------------------------------------------------------

    def save_checkpoint(
        self, update: int, arrays: Arrays, meta: Meta, evaluated: bool = False
    ) -> None:
        """Save all or nothing.

        An update can be saved before and after its evaluation: each has a name.
        """
        home = self.path / "checkpoints"
        folder = home / (f"update-{update:06d}" + "-evaluated" * evaluated)
        usable = folder.exists() and folder not in self.refused
        if usable and checkpoints.verifies(folder):
            return
        with storage(self.path):
            home.mkdir(exist_ok=True)
            marks = self.tables.marks()
            arrays, ring = segments.split(arrays)
            replay = self._save_replay(arrays, ring) if ring else None
            meta = msgspec.structs.replace(
                meta, format=checkpoints.FORMAT, update=update, csv=marks, replay=replay
            )
            checkpoints.write_checkpoint(folder, arrays, meta)
            self._prune(folder)

    def _save_replay(self, arrays: Arrays, ring: Arrays) -> checkpoints.Replay:
        def write(name: str, data: bytes) -> None:
            self.write(f"replay/{name}", data, sync=True)

        total = int(arrays[segments.TOTAL])
        self.segments = segments.save(write, ring, total, self.segments)
        return checkpoints.Replay(len(next(iter(ring.values()))), self.segments)

    def _prune(self, newest: Path) -> None:
        home = newest.parent
        found = checkpoints.newest_first(home)
        # one that is newer than what was just saved did not verify when the run went on
        kept = found[found.index(newest) :][:KEEP]
        for old in set(found) - set(kept):
            shutil.rmtree(old, ignore_errors=True)
        for stray in filter(is_temporary, home.glob(".tmp-*")):
            shutil.rmtree(stray, ignore_errors=True)
        if self.segments:
            needed = [s for each in kept for s in checkpoints.read_segments(each)]
            segments.prune(self.path / "replay", needed)

    def load_checkpoint(self) -> Checkpoint | None:
        """Read the newest checkpoint that verifies.

        None where there is none at all; an error where there are some and none is good.
        """
        complaints = []
        for folder in checkpoints.newest_first(self.path / "checkpoints"):
            try:
                arrays, meta = checkpoints.read_checkpoint(folder)
                if meta.replay is not None and meta.replay.segments:
                    listed, capacity = meta.replay.segments, meta.replay.capacity
                    total, home = total_of(arrays, folder), self.path / "replay"
                    arrays |= segments.load(home, listed, capacity, total)
                    self.segments = listed
                return Checkpoint(arrays, meta, complaints)
            except CorruptFile as error:
                complaints.append(str(error))
                self.refused.add(folder)
        if complaints:
            raise CorruptFile("; ".join(complaints))
        return None


def total_of(arrays: Arrays, folder: Path) -> int:
    """The number of steps that a replay has seen."""
    try:
        return int(arrays[segments.TOTAL])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptFile(f"{folder}: has no number of steps ({error})") from None
