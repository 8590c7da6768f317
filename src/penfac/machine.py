"""What this machine offers to a process: cores and an accelerator."""

import os
from pathlib import Path


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def runs_on_accelerator() -> bool:
    """Whether JAX computes on a GPU or TPU by default: programs take long to compile
    there, and one program for all learners is the fastest."""
    import jax

    return jax.default_backend() != "cpu"


def device_name() -> str:
    """What JAX computes on: the CPU, or the kind and number of its accelerators."""
    import jax

    devices = jax.devices()
    if devices[0].platform == "cpu":
        count = len(usable_cores())
        return f"CPU ({count} core{'s' * (count > 1)})"
    several = f"{len(devices)} x " if len(devices) > 1 else ""
    return several + devices[0].device_kind


def has_unused_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether there is an NVIDIA GPU that JAX cannot use, and nobody chose the CPU."""
    if "cpu" in os.environ.get("JAX_PLATFORMS", "") or runs_on_accelerator():
        return False
    return any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()  # dxg: WSL
