"""Who runs a study's runs: processes of this machine, Ray, or one device.

Each executor yields units with the exit code of their run as they end. Results are in
the run folders: an executor that dies takes nothing with it.
"""

import dataclasses
import importlib.util
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator

from penfac.errors import ConfigError, PenfacError
from penfac.runs.run import Run
from penfac.studies.plan import Unit
from penfac.training.interruption import StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.trial import train_run, train_silently
from penfac.workers import LOST, RETRIES, Task, run_with_retries

Ended = Generator[tuple[Unit, int]]
Poll = Callable[[], None]


def run_local(units: list[Unit], count: int, limits: Limits, poll: Poll) -> Ended:
    """A process per core, which takes run after run."""
    named = {str(unit): unit for unit in units}
    tasks = [
        Task(name, train_silently, (unit.run, limits)) for name, unit in named.items()
    ]
    for name, code in run_with_retries(tasks, count, poll):
        yield named[name], code


# --- Ray -----------------------------------------------------------------------------------


def check_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise ConfigError('--on ray: Ray is missing; pip install "penfac[ray]"')


def check_address(address: str | None) -> None:
    """Refuse an address where nobody answers; Ray itself would wait for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--address {address}: {error}") from None


def connect(address: str | None) -> None:
    """Connect to a Ray cluster, or start one on this machine."""
    import ray

    check_address(address)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address, include_dashboard=False if address is None else None,
            log_to_driver=False, logging_level=logging.ERROR,
        )  # fmt: skip
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"--address {address}: {error}") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray replaces it


def run_on_ray(
    units: list[Unit], address: str | None, limits: Limits, poll: Poll
) -> Ended:
    """Ray tasks on a cluster, or on one of this machine that we start."""
    import ray
    from ray.exceptions import RayError

    ours = not ray.is_initialized()
    if ours:
        connect(address)
    work = ray.remote(num_cpus=1, max_retries=RETRIES)(train_silently)
    pending = {}
    try:
        for unit in units:
            run = Run(unit.path.resolve(), unit.run.config)
            pending[work.options(name=str(unit)).remote(run, limits)] = unit
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


# --- groups of runs as programs ------------------------------------------------------------


def units_in(group: Run, units: list[Unit]) -> list[Unit]:
    return [unit for unit in units if group.path in unit.path.parents]


def train_group(group: Run, limits: Limits) -> int:
    """Train the runs of one group as one program, in a worker process."""
    try:
        return train_run(group, limits, Listener()).exit_code
    except PenfacError as error:
        return error.exit_code


def run_groups_on_cores(
    groups: list[Run], units: list[Unit], count: int, limits: Limits, poll: Poll
) -> Ended:
    """A program per core, where there is no accelerator."""
    named = {str(group.path): units_in(group, units) for group in groups}
    tasks = [
        Task(str(group.path), train_group, (group, limits))
        for group in groups
        if named[str(group.path)]
    ]
    for name, code in run_with_retries(tasks, count, poll):
        yield from ((unit, code) for unit in named[name])


def run_on_device(
    groups: list[Run], units: list[Unit], limits: Limits, listener: Listener
) -> Ended:
    """Group after group, each as few programs as its shapes allow."""
    ends = None if limits.stop_after is None else time.monotonic() + limits.stop_after
    for group in groups:
        members = units_in(group, units)
        if not members:
            continue
        left = None if ends is None else max(0.0, ends - time.monotonic())
        within = dataclasses.replace(limits, stop_after=left)
        try:
            outcome = train_run(group, within, listener)
        except PenfacError as error:
            yield from ((unit, error.exit_code) for unit in members)
            continue
        if outcome.was_stopped:
            raise StopRequested(outcome.reason, outcome.exit_code)
        failed = {learner.path for learner in outcome.errors}
        for unit in members:
            yield unit, outcome.exit_code if unit.path in failed else 0
