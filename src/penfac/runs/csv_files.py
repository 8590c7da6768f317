"""The growing CSV files of a learner; a checkpoint remembers how long they were."""

import contextlib
import csv
import hashlib
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from penfac.errors import CorruptFile
from penfac.runs.storage import no_link, replace_file, storage

logger = logging.getLogger(__name__)
KEPT = ("progress.csv", "evaluations.csv")  # part of the promise of exact resume


class Mark(msgspec.Struct, frozen=True):
    """How long a CSV file is and what it holds."""

    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    sha256: str


def mark_of(data: bytes) -> Mark:
    return Mark(len(data), hashlib.sha256(data).hexdigest())


def fits(data: bytes, mark: Mark | None) -> bool:
    """Whether a file begins with what its checkpoint remembers."""
    return mark is None or mark_of(data[: mark.bytes]) == mark


def differs(path: Path) -> CorruptFile:
    return CorruptFile(f"{path}: differs from its checkpoint; was it edited or cut?")


class Appender:
    """One CSV file that only grows. One begun by an earlier version keeps its columns."""

    def __init__(self, path: Path, columns: list[str]):
        whole = cut_torn_line(path)
        header = whole.partition(b"\n")[0].decode()
        self.columns = header.split(",") if header else columns
        if not set(self.columns) & set(columns):
            raise CorruptFile(f"{path}: is not a table that penfac wrote")
        self.path, self.size, self.digest = path, len(whole), hashlib.sha256(whole)
        self.file: BinaryIO = open(path, "a+b", opener=no_link)  # noqa: SIM115

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Add rows, the header first."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(
            text, self.columns, extrasaction="ignore", lineterminator="\n"
        )
        if self.size == 0:
            writer.writeheader()
        writer.writerows(rows)
        data = text.getvalue().encode()
        self.file.write(data)
        self.file.flush()
        self.digest.update(data)
        self.size += len(data)

    def mark(self) -> Mark:
        """Sync to the disk; put the file back where someone removed or replaced it."""
        handle = self.file.fileno()
        os.fsync(handle)
        about = os.fstat(handle)
        if about.st_size != self.size:
            raise CorruptFile(
                f"{self.path}: was edited or cut while the run wrote it; undo it and "
                "resume, or start a new run"
            )
        if not (self.path.exists() and os.path.samestat(about, os.stat(self.path))):
            logger.warning("%s: was removed or replaced; put back", self.path)
            self.file.seek(0)
            replace_file(self.path, self.file.read(), sync=True)
            self.file.close()
            self.file = open(self.path, "a+b", opener=no_link)  # noqa: SIM115
        return Mark(self.size, self.digest.hexdigest())


class CsvFiles:
    """The CSV files of one folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.open: dict[str, Appender] = {}

    def append(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add rows to a file, which is opened if need be."""
        with storage(self.folder):
            if name not in self.open:
                self.open[name] = Appender(self.folder / name, list(rows[0]))
            self.open[name].append(rows)

    def marks(self) -> dict[str, Mark]:
        """What a checkpoint remembers; open files are synced."""
        return {
            name: self.open[name].mark()
            if name in self.open
            else mark_of(bytes_of(self.folder / name))
            for name in KEPT
        }

    def rewind(self, marks: dict[str, Mark] | None) -> None:
        """Cut the files back to what a checkpoint remembers; None: remove them."""
        for name in KEPT:
            path = self.folder / name
            if marks is None:
                with storage(self.folder):
                    path.unlink(missing_ok=True)
                continue
            mark = marks[name]
            if not fits(bytes_of(path), mark):
                raise differs(path)
            if path.exists():
                with storage(self.folder):
                    os.truncate(path, mark.bytes)

    def close(self) -> None:
        for appender in self.open.values():
            with contextlib.suppress(OSError):  # the failed write was already reported
                appender.file.close()
        self.open.clear()


# --- reading -----------------------------------------------------------------------------


@contextlib.contextmanager
def reading(
    file: Path, problem: str = "is not a table that penfac wrote"
) -> Iterator[None]:
    """Report any fault in the content of a file as a CorruptFile."""
    try:
        yield
    except (OSError, csv.Error, LookupError, TypeError, ValueError):
        raise CorruptFile(f"{file}: {problem}") from None


def bytes_of(path: Path) -> bytes:
    if path.is_dir():
        raise CorruptFile(f"{path}: is a folder, not a table")
    return path.read_bytes() if path.exists() else b""


def cut_torn_line(path: Path) -> bytes:
    """Cut an unfinished last line off the file; return the rest."""
    data = bytes_of(path)
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return whole


def whole_lines(data: bytes) -> list[str]:
    """The lines of a file without a last one that was not finished."""
    return data.decode().split("\n")[:-1]


def read_csv(path: Path, data: bytes | None = None) -> list[dict[str, str]]:
    """Rows of a CSV file, or of its bytes; an unfinished last line is left out."""
    try:
        data = bytes_of(path) if data is None else data
        rows = list(csv.DictReader(whole_lines(data)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(f"{path}: {error}") from None
    for number, row in enumerate(rows, start=2):
        if None in row.values() or None in row:
            raise CorruptFile(f"{path}: line {number} has the wrong number of columns")
    return rows


def read_header(path: Path) -> list[str]:
    """The columns of a CSV file; none where there is no file yet."""
    if not path.is_file():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])
