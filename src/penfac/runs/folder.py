"""The run folder: everything a run leaves behind, and nothing it could lose.

A checkpoint is written beside its place, synced, then renamed into it; the newest one
that verifies counts. CSV files only grow; a checkpoint remembers how long they were and
what they held, so going on from it cuts them back to that very byte.
"""

import contextlib
import csv
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import socket
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import ConfigError, CorruptFile, RunFolderBusy, StorageError
from penfac.runs import segments
from penfac.runs.checkpoints import (
    FORMAT,
    newest_first,
    read_checkpoint,
    read_meta,
    seal,
    verifies,
)
from penfac.runs.tensorboard import Board

KEEP = 2  # checkpoints
CSV_FILES = ("progress.csv", "evaluations.csv")
NAMES = (  # of what a run, or a search, leaves in its own folder
    *CSV_FILES, "config.json", "timing.csv", "checkpoints", "replay", "policy",
    "curve.png", "tb", "status.json", "log.txt", "fault.json", "lock", "search.csv",
    "best.toml",
)  # fmt: skip
REASONS = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
}


@contextlib.contextmanager
def storage(path: Path):
    """Turn what a disk says into one clear line."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"{path}: {reason}") from error


def create_folder(out: Path, algo: str, env_id: str, name: str | None) -> Path:
    """A new folder, runs/<algo>/<env>_<k>; two processes never get the same one."""
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
        stem = re.sub(r"[^A-Za-z0-9.-]+", "-", env_id)
        k = 1
        while True:
            path = parent / f"{stem}_{k}"
            try:
                path.mkdir()
                return path
            except FileExistsError:
                k += 1


class Lock:
    """One process at a time; the kernel lets go when that process dies."""

    def __init__(self, folder: Path, name: str = "lock"):
        with storage(folder):
            self.file = open(folder / name, "a+", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.seek(0)
            owner = self.file.read().strip() or "another process"
            self.file.close()
            what = folder if name == "lock" else folder / name.removesuffix(".lock")
            raise RunFolderBusy(f"{what} is in use by {owner}") from None
        with storage(folder):
            self.file.truncate(0)
            self.file.write(f"process {os.getpid()} on {socket.gethostname()}")
            self.file.flush()

    def release(self) -> None:
        with contextlib.suppress(OSError):  # a full disk may not hide what filled it
            self.file.truncate(0)
        with contextlib.suppress(OSError):
            self.file.close()


class RunFolder:
    """The folder of one learner."""

    def __init__(self, path: Path):
        self.path = path
        self.handles: dict[str, Any] = {}
        self.digests: dict[str, Any] = {}
        self.columns: dict[str, list[str]] = {}
        self.board: Board | None = None
        self.hparams: dict[str, Any] = {}  # what TensorBoard lists the run under
        self.segments: segments.Listing = []  # of the replay, as the disk has them

    # --- small files -------------------------------------------------------------------

    def write(self, name: str, data: bytes, sync: bool = False) -> None:
        """A whole file at once: readers see the old one or the new one."""
        path = self.path / name
        with storage(self.path):
            path.parent.mkdir(exist_ok=True)
            temporary = path.parent / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"
            try:
                _write_file(temporary, data, sync)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)

    def write_json(
        self, name: str, document: dict[str, Any], sync: bool = False
    ) -> None:
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        self.write(name, text.encode(), sync)

    def config(self) -> dict[str, Any]:
        return read_config(self.path)

    def log(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with (
            storage(self.path),
            open(self.path / "log.txt", "a", encoding="utf-8") as f,
        ):
            f.write(f"{stamp} {text}\n")

    # --- CSV ---------------------------------------------------------------------------

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add rows; the first one brings the header. A file that is there keeps its
        columns: one begun by an earlier version may know fewer."""
        with storage(self.path):
            handle = self.handles.get(name)
            if handle is None:
                whole = _whole_lines(self.path / name)
                handle = self.handles[name] = open(self.path / name, "ab")  # noqa: SIM115
                self.digests[name] = hashlib.sha256(whole)
                header = whole.partition(b"\n")[0].decode()
                self.columns[name] = header.split(",") if header else list(rows[0])
            text = io.StringIO(newline="")
            writer = csv.DictWriter(
                text, self.columns[name], extrasaction="ignore", lineterminator="\n"
            )
            if handle.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            data = text.getvalue().encode()
            handle.write(data)
            handle.flush()
            self.digests[name].update(data)

    def _csv_marks(self) -> dict[str, dict[str, Any]]:
        """How long each CSV is and what it holds, synced to the disk."""
        marks = {}
        for name in CSV_FILES:
            handle = self.handles.get(name)
            if handle is not None:
                os.fsync(handle.fileno())
                marks[name] = {
                    "bytes": handle.tell(),
                    "sha256": self.digests[name].hexdigest(),
                }
            else:
                path = self.path / name
                data = path.read_bytes() if path.exists() else b""
                digest = hashlib.sha256(data).hexdigest()
                marks[name] = {"bytes": len(data), "sha256": digest}
        return marks

    def rewind(self, marks: dict[str, dict[str, Any]] | None) -> None:
        """Cut the CSV files back to what a checkpoint remembers; None: to nothing."""
        for name in CSV_FILES:
            path = self.path / name
            if marks is None:
                with storage(self.path):
                    path.unlink(missing_ok=True)
                continue
            mark = marks[name]
            data = path.read_bytes()[: mark["bytes"]] if path.exists() else b""
            if hashlib.sha256(data).hexdigest() != mark["sha256"]:
                raise CorruptFile(
                    f"{path}: differs from its checkpoint; was it edited or cut?"
                )
            if path.exists():
                with storage(self.path):
                    os.truncate(path, mark["bytes"])

    # --- checkpoints -------------------------------------------------------------------

    def save_checkpoint(
        self,
        update: int,
        arrays: dict[str, np.ndarray],
        meta: dict[str, Any],
        evaluated: bool = False,
    ) -> None:
        """All or nothing: synced under another name, then renamed.

        An update has two moments, before it is evaluated and after: each has a name.
        """
        home = self.path / "checkpoints"
        final = home / (f"update-{update:06d}" + "-evaluated" * evaluated)
        if final.exists() and verifies(final):
            return
        with storage(self.path):
            home.mkdir(exist_ok=True)
            meta = meta | {"format": FORMAT, "update": update, "csv": self._csv_marks()}
            arrays, ring = segments.split(arrays)
            if ring:
                total = int(arrays[segments.TOTAL])
                self.segments = segments.save(
                    lambda name, data: self.write(f"replay/{name}", data, sync=True),
                    ring, total, self.segments,
                )  # fmt: skip
                capacity = len(next(iter(ring.values())))
                meta["replay"] = {"capacity": capacity, "segments": self.segments}
            temporary = home / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"
            try:
                temporary.mkdir()
                data = tensors_to_bytes(arrays)
                meta["sha256"] = hashlib.sha256(data).hexdigest()
                meta["bytes"] = len(data)
                meta["seal"] = seal(meta)
                text = json.dumps(meta, indent=2, allow_nan=False)
                _write_file(temporary / "state.safetensors", data, sync=True)
                _write_file(temporary / "state.json", text.encode(), sync=True)
                _sync_folder(temporary)
                if final.exists():  # one that does not verify is in the way
                    shutil.rmtree(final)
                os.rename(temporary, final)
                _sync_folder(home)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            self._prune(home)

    def _prune(self, home: Path) -> None:
        for old in newest_first(home)[KEEP:]:
            shutil.rmtree(old, ignore_errors=True)
        for stray in home.glob(".tmp-*"):
            shutil.rmtree(stray, ignore_errors=True)
        if self.segments:
            kept = [read_meta(folder).get("replay") for folder in newest_first(home)]
            segments.prune(self.path / "replay", [r["segments"] for r in kept if r])

    def load_checkpoint(
        self,
    ) -> tuple[dict[str, np.ndarray], dict[str, Any], list[str]] | None:
        """The newest checkpoint that verifies, and what was wrong with newer ones.

        None when there is none at all; an error when there are some and none is good.
        """
        complaints = []
        for folder in newest_first(self.path / "checkpoints"):
            try:
                arrays, meta = read_checkpoint(folder)
                if "replay" in meta:
                    self.segments = meta["replay"]["segments"]
                    capacity = meta["replay"]["capacity"]
                    home = self.path / "replay"
                    arrays |= segments.load(home, self.segments, capacity)
                return arrays, meta, complaints
            except CorruptFile as error:
                complaints.append(str(error))
        if complaints:
            raise CorruptFile("; ".join(complaints))
        return None

    # --- TensorBoard ---------------------------------------------------------------------

    def scalars(self, values: dict[str, float], step: int) -> None:
        with storage(self.path):
            if self.board is None:
                self.board = Board(self.path / "tb", step, self.hparams)
            self.board.scalars(values, step)

    def close(self) -> None:
        for handle in self.handles.values():
            with contextlib.suppress(OSError):  # what could not be written was told
                handle.close()
        self.handles.clear()
        if self.board is not None:
            with contextlib.suppress(OSError):
                self.board.file.close()
            self.board = None

    def sweep(self) -> None:
        """Remove what a killed process had not finished writing."""
        for stray in (*self.path.glob(".*-*"), *self.path.glob("policy/.tmp-*")):
            if stray.name.startswith((".tmp-", ".probe-")):
                stray.unlink(missing_ok=True)


def read_config(path: Path) -> dict[str, Any]:
    """config.json of a run folder, or a clear line why not."""
    file = path / "config.json"
    if not path.is_dir():
        raise ConfigError(f"{path}: no such run folder")
    if not file.is_file():
        raise ConfigError(f"{path}: is not a run folder (it has no config.json)")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        version = document["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise CorruptFile(f"{file}: is not a config that penfac wrote") from None
    if not isinstance(version, int) or version > FORMAT:
        raise CorruptFile(
            f"{file}: has format {version}, of penfac {document.get('penfac')}; "
            f"this penfac reads up to {FORMAT}"
        )
    return document


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV; a torn last line is left out, a bad one in the middle is an error."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        whole = lines[:-1]  # what follows the last newline was never finished
        rows = list(csv.DictReader(whole))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(f"{path}: {error}") from None
    for number, row in enumerate(rows, start=2):
        if None in row.values() or None in row:
            raise CorruptFile(f"{path}: line {number} has the wrong number of columns")
    return rows


def fallback_status(document: dict[str, Any]) -> str:
    """Where status went when the run folder refuses it."""
    handle, name = tempfile.mkstemp(prefix="penfac-status-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
    return name


def probe_storage(folder: Path) -> None:
    """Write and sync one byte, so that a full or read-only disk is known at once."""
    with storage(folder):
        probe = folder / f".probe-{uuid.uuid4().hex}"
        try:
            _write_file(probe, b".", sync=True)
        finally:
            probe.unlink(missing_ok=True)


def _write_file(path: Path, data: bytes, sync: bool) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _whole_lines(path: Path) -> bytes:
    """What a file holds, once a line that was never finished is cut off its end."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return whole
