"""What this machine offers to a process: cores and an accelerator."""

import os


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
