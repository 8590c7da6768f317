"""A replay on disk: segments of steps, each written once, listed by checkpoints.

A checkpoint every few seconds must not write a million steps again: it adds those that
are new, and names the segments which together hold all that the replay holds.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_from_bytes
from safetensors.numpy import save as tensors_to_bytes

from penfac.errors import CorruptFile
from penfac.runs.storage import is_temporary, read_file

ROWS = "state.replay.rows."  # how an engine names the arrays of a ring
TOTAL = "state.replay.total"
NAME = r"steps-[0-9]{12,16}-[0-9]{12,16}\.safetensors"
MOST = 2**40  # bytes of a segment
Write = Callable[[str, bytes], None]  # writes a whole file, synced: all or nothing


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Segment(msgspec.Struct, frozen=True):
    """A file of consecutive steps."""

    file: Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]
    first: Count
    rows: Count
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


def load(
    home: Path, listed: list[Segment], capacity: int, total: int
) -> dict[str, np.ndarray]:
    """Read the ring of `total` steps back; every segment is verified."""
    ring: dict[str, np.ndarray] = {}
    end = max(0, total - capacity)
    for segment in listed:
        path = home / segment.file
        tensors = read_segment(path, segment)
        if not segment.first <= end <= segment.end <= total:
            raise CorruptFile(f"{path}: does not follow on the steps before")
        end = segment.end
        try:
            place = np.arange(segment.first, end)[-capacity:]
            for name, rows in tensors.items():
                if ROWS + name not in ring:
                    shape = (capacity, *rows.shape[1:])
                    ring[ROWS + name] = np.zeros(shape, rows.dtype)
                ring[ROWS + name][place % capacity] = rows[-capacity:]
        except (ValueError, IndexError, MemoryError) as error:
            raise CorruptFile(f"{path}: has no such replay ({error})") from None
    if end != total:
        raise CorruptFile(f"{home}: has the steps up to {end} of {total}")
    return ring


def read_segment(path: Path, segment: Segment) -> dict[str, np.ndarray]:
    """The rows of one segment, which is what the checkpoint says."""
    try:
        data = read_file(path, most=MOST)
    except OSError as error:
        raise CorruptFile(f"{path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != segment.sha256:
        raise CorruptFile(f"{path}: is damaged (the sha256 does not match)")
    try:
        tensors = tensors_from_bytes(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{path}: is not a safetensors file ({error})") from None
    if any(len(np.atleast_1d(rows)) != segment.rows for rows in tensors.values()):
        raise CorruptFile(f"{path}: has another number of steps than {segment.rows}")
    return tensors


def prune(home: Path, needed: list[Segment]) -> None:
    """Remove the segments that no checkpoint needs, and what a killed process left."""
    names = {segment.file for segment in needed}
    for path in home.glob("*"):
        ours = re.fullmatch(NAME, path.name) or is_temporary(path)
        if ours and path.name not in names and path.is_file():
            path.unlink(missing_ok=True)
