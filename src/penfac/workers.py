"""Run tasks on every core, in pinned processes that take task after task.

The result of a task is its run folder; its process returns only an exit code.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from penfac.machine import usable_cores
from penfac.process import keep_streams

PARENT_EVERY = 0.1  # seconds between two looks at the parent
LOST = 128  # exit codes from here on: a process ended without an answer
RETRIES = 2  # of a task whose process was lost


class Task(NamedTuple):
    """Work for another process; `work` is a function of a module."""

    name: str
    work: Callable[..., int]
    arguments: tuple[Any, ...]


def run_tasks(
    tasks: list[Task], count: int, poll: Callable[[], None]
) -> Iterator[tuple[str, int]]:
    """Yield names and exit codes as tasks end, with `count` at a time.

    `poll` raises if a stop is requested: then the processes save and end first.
    """
    yield from run_growing(list(tasks), count, poll)


def run_growing(
    waiting: list[Task], count: int, poll: Callable[[], None]
) -> Iterator[tuple[str, int]]:
    """As `run_tasks`; whoever takes a name may add tasks to the list before the next."""
    free = (usable_cores() * count)[:count]
    workers: list[Worker] = []
    try:
        while waiting or any(worker.task for worker in workers):
            poll()
            for worker in (w for w in workers if w.task is None and waiting):
                worker.give(waiting.pop(0))
            while waiting and free:
                workers.append(Worker(free.pop(0)))
                workers[-1].give(waiting.pop(0))
            busy = {w.pipe: w for w in workers if w.task is not None}
            for pipe in wait(list(busy), timeout=0.05):
                worker = busy[pipe]  # type: ignore[index]
                name, code = worker.ended()
                if not worker.process.is_alive():
                    workers.remove(worker)
                    free.append(worker.core)
                yield name, code
    finally:
        for worker in workers:
            worker.process.terminate()  # it saves and ends
            worker.pipe.close()
        for worker in workers:
            worker.process.join()


def run_with_retries(
    tasks: list[Task],
    count: int,
    poll: Callable[[], None],
    tell: Callable[[str], None] = lambda text: None,
) -> Generator[tuple[str, int]]:
    """Names and exit codes as tasks end; one whose process was lost is tried again."""
    waiting = {task.name: task for task in tasks}
    for left in range(RETRIES, -1, -1):
        lost = {}
        for name, code in run_tasks(list(waiting.values()), count, poll):
            if code >= LOST and left:
                lost[name] = waiting[name]
                tell(f"{name}: {how_it_ended(code)}; it is tried again")
            else:
                yield name, code
        waiting = lost


class Worker:
    """A process on a core, and its task."""

    def __init__(self, core: int):
        # a fork would copy JAX's threads
        context = multiprocessing.get_context("spawn")
        self.core, self.task = core, None
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(core, theirs))
        self.process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        self.task, self.process.name = task, task.name
        with contextlib.suppress(OSError):  # it died: `ended` reports it
            self.pipe.send(task)

    def ended(self) -> tuple[str, int]:
        assert self.task is not None  # noqa: S101
        name, self.task = self.task.name, None
        try:
            return name, self.pipe.recv()
        except (EOFError, OSError):  # no answer: it has ended
            self.process.join()
            return name, exit_code(self.process)


def exit_code(process: Any) -> int:
    """The code of a process that did not answer: 0 is no success then."""
    code = process.exitcode or LOST
    return LOST - code if code < 0 else code  # killed by a signal


def how_it_ended(code: int) -> str:
    """Say how a process ended that gave no answer."""
    try:
        return f"its process was killed by {signal.Signals(code - LOST).name}"
    except ValueError:
        return "its process ended without an answer"


def _serve(core: int, pipe: Any) -> None:
    """Run tasks until there are no more."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.setpgrp()  # Ctrl-C reaches the parent process, which then stops this one
    keep_streams()
    threading.Thread(target=leave_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):  # the parent has ended
            return
        code = task.work(*task.arguments)
        with contextlib.suppress(OSError):
            pipe.send(code)


def leave_with_parent() -> None:
    """Tell this process to save and end, once, when its parent has ended.

    The kernel's PR_SET_PDEATHSIG tells it at the end of every thread of the parent.
    """
    parent = multiprocessing.parent_process()
    while parent is not None and os.getppid() == parent.pid:
        time.sleep(PARENT_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
