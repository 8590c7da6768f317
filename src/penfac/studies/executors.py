"""Who runs a study's runs: processes of this machine, Ray, or one device.

Each yields units with the exit code of their run as they end. The run folders are the
truth: an executor that dies takes nothing with it.
"""

import contextlib
import dataclasses
import importlib.util
import io
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from penfac.envs.gym import check_id
from penfac.errors import ConfigError, PenfacError, RunFolderBusy
from penfac.studies.plan import Group, Unit
from penfac.training.events import Limits, Listener
from penfac.training.interruption import StopRequested
from penfac.training.trial import run
from penfac.workers import Task, run_tasks, share_programs

LOST = 128  # exit codes from here on: a signal ended the process
RETRIES = 2  # of a run whose process was lost
HANDOVER = 60.0  # seconds: those of a driver that was killed save and leave
Ended = Generator[tuple[Unit, int]]
Poll = Callable[[], None]


def run_unit(path: Path, document: dict[str, Any], limits: Limits) -> int:
    """One run, in whatever process this is; says nothing."""
    until = time.monotonic() + HANDOVER
    while True:
        try:
            check_id(document["env"])  # brings in the module of one's own environment
            with contextlib.redirect_stdout(io.StringIO()):
                return run(path, document, limits, Listener(), fresh=False).exit_code
        except RunFolderBusy as error:
            if time.monotonic() > until:
                return error.exit_code
            time.sleep(0.2)
        except PenfacError as error:
            return error.exit_code


def local(units: list[Unit], count: int, limits: Limits, poll: Poll) -> Ended:
    """A process a core, which takes run after run."""
    named = {str(unit): unit for unit in units}
    tasks = [
        Task(name, run_unit, (unit.path, unit.document, limits))
        for name, unit in named.items()
    ]
    for name, code in with_retries(tasks, count, poll):
        yield named[name], code


def with_retries(
    tasks: list[Task], count: int, poll: Poll
) -> Generator[tuple[str, int]]:
    """Names and exit codes as tasks end; one whose process was lost is tried again."""
    waiting = {task.name: task for task in tasks}
    for left in range(RETRIES, -1, -1):
        lost = {}
        for name, code in run_tasks(list(waiting.values()), count, poll):
            if code >= LOST and left:
                lost[name] = waiting[name]
            else:
                yield name, code
        waiting = lost


def check_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise ConfigError('--on ray: Ray is missing; pip install "penfac[ray]"')


def check_address(address: str | None) -> None:
    """Ray itself would look for minutes for who is not there."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--address {address}: {error}") from None


def on_ray(units: list[Unit], address: str | None, limits: Limits, poll: Poll) -> Ended:
    """Ray tasks on a cluster, or on one of this machine that we start."""
    import ray
    from ray.exceptions import RayError

    ours = not ray.is_initialized()
    if ours:
        check_address(address)
        heard = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(
                address=address, include_dashboard=False if address is None else None,
                log_to_driver=False, logging_level=logging.ERROR,
            )  # fmt: skip
        except (ConnectionError, ValueError) as error:
            raise ConfigError(f"--address {address}: {error}") from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, heard)  # Ray takes it for its own
    work = ray.remote(num_cpus=1, max_retries=RETRIES)(_on_ray)
    pending = {}
    try:
        for unit in units:
            given = (unit.path.resolve(), unit.document, limits)
            pending[work.options(name=str(unit)).remote(*given)] = unit
        while pending:
            poll()
            done, _ = ray.wait(list(pending), timeout=0.2)
            for reference in done:
                unit = pending.pop(reference)
                try:
                    yield unit, ray.get(reference)
                except RayError:  # lost, and tried again in vain
                    yield unit, LOST
    finally:
        for reference in pending:
            ray.cancel(reference)  # as Ctrl-C: they save and leave
        if pending:
            ray.wait(list(pending), num_returns=len(pending), timeout=30)
        if ours:
            ray.shutdown()


def _on_ray(path: Path, document: dict[str, Any], limits: Limits) -> int:
    share_programs()
    return run_unit(path, document, limits)


def run_group(group: Group, limits: Limits) -> int:
    """The runs of one group as one program, in whatever process this is."""
    try:
        found = run(group.folder, group.document, limits, Listener(), fresh=False)
        return found.exit_code
    except PenfacError as error:
        return error.exit_code


def on_cores(
    groups: list[Group], units: list[Unit], count: int, limits: Limits, poll: Poll
) -> Ended:
    """Where there is no accelerator: a program a core."""
    own = {
        str(g.folder): [u for u in units if g.folder in u.path.parents] for g in groups
    }
    tasks = [
        Task(str(group.folder), run_group, (group, limits))
        for group in groups
        if own[str(group.folder)]
    ]
    for name, code in with_retries(tasks, count, poll):
        yield from ((unit, code) for unit in own[name])


def on_device(
    groups: list[Group], units: list[Unit], limits: Limits, listener: Listener
) -> Ended:
    """Group after group, each as few programs as its shapes allow."""
    by_path = {unit.path: unit for unit in units}
    ends = None if limits.stop_after is None else time.monotonic() + limits.stop_after
    for group in groups:
        own = [u for u in units if group.folder in u.path.parents]
        if not own:
            continue
        left = None if ends is None else max(0.0, ends - time.monotonic())
        within = dataclasses.replace(limits, stop_after=left)
        try:
            outcome = run(group.folder, group.document, within, listener, fresh=False)
        except PenfacError as error:
            yield from ((unit, error.exit_code) for unit in own)
            continue
        if outcome.reason.startswith("stopped"):
            raise StopRequested(outcome.reason, outcome.exit_code)
        failed = {who.path for who in outcome.errors}
        for path in (u.path for u in own):
            yield by_path[path], outcome.exit_code if path in failed else 0
