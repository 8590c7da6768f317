"""The memory of a process of tests: what is compiled goes in time; the session tells."""

import gc
import resource
from pathlib import Path

import jax
import pytest

MOST_MAPS = 20_000  # Linux lets a process have 65 530
MOST_BYTES = 1.2e9
LARGEST = pytest.StashKey[dict[str, int]]()


def resident_bytes() -> int:
    """The bytes this process holds now."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Drop the compiled programs of earlier modules: they cost memory, and a process that
    runs out of memory maps is aborted."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    if resident_bytes() > MOST_BYTES or maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


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
