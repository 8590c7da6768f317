"""Files that are there as a whole or not at all, and one process for each folder."""

import contextlib
import errno
import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

from penfac.errors import RunFolderBusy, StorageError

REASONS = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
}


@contextlib.contextmanager
def storage(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one clear line."""
    try:
        yield
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"{path}: {reason}") from error


def make_folder(path: Path) -> None:
    with storage(path):
        path.mkdir(parents=True, exist_ok=True)


def temporary_in(folder: Path) -> Path:
    """A name that nobody else uses; what a killed process left there is swept up."""
    return folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"


def replace_file(path: Path, data: bytes, sync: bool = False) -> None:
    """Write a whole file at once: readers see the old one or the new one."""
    temporary = temporary_in(path.parent)
    try:
        write_file(temporary, data, sync)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, sync: bool) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def probe_storage(folder: Path) -> None:
    """Write and sync one byte, so that a full or read-only disk is known at once."""
    with storage(folder):
        probe = folder / f".probe-{uuid.uuid4().hex}"
        try:
            write_file(probe, b".", sync=True)
        finally:
            probe.unlink(missing_ok=True)


HELD: "set[Lock]" = set()


def drop_locks() -> None:
    """In a fork: an environment's helper must not hold a run that its process has left."""
    for lock in HELD:
        with contextlib.suppress(OSError):
            lock.file.close()
    HELD.clear()


os.register_at_fork(after_in_child=drop_locks)


class Lock:
    """One process at a time; the kernel releases the lock when that process dies."""

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
        HELD.add(self)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        HELD.discard(self)
        with contextlib.suppress(OSError):  # a full disk must not hide what filled it
            self.file.truncate(0)
        with contextlib.suppress(OSError):
            self.file.close()
