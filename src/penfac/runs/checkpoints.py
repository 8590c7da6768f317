"""Checkpoints on the disk: `update-000120/{state.safetensors, state.json}`.

state.json seals the arrays and itself; nothing is read that does not verify.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import CorruptFile
from penfac.runs.csv_files import Mark
from penfac.runs.segments import Segment
from penfac.runs.storage import sync_folder, temporary_in, write_file

FORMAT = 1
Arrays = dict[str, np.ndarray]


class Replay(msgspec.Struct, frozen=True):
    """The segments that hold the replay."""

    capacity: int
    segments: list[Segment]


class Meta(msgspec.Struct, frozen=True):
    """The content of state.json; the run's own words come first."""

    identity: dict[str, Any]  # of the run's config
    counters: dict[str, int]
    versions: dict[str, str]
    format: int = FORMAT
    update: int = 0
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
        match = re.fullmatch(r"update-(\d+)(-evaluated)?", path.name)
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
        if folder.exists():  # one that does not verify is in the way
            shutil.rmtree(folder)
        os.rename(temporary, folder)
        sync_folder(home)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# --- reading -------------------------------------------------------------------------------


def read_segments(folder: Path) -> list[Segment]:
    """The segments that a checkpoint needs, as far as it can be read."""
    try:
        document = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return msgspec.convert(document["replay"], Replay).segments
    except (OSError, ValueError, LookupError, TypeError):
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
        document = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        version, sealed = document["format"], seal(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
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
    except (msgspec.ValidationError, OverflowError) as error:
        raise CorruptFile(f"{folder}: is not from penfac ({error})") from None


def read_checkpoint(folder: Path) -> tuple[Arrays, Meta]:
    """Everything is checked before anything is parsed into arrays."""
    meta = read_meta(folder)
    try:
        data = (folder / "state.safetensors").read_bytes()
    except OSError:
        raise CorruptFile(f"{folder}: is incomplete or not from penfac") from None
    if len(data) != meta.bytes:
        raise CorruptFile(
            f"{folder}: is truncated, has {len(data)} bytes of {meta.bytes}"
        )
    if hashlib.sha256(data).hexdigest() != meta.sha256:
        raise CorruptFile(
            f"{folder}: is damaged (the sha256 of state.safetensors does not match)"
        )
    try:
        return tensors_from_bytes(data), meta
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{folder}: has no safetensors file ({error})") from None
