"""Work on every core: a process a task, started fresh and pinned, the disk the witness.

What a task learned lies in its run folder; its process says no more than an exit code.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PR_SET_PDEATHSIG = 1  # of Linux


class Task(NamedTuple):
    """Something to do in a process of its own; `work` is a function of a module."""

    name: str
    work: Callable[..., int]
    arguments: tuple[Any, ...]


def cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def run_tasks(
    tasks: list[Task], count: int, poll: Callable[[], None]
) -> Iterator[tuple[str, int]]:
    """Names and exit codes as tasks end, `count` at a time.

    `poll` raises when someone asked to stop: the processes are told, and waited for.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy JAX's threads
    free, waiting = (cores() * count)[:count], list(tasks)
    running: dict[Any, tuple[Task, int]] = {}
    try:
        while waiting or running:
            poll()
            while waiting and free:
                task, core = waiting.pop(0), free.pop(0)
                process = context.Process(
                    target=_run, args=(core, task), name=task.name
                )
                process.start()
                running[process] = task, core
            for process in [p for p in running if not p.is_alive()]:
                task, core = running.pop(process)
                free.append(core)
                yield task.name, exit_code(process)
            time.sleep(0.05)
    finally:
        for process in running:
            process.terminate()  # they save and leave
        for process in running:
            process.join()


def exit_code(process: Any) -> int:
    code = process.exitcode or 0
    return 128 - code if code < 0 else code  # killed by a signal


def _run(core: int, task: Task) -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.setpgrp()  # Ctrl-C is for the one who started us: we hear of it once
    with contextlib.suppress(AttributeError, OSError):
        # ... and if that one is killed, we save and leave too
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        raise SystemExit(128 + signal.SIGTERM)  # it was killed while we began
    raise SystemExit(task.work(*task.arguments))
