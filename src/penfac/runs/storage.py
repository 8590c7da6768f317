"""Files that are there as a whole or not at all, and one process for each folder."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import socket
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from penfac.errors import CorruptFile, RunFolderBusy, StorageError

REASONS = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write",
    errno.EPERM: "no permission to write",
    errno.ELOOP: "is or has a link; a run folder holds none",
}
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
TEMPORARY = re.compile(r"\.tmp-([0-9]{1,9})-[0-9a-f]{32}|\.probe-[0-9a-f]{32}")
LARGEST = 64 * 2**20  # bytes of a JSON file: of an honest one, a few hundred thousand


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


def is_temporary(path: Path) -> bool:
    """Whether we gave it this name, for the time of writing."""
    return TEMPORARY.fullmatch(path.name) is not None


def replace_file(path: Path, data: bytes, sync: bool = False) -> None:
    """Write a whole file at once: readers see the old one or the new one."""
    temporary = temporary_in(path.parent)
    try:
        write_file(temporary, data, sync)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, sync: bool) -> None:
    with open(path, "wb", opener=no_link) as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def no_link(path: str, flags: int) -> int:
    """Open a file for `open`, but never where a link leads."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def read_file(path: Path, most: int = LARGEST) -> bytes:
    """A file as a whole, if it is a plain file and not larger than `most` bytes."""
    # a pipe without a writer must not be waited for
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise CorruptFile(f"{path}: is not a plain file")
        if about.st_size > most:
            raise CorruptFile(f"{path}: has {about.st_size} bytes, may have {most}")
        try:
            return file.read(about.st_size)
        except MemoryError:
            raise CorruptFile(f"{path}: does not fit into memory") from None


def refuse_links(folder: Path) -> None:
    """Refuse a folder of a run that reaches outside it, or holds what is no file."""
    for home, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(home, name)
            try:
                mode = path.lstat().st_mode
            except OSError:  # another process has just removed it
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                what = "a link" if stat.S_ISLNK(mode) else "neither file nor folder"
                raise CorruptFile(
                    f"{path}: is {what}; a run folder holds plain files and folders "
                    "alone, so remove it"
                )


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
    """One process at a time, or all that share it; the kernel releases the lock when a
    process dies."""

    def __init__(self, folder: Path, name: str = "lock", shared: bool = False):
        with storage(folder):
            self.file = open(  # noqa: SIM115
                folder / name, "a+", encoding="utf-8", opener=no_link
            )
        self.held = True  # False: the file system has no locks
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(self.file, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in NO_LOCKS:
                self.held = False
                return
            self.file.seek(0)
            owner = self.file.read(200).strip() or "another process"
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
        if self.held:
            with contextlib.suppress(OSError):  # a full disk hides nothing
                self.file.truncate(0)
        with contextlib.suppress(OSError):
            self.file.close()


# --- folders that appear as a whole --------------------------------------------------------


@contextlib.contextmanager
def prepared(parent: Path) -> Iterator[Path]:
    """A folder under another name, to be renamed when it is filled; what is not renamed
    goes, and so does what a killed process left."""
    with storage(parent):
        parent.mkdir(parents=True, exist_ok=True)
        for stray in parent.glob(".tmp-*"):
            remove_if_left(stray)
        temporary = temporary_in(parent)
        temporary.mkdir()
    try:
        with Lock(temporary):  # so that nobody takes it for one that was left
            yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            parent.rmdir()
        raise


def remove_if_left(folder: Path) -> None:
    """Remove a temporary folder whose process has ended."""
    ours = TEMPORARY.fullmatch(folder.name)
    if ours is None or folder.is_symlink() or not folder.is_dir():
        return
    with contextlib.suppress(OSError):
        os.kill(int(ours[1]), 0)
        return  # a process of this machine that still works on it
    with contextlib.suppress(RunFolderBusy, StorageError), Lock(folder):
        shutil.rmtree(folder, ignore_errors=True)
