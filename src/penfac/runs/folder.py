"""The run folder: what one learner leaves behind, and nothing that it could lose.

A checkpoint is written beside its place, synced, then renamed into it; the newest one
that verifies counts. CSV files only grow; going on from a checkpoint cuts them back to
the byte that it remembers.
"""

import contextlib
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec

from penfac.errors import CorruptFile, RunFolderBusy, printable
from penfac.policy import Policy
from penfac.runs import checkpoints, csv_files, segments
from penfac.runs.checkpoints import Arrays, Checkpoint, Meta
from penfac.runs.csv_files import CsvFiles, Mark
from penfac.runs.segments import Segment
from penfac.runs.storage import replace_file, storage
from penfac.runs.tensorboard import Board

KEEP = 2  # checkpoints
BEST = "policy-best"  # the policy of the best evaluation
NAMES = (  # of the files that a run or a search leaves in its own folder
    *csv_files.KEPT, "config.json", "timing.csv", "checkpoints", "replay", "policy", BEST,
    "curve.png", "tb", "status.json", "log.txt", "fault.json", "lock", "search.csv",
    "best.toml",
)  # fmt: skip


def create_folder(out: Path, algo: str, env_id: str, name: str | None) -> Path:
    """Make a new folder, runs/<algo>/<env>_<k>; two processes never get the same one."""
    parent = out / algo
    with storage(parent):
        parent.mkdir(parents=True, exist_ok=True)
        if name is not None:
            try:
                (parent / name).mkdir()
            except FileExistsError:
                raise RunFolderBusy(
                    f"{parent / name}: exists; choose another --name, "
                    "or continue it with `penfac resume`"
                ) from None
            return parent / name
        stem = folder_name(env_id)
        k = 1
        while True:
            path = parent / f"{stem}_{k}"
            try:
                path.mkdir()
                return path
            except FileExistsError:
                k += 1


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
            open(self.path / "log.txt", "a", encoding="utf-8") as f,
        ):
            f.write(f"{stamp} {printable(text)}\n")

    def sweep(self) -> None:
        """Remove what a killed process had not finished writing."""
        for stray in (*self.path.glob(".*-*"), *self.path.glob("policy*/.tmp-*")):
            if stray.name.startswith((".tmp-", ".probe-")):
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
        if folder.exists() and checkpoints.verifies(folder):
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
            self._prune(home)

    def _save_replay(self, arrays: Arrays, ring: Arrays) -> checkpoints.Replay:
        def write(name: str, data: bytes) -> None:
            self.write(f"replay/{name}", data, sync=True)

        total = int(arrays[segments.TOTAL])
        self.segments = segments.save(write, ring, total, self.segments)
        return checkpoints.Replay(len(next(iter(ring.values()))), self.segments)

    def _prune(self, home: Path) -> None:
        for old in checkpoints.newest_first(home)[KEEP:]:
            shutil.rmtree(old, ignore_errors=True)
        for stray in home.glob(".tmp-*"):
            shutil.rmtree(stray, ignore_errors=True)
        if self.segments:
            kept = map(checkpoints.read_segments, checkpoints.newest_first(home))
            segments.prune(self.path / "replay", [s for each in kept for s in each])

    def load_checkpoint(self) -> Checkpoint | None:
        """Read the newest checkpoint that verifies.

        None where there is none at all; an error where there are some and none is good.
        """
        complaints = []
        for folder in checkpoints.newest_first(self.path / "checkpoints"):
            try:
                arrays, meta = checkpoints.read_checkpoint(folder)
                if meta.replay is not None:
                    self.segments = meta.replay.segments
                    arrays |= segments.load(
                        self.path / "replay", self.segments, meta.replay.capacity
                    )
                return Checkpoint(arrays, meta, complaints)
            except CorruptFile as error:
                complaints.append(str(error))
        if complaints:
            raise CorruptFile("; ".join(complaints))
        return None
