"""A replay on disk: segments of steps, each written once, listed by checkpoints.

A checkpoint every few seconds must not write a million steps again: it adds those that
are new, and names the segments which together hold all that the replay holds.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import CorruptFile

ROWS = "state.replay.rows."  # how an engine names the arrays of a ring
TOTAL = "state.replay.total"
Write = Callable[[str, bytes], None]  # writes a whole file, synced: all or nothing


class Segment(msgspec.Struct, frozen=True):
    """A file of consecutive steps."""

    file: str
    first: int
    rows: int
    sha256: str

    @property
    def end(self) -> int:
        return self.first + self.rows


def split(
    arrays: dict[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Separate the arrays of a checkpoint from the ring of the replay."""
    ring = {k: v for k, v in arrays.items() if k.startswith(ROWS)}
    return {k: v for k, v in arrays.items() if k not in ring}, ring


def save(
    write: Write, ring: dict[str, np.ndarray], total: int, known: list[Segment]
) -> list[Segment]:
    """Write the steps that `known` lacks; return the segments that hold all steps."""
    capacity = len(next(iter(ring.values())))
    oldest = max(0, total - capacity)
    known = [s for s in known if s.end > oldest]
    stored = max((s.end for s in known), default=oldest)
    if stored >= total:
        return known
    # the newest step of before may have learned since what follows it
    first = max(oldest, stored - 1)
    rows = np.arange(first, total) % capacity
    data = tensors_to_bytes({k[len(ROWS) :]: v[rows] for k, v in ring.items()})
    name = f"steps-{first:012d}-{total:012d}.safetensors"
    write(name, data)
    digest = hashlib.sha256(data).hexdigest()
    return [*known, Segment(name, first, total - first, digest)]


def load(home: Path, listed: list[Segment], capacity: int) -> dict[str, np.ndarray]:
    """Read the ring back; every segment is verified."""
    ring: dict[str, np.ndarray] = {}
    for segment in listed:
        path = home / Path(segment.file).name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CorruptFile(f"{path}: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != segment.sha256:
            raise CorruptFile(f"{path}: is damaged (the sha256 does not match)")
        try:
            tensors = tensors_from_bytes(data)
        except (SafetensorError, ValueError) as error:
            raise CorruptFile(f"{path}: is not a safetensors file ({error})") from None
        place = np.arange(segment.first, segment.end)
        for name, rows in tensors.items():
            if ROWS + name not in ring:
                ring[ROWS + name] = np.zeros((capacity, *rows.shape[1:]), rows.dtype)
            ring[ROWS + name][place % capacity] = rows
    return ring


def prune(home: Path, needed: list[Segment]) -> None:
    """Remove the segments that no checkpoint needs."""
    names = {segment.file for segment in needed}
    for path in home.glob("*"):
        if path.name not in names:
            path.unlink(missing_ok=True)
