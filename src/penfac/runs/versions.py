"""The versions of the packages that made a run."""

import contextlib
import functools
import platform
from importlib import metadata

from penfac.machine import usable_cores

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "gymnasium", "mujoco")


@functools.cache
def versions() -> dict[str, str]:
    """Packages, Python and machine, as config.json and checkpoints hold them."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": str(len(usable_cores())),
    }
