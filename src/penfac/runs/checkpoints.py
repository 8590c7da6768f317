"""Checkpoints on the disk: `update-000120/{state.safetensors, state.json}`.

state.json seals the arrays and itself; nothing is read that does not verify.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import CorruptFile
from penfac.runs.csv_files import Mark
from penfac.runs.segments import Count, Segment
from penfac.runs.storage import read_file, sync_folder, temporary_in, write_file

FORMAT = 1
Arrays = dict[str, np.ndarray]


class Replay(msgspec.Struct, frozen=True):
    """The segments that hold the replay."""

    capacity: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    segments: list[Segment]


class Meta(msgspec.Struct, frozen=True):
    """The content of state.json; the run's own words come first."""

    identity: dict[str, Any]  # of the run's config
    counters: dict[str, Annotated[int, msgspec.Meta(ge=-1, le=2**53)]]
    versions: dict[str, str]
    format: int = FORMAT
    update: Count = 0
    csv: dict[str, Mark] = {}
    replay: Replay | None = None
    sha256: str = ""
    bytes: int = 0
    seal: str = ""

    def to_document(self) -> dict[str, Any]:
        """The content of state.json."""
        document = msgspec.to_builtins(self)
        return {k: v for k, v in document.items() if v is not None}


class Checkpoint(NamedTuple):
    """A checkpoint that verified, and what was wrong with newer ones."""

    arrays: Arrays
    meta: Meta
    complaints: list[str]


def newest_first(home: Path) -> list[Path]:
    """The checkpoint folders by number, never by time."""
    found = []
    for path in home.glob("update-*"):
        match = re.fullmatch(r"update-([0-9]+)(-evaluated)?", path.name)
        if match:
            found.append((int(match[1]), match[2] is not None, path))
    return [path for *_, path in sorted(found, reverse=True)]


def seal(document: dict[str, Any]) -> str:
    """The sha256 of the rest of state.json."""
    rest = {k: v for k, v in document.items() if k != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# --- writing -------------------------------------------------------------------------------


def write_checkpoint(folder: Path, arrays: Arrays, meta: Meta) -> None:
    """All or nothing: synced under another name, then renamed."""
    home = folder.parent
    temporary = temporary_in(home)
    try:
        temporary.mkdir()
        data = tensors_to_bytes(arrays)
        digest = hashlib.sha256(data).hexdigest()
        document = meta.to_document() | {"sha256": digest, "bytes": len(data)}
        document["seal"] = seal(document)
        text = json.dumps(document, indent=2, allow_nan=False)
        write_file(temporary / "state.safetensors", data, sync=True)
        write_file(temporary / "state.json", text.encode(), sync=True)
        sync_folder(temporary)
        if folder.is_dir():  # one that does not verify is in the way
            shutil.rmtree(folder)
        folder.unlink(missing_ok=True)
        os.rename(temporary, folder)
        sync_folder(home)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# --- reading -------------------------------------------------------------------------------


# what a file that someone damaged or made up runs into
FAULTS = (
    ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError,
)  # fmt: skip


def read_segments(folder: Path) -> list[Segment]:
    """The segments that a checkpoint needs; none where its state.json is damaged."""
    try:
        document = json.loads(read_file(folder / "state.json"))
        if document["seal"] != seal(document):
            return []
        return msgspec.convert(document["replay"], Replay).segments
    except (CorruptFile, OSError, *FAULTS):
        return []


def verifies(folder: Path) -> bool:
    try:
        read_checkpoint(folder)
    except CorruptFile:
        return False
    return True


def read_meta(folder: Path) -> Meta:
    """state.json, checked against its own seal; the arrays are left alone."""
    try:
        document = json.loads(read_file(folder / "state.json"))
        version, sealed = document["format"], seal(document)
    except (OSError, *FAULTS):
        raise CorruptFile(f"{folder}: is incomplete or not from penfac") from None
    if not isinstance(version, int) or version > FORMAT:
        raise CorruptFile(
            f"{folder}: has format {version}; this penfac reads up to {FORMAT}"
        )
    if document.get("seal") != sealed:
        raise CorruptFile(
            f"{folder}: is damaged (the sha256 of state.json does not match)"
        )
    try:
        return msgspec.convert(document, Meta)
    except (msgspec.ValidationError, *FAULTS) as error:
        raise CorruptFile(f"{folder}: is not from penfac ({error})") from None


def read_checkpoint(folder: Path) -> tuple[Arrays, Meta]:
    """Everything is checked before anything is parsed into arrays."""
    meta, file = read_meta(folder), folder / "state.safetensors"
    try:
        there = file.stat().st_size
        if there != meta.bytes:
            raise CorruptFile(
                f"{folder}: is truncated, has {there} bytes of {meta.bytes}"
            )
        data = read_file(file, most=there)
    except OSError:
        raise CorruptFile(f"{folder}: is incomplete or not from penfac") from None
    if hashlib.sha256(data).hexdigest() != meta.sha256:
        raise CorruptFile(
            f"{folder}: is damaged (the sha256 of state.safetensors does not match)"
        )
    try:
        return tensors_from_bytes(data), meta
    except (SafetensorError, *FAULTS) as error:
        raise CorruptFile(f"{folder}: has no safetensors file ({error})") from None
