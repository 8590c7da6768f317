"""Many processes, and some that are killed, share one cache of compiled programs."""

import os
import threading
from pathlib import Path

from jax._src.lru_cache import LRUCache


def write_whole(self, key: str, value: bytes) -> None:
    """Write an entry of the compilation cache under another name, then rename it: another
    process that reads meanwhile sees all of it or nothing."""
    path = Path(self.path) / f"{key}-cache"
    unfinished = path.with_name(f"{key}-{os.getpid()}-{threading.get_ident()}")
    unfinished.write_bytes(value)
    unfinished.replace(path)


LRUCache.put = write_whole
