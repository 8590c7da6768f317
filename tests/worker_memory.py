"""The memory of a process of tests: compiled programs go in time, and the session tells."""

import ctypes
import gc
import resource
from pathlib import Path

import jax
import pytest

MOST_MAPS = 20_000  # Linux lets a process have 65 530
MOST_BYTES, MORE_BYTES = 1.4e9, 0.2e9
LARGEST = pytest.StashKey[dict[str, int]]()


def resident_bytes() -> int:
    """Return the bytes this process holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def drop_programs() -> None:
    """Drop every compiled program, and give the memory back to the system."""
    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session")
def allowed() -> dict[str, float]:
    """How large the process may become before its programs go."""
    return {"bytes": MOST_BYTES}


@pytest.fixture(autouse=True)
def little_memory(allowed):
    """Keep the process small: compiled programs are most of what it holds. What is left
    when they are gone is in use, and the next time comes later."""
    yield
    if Path("/proc/self/statm").exists() and resident_bytes() > allowed["bytes"]:
        drop_programs()
        allowed["bytes"] = max(MOST_BYTES, resident_bytes() + MORE_BYTES)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Each program maps pieces of memory: a process that runs out of maps is aborted."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        drop_programs()


def pytest_sessionfinish(session):
    """Tell the session that started this worker how large it became."""
    if hasattr(session.config, "workeroutput"):
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        session.config.workeroutput["kilobytes"] = largest


def pytest_testnodedown(node):
    sizes = node.config.stash.setdefault(LARGEST, {})
    sizes[node.gateway.id] = getattr(node, "workeroutput", {}).get("kilobytes", 0)


def pytest_terminal_summary(terminalreporter, config):
    for name, size in sorted(config.stash.get(LARGEST, {}).items()):
        terminalreporter.line(f"memory of {name}: {size / 1e6:.2f} GB at most")
