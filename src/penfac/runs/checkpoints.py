"""Checkpoints as they lie on the disk: `update-000120/{state.safetensors, state.json}`.

The arrays are sealed by state.json, state.json by itself; what does not verify is not read.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes

from penfac.errors import CorruptFile

FORMAT = 1


def newest_first(home: Path) -> list[Path]:
    """Newest first, by number, never by time."""
    found = []
    for path in home.glob("update-*"):
        match = re.fullmatch(r"update-(\d+)(-evaluated)?", path.name)
        if match:
            found.append((int(match[1]), match[2] is not None, path))
    return [path for *_, path in sorted(found, reverse=True)]


def seal(meta: dict[str, Any]) -> str:
    """The sha256 of everything else that state.json says."""
    rest = {k: v for k, v in meta.items() if k != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_meta(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def verifies(folder: Path) -> bool:
    try:
        read_checkpoint(folder)
    except CorruptFile:
        return False
    return True


def read_checkpoint(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything is checked before anything is parsed into arrays."""
    try:
        meta = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        version, digest, size = meta["format"], meta["sha256"], meta["bytes"]
        sealed = seal(meta)
        data = (folder / "state.safetensors").read_bytes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise CorruptFile(f"{folder}: is incomplete or not from penfac") from None
    if not isinstance(version, int) or version > FORMAT:
        raise CorruptFile(
            f"{folder}: has format {version}; this penfac reads up to {FORMAT}"
        )
    if meta.get("seal") != sealed:
        raise CorruptFile(
            f"{folder}: is damaged (the sha256 of state.json does not match)"
        )
    if len(data) != size:
        raise CorruptFile(f"{folder}: is truncated, has {len(data)} bytes of {size}")
    if hashlib.sha256(data).hexdigest() != digest:
        raise CorruptFile(
            f"{folder}: is damaged (the sha256 of state.safetensors does not match)"
        )
    try:
        return tensors_from_bytes(data), meta
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{folder}: has no safetensors file ({error})") from None
