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
from typing import Any, Literal

from msgspec.structs import replace

from penfac.algos import ALGORITHMS
from penfac.algos.base import Algorithm
from penfac.errors import ConfigError, PenfacError, RunFolderBusy
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import RunConfig, SearchConfig, differences
from penfac.runs.folder import create_folder
from penfac.runs.run import Run
from penfac.runs.status import LASTING
from penfac.search import space as spaces
from penfac.search import tpe
from penfac.search.optuna_study import check_storage
from penfac.search.rungs import (
    RungResult,
    SearchOutcome,
    conclude,
    is_behind,
    rank,
    rung_result,
    rungs,
    search_of,
    worker_error,
    write_table,
)
from penfac.settings.configs import to_values
from penfac.training.environment import find_env
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.request import Request, resolve, stamp
from penfac.training.trial import train_run, train_silently, write_configs
from penfac.workers import Task, run_with_retries

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
    sampler: Literal["random", "tpe"] = "random"
    storage: str | None = None  # where Optuna keeps the study; None: in the folder


def start(
    request: Request, search: Search, limits: Limits, listener: Listener
) -> SearchOutcome:
    """Draw the configs and search among them, in a new folder."""
    out = request.out.absolute()  # an environment may change the folder of the process
    config = config_of(request, search, limits.command)
    if search.sampler == "tpe":
        tpe.refuse_device(config, limits)
        check_storage(search.storage)
    fill = lambda home: write_configs(Run(home, config))  # noqa: E731
    place = (out / "tune", request.algo, request.env, request.name)
    folder = create_folder(*place, fill)
    named = request.out / folder.relative_to(out)
    return go_on(Run(folder, config), named, limits, listener, search.storage)


def start_or_resume(
    request: Request, search: Search, limits: Limits, listener: Listener
) -> SearchOutcome:
    """Go on with the search of this name, if there is one; else begin it."""
    folder = request.out / "tune" / request.algo / str(request.name)
    if not folder.exists():
        try:
            return start(request, search, limits, listener)
        except RunFolderBusy:  # another process was faster
            if not folder.exists():
                raise
    run = Run.open(folder)
    asked = config_of(request, search, limits.command)
    config = continued(run.config, asked, folder)
    find_env(run, trust=True)  # the user has named it
    run = Run(folder.absolute(), config)
    return go_on(run, folder, limits, listener, search.storage)


def continued(begun: RunConfig, asked: RunConfig, folder: Path) -> RunConfig:
    """The config to go on with: what was begun. TPE may go on to more configs."""
    if begun.search is None or asked.search is None:
        raise ConfigError(f"--study {folder.name}: {folder} is a run, not a search")
    count = asked.search.configs if begun.search.sampler == "tpe" else None
    fewest = len(begun.arms or ())
    if count is not None and count < fewest:
        raise ConfigError(
            f"--configs {count}: {folder} has {fewest}; must be at least that"
        )
    search = replace(begun.search, processes=asked.search.processes)
    search = search if count is None else replace(search, configs=count)
    theirs = replace(asked.search, told=search.told)
    one, other = (
        replace(x, search=s, arms=None).to_document()
        for x, s in ((begun, search), (asked, theirs))
    )
    for key in ("penfac", "command", "created", "versions", "alive"):
        one.pop(key, None)
        other.pop(key, None)
    found = differences(one, other)
    if found:
        raise ConfigError(
            f"--study {folder.name}: {folder} was begun otherwise ({', '.join(found)}); "
            "give the same options, or another name"
        )
    return replace(begun, search=search)


def config_of(request: Request, search: Search, command: str) -> RunConfig:
    """The run of a search, with all configs, or with the first that TPE begins with."""
    check(search, request)
    plain = resolve(request)  # reports everything else that can be wrong
    algo = ALGORITHMS[request.algo]
    space, base = space_of(algo, search), to_values(plain.settings)
    count = search.configs if search.sampler == "random" else 1
    drawn = spaces.draw(algo, space, base, count, search.seed)
    names = (tpe.name_of(k, search.configs) for k in range(count))
    arms = dict(zip(names, drawn, strict=True))
    config = stamp(resolve(dataclasses.replace(request, arms=arms)), command)
    values: dict[str, Any] = dataclasses.asdict(search) | {"space": space}
    del values["storage"]  # a folder from elsewhere names no file or server to write to
    return replace(config, search=SearchConfig(**values))


def go_on(
    run: Run,
    named: Path,
    limits: Limits,
    listener: Listener,
    storage: str | None = None,
) -> SearchOutcome:
    """Search in the way that the run's config says."""
    if search_of(run.config).sampler == "tpe":
        return tpe.search_tpe(run, named, limits, listener, storage)
    return search_rungs(run, named, limits, listener)


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
    if search.sampler not in ("random", "tpe"):
        raise ConfigError(f"--sampler {search.sampler}: must be random or tpe")
    if search.storage is not None and search.sampler != "tpe":
        raise ConfigError(f"--storage {search.storage}: needs --sampler tpe")
    if search.processes is not None and search.processes < 1:
        raise ConfigError(f"--processes {search.processes}: must be at least 1")


def resume(folder: Path, limits: Limits, listener: Listener) -> SearchOutcome:
    """Go on with a search that was stopped or killed."""
    run = Run(folder.absolute(), replace(Run.open(folder).config, alive=None))
    find_env(run, limits.trust)
    return go_on(run, folder, limits, listener)


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
    limits = dataclasses.replace(limits, pictures=False, home=run.path)
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


def share_program(run: Run, limits: Limits) -> bool:
    """Whether this machine runs all configs as one program."""
    asked = limits.at_once is not None or runs_on_accelerator()
    return run.config.engine == "device" and asked
