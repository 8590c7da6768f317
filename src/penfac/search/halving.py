"""`penfac tune`: a random search with successive halving.

Configs are arms of one run, so on an accelerator all of them and their seeds are one
program; without one each is a process. The search keeps its state in the run folders:
after a kill it goes on as if nothing had happened.
"""

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from penfac.algos import ALGORITHMS
from penfac.algos.base import Algorithm
from penfac.errors import ConfigError, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import SearchConfig
from penfac.runs.folder import create_folder
from penfac.runs.run import Run
from penfac.runs.status import LASTING, read_status
from penfac.search import space as spaces
from penfac.search.rungs import (
    RungResult,
    SearchOutcome,
    conclude,
    is_behind,
    rank,
    rung_result,
    rungs,
    search_of,
    write_table,
)
from penfac.settings.configs import to_values
from penfac.training.environment import find_env
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.request import Request, resolve, stamp
from penfac.training.trial import train_run, train_silently, write_configs
from penfac.workers import LOST, RETRIES, Task, how_it_ended, run_with_retries

TUNING_SEEDS = (1000, 1001, 1002)  # apart from those that results are reported on


@dataclass(frozen=True)
class Search:
    """How to search: how many configs, and how often the worse half is dropped."""

    configs: int = 64
    halvings: int = 1
    space: str = "default"
    seed: int = 0  # of the draws
    processes: int | None = None  # None: one per core
    fixed: tuple[str, ...] = ()  # not drawn, though the space has them


def start(
    request: Request, search: Search, limits: Limits, listener: Listener
) -> SearchOutcome:
    """Draw the configs and search among them, in a new folder."""
    check(search, request)
    out = request.out.absolute()  # an environment may change the folder of the process
    plain = resolve(request)  # reports everything else that can be wrong
    algo = ALGORITHMS[request.algo]
    space = space_of(algo, search)
    base = to_values(plain.settings)
    drawn = spaces.draw(algo, space, base, search.configs, search.seed)
    width = len(str(search.configs - 1))
    arms = {f"c{k:0{width}d}": settings for k, settings in enumerate(drawn)}
    config = stamp(resolve(dataclasses.replace(request, arms=arms)), limits.command)
    config = replace(config, search=resolved(search, space))
    fill = lambda home: write_configs(Run(home, config))  # noqa: E731
    place = (out / "tune", request.algo, request.env, request.name)
    folder = create_folder(*place, fill)
    named = request.out / folder.relative_to(out)
    return search_rungs(Run(folder, config), named, limits, listener)


def resolved(search: Search, space: spaces.Space) -> SearchConfig:
    """The search as config.json holds it."""
    values: dict[str, Any] = dataclasses.asdict(search) | {"space": space}
    return SearchConfig(**values)


def space_of(algo: Algorithm, search: Search) -> spaces.Space:
    """The space, without the settings that are fixed."""
    whole = spaces.space(algo, search.space)
    return {key: values for key, values in whole.items() if key not in search.fixed}


def check(search: Search, request: Request) -> None:
    if search.configs < 2:
        raise ConfigError(f"--configs {search.configs}: must be at least 2")
    most = int(math.log2(search.configs))
    if not 0 <= search.halvings <= most:
        raise ConfigError(f"--halvings {search.halvings}: must be 0 to {most}")
    if request.steps < 2**search.halvings:
        raise ConfigError(
            f"--steps {request.steps}: must be at least {2**search.halvings}, to be halved"
        )
    if search.seed < 0:
        raise ConfigError(f"--draw {search.seed}: must be at least 0")
    if search.processes is not None and search.processes < 1:
        raise ConfigError(f"--processes {search.processes}: must be at least 1")


def resume(folder: Path, limits: Limits, listener: Listener) -> SearchOutcome:
    """Go on with a search that was stopped or killed."""
    run = Run(folder.absolute(), replace(Run.open(folder).config, alive=None))
    find_env(run, limits.trust)
    return search_rungs(run, folder, limits, listener)


def is_search(folder: Path) -> bool:
    with contextlib.suppress(PenfacError):
        return Run.open(folder).config.search is not None
    return False


def search_rungs(
    run: Run, named: Path, limits: Limits, listener: Listener
) -> SearchOutcome:
    """Rung after rung: train who is left, rank them, keep the better half."""
    alive: tuple[str, ...] = tuple(run.config.arms or ())
    rows: list[RungResult] = []
    reason, code = "finished", 0
    limits = dataclasses.replace(limits, pictures=False)
    try:
        with Interruption(limits.stop_after) as interruption:
            for rung, steps in enumerate(rungs(run.config)):
                part = Run(run.path, replace(run.config, alive=alive))
                if is_behind(part, steps):
                    within = dataclasses.replace(
                        limits, until=steps, stop_after=interruption.left()
                    )
                    train_arms(part, steps, within, listener, interruption)
                if is_behind(part, steps):
                    interruption.poll()
                    raise StopRequested("stopped", 0)
                ranked = rank(part, rung, steps)
                rows += ranked
                alive = tuple(row.config for row in ranked if row.kept)
                write_table(run, rows)
    except StopRequested as stop:
        reason, code = str(stop), stop.exit_code
    return conclude(run, named, rows, reason, code)


def train_arms(
    run: Run, steps: int, limits: Limits, listener: Listener, interruption: Interruption
) -> None:
    """Train all arms that are alive to `steps`, as one program or as processes."""
    if share_program(run, limits):
        outcome = train_run(run, limits, listener)
        if outcome.was_stopped:
            raise StopRequested(outcome.reason, outcome.exit_code)
        return
    arms = {str(arm): part for arm, part in run.arms.items()}
    tasks = [
        Task(arm, train_silently, (part, limits))
        for arm, part in arms.items()
        if is_behind(part, steps)
    ]
    count = search_of(run.config).processes or len(usable_cores())
    ended = run_with_retries(tasks, count, interruption.poll, listener.noted)
    for k, (arm, code) in enumerate(ended, start=1):
        if code not in (0, *LASTING):
            raise worker_error(arms[arm], code)
        row = rung_result(run, arm, 0, steps)
        result = "failed" if row.failed else f"{row.score:.1f}"
        listener.noted(f"{arm} at {steps:,} steps: {result} ({k}/{len(tasks)})")


def worker_error(run: Run, code: int) -> PenfacError:
    """The error of a worker that is not its config's fault: it stops the search."""
    errors = [read_status(learner.path).error for learner in run.learners]
    plain = f"its process ended with exit code {code}"
    if code >= LOST:
        errors, plain = [], f"{how_it_ended(code)}, {RETRIES + 1} times"
    error = PenfacError(f"{run.path}: {next(filter(None, errors), plain)}")
    error.exit_code = code if code < 10 else 1
    return error


def share_program(run: Run, limits: Limits) -> bool:
    """Whether this machine runs all configs as one program."""
    asked = limits.at_once is not None or runs_on_accelerator()
    return run.config.engine == "device" and asked
