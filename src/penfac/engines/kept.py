"""Compiled programs are kept for the next process: compiling is most of a short run."""

import contextlib
import hashlib
import os
import platform
import threading
from pathlib import Path

import jax

try:
    from jax._src import compilation_cache
    from jax._src.lru_cache import LRUCache
except ImportError:  # a JAX that keeps programs in another way: each process compiles
    compilation_cache, LRUCache = None, object

from penfac.machine import runs_on_accelerator

MOST = 10**9  # bytes of a folder of programs


def keep_programs() -> None:
    """Keep programs in a folder of the user's, unless JAX has been told of one."""
    if compilation_cache is None or programs_are_kept():
        return
    if (folder := cache_folder()) is None:
        return
    with contextlib.suppress(OSError):  # nowhere to write: every process compiles
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
        compilation_cache.LRUCache = ProgramCache  # pyright: ignore
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def programs_are_kept() -> bool:
    """Whether compiled programs are kept where other threads and processes find them."""
    return bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]


def cache_folder() -> Path | None:
    """PENFAC_CACHE, or the user's folder for caches; None if PENFAC_CACHE is empty."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = os.environ.get("PENFAC_CACHE", str(Path(home) / "penfac"))
    if not root:
        return None
    return Path(root) / ("xla" if runs_on_accelerator() else f"xla-{processor()}")


def processor() -> str:
    """A name for this kind of processor: compiled code depends on what it can do."""
    about = platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        about += "".join(x for x in file if x.startswith(("model name", "flags")))
    return hashlib.sha256(
        "".join(sorted(set(about.splitlines()))).encode()
    ).hexdigest()[:12]


class ProgramCache(LRUCache):  # pyright: ignore
    """JAX's folder of programs, which several processes may use at once: a reader sees
    all of an entry or nothing. The programs that were not used for longest are removed."""

    def get(self, key: str) -> bytes | None:
        with contextlib.suppress(OSError):
            os.utime(self._file(key))
        with contextlib.suppress(FileNotFoundError):  # another process removed it
            return super().get(key)
        return None

    def put(self, key: str, value: bytes) -> None:
        path = self._file(key)
        unfinished = path.with_name(f".{key}-{os.getpid()}-{threading.get_ident()}")
        try:
            unfinished.write_bytes(value)
            unfinished.replace(path)
        except OSError:  # a full disk: the next process compiles again
            with contextlib.suppress(OSError):
                unfinished.unlink()
        self._sweep()

    def _file(self, key: str) -> Path:
        return Path(self.path) / f"{key}-cache"

    def _sweep(self) -> None:
        """Remove the programs used longest ago, and what a killed process left."""
        found = []
        for path in Path(self.path).iterdir():
            with contextlib.suppress(OSError):
                about = path.stat()
                found.append((about.st_mtime, about.st_size, path))
        size = sum(file[1] for file in found)
        for _, bytes_, path in sorted(found):
            if size <= MOST:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            size -= bytes_
