"""The same search for every arm of a study, on seeds that it will not report.

What is found is a table by environment and arm, which `penfac study run --settings` takes.
"""

import dataclasses
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penfac import tune
from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, PenfacError
from penfac.events import Limits, Listener
from penfac.interruption import Interruption, StopRequested
from penfac.request import Request
from penfac.runs import RunFolder, storage
from penfac.space import as_toml, space
from penfac.studies import executors
from penfac.studies.spec import Arm, Study, check
from penfac.tune import Search
from penfac.workers import Task, cores, run_tasks

FILE = "settings.toml"
Table = dict[str, dict[str, dict[str, Any]]]  # by environment and arm
Tell = Callable[[str], None]


def tune_study(
    study: Study,
    seeds: tuple[int, ...],
    folder: Path,
    search: Search,
    on: str,
    limits: Limits,
    tell: Tell,
) -> tuple[Table, int]:
    """Search for every arm on every environment; what was found already is kept.

    Returns the table, and the exit code of a search that was stopped or failed."""
    found: Table = {}
    cells = {
        (env, arm.name): arm_request(
            study, env, unsearched(arm, search), seeds, on, folder
        )
        for env in study.envs
        for arm in study.arms
    }
    with Interruption(limits.stop_after) as interruption:
        try:
            if on == "device" and limits.at_once and not executors.accelerated():
                search_on_cores(list(cells.values()), search, limits, interruption)
            for (env, arm), request in cells.items():
                within = dataclasses.replace(limits, stop_after=interruption.left())
                done = one_search(request, search, within)
                if done.preset is None:
                    return found, done.exit_code or 1
                found.setdefault(env, {})[arm] = done.settings[str(done.best)]
                tell(f"{env} {arm}: {told(done)}")
                write(folder, found)
                interruption.poll()
        except StopRequested as stop:
            return found, stop.exit_code
    return found, 0


def unsearched(arm: Arm, search: Search) -> Arm:
    """Without what an earlier search found: this one begins where that one began."""
    drawn = space(ALGORITHMS[arm.algo], search.space).keys()
    kept = {
        env: {key: value for key, value in own.items() if key not in drawn}
        for env, own in arm.on.items()
    }
    return dataclasses.replace(arm, on=kept)


def arm_request(
    study: Study, env: str, arm: Arm, seeds: tuple[int, ...], on: str, folder: Path
) -> Request:
    return Request(
        env=env,
        algo=arm.algo,
        preset=arm.preset,
        settings=arm.settings | arm.on.get(env, {}),
        steps=study.steps,
        seeds=seeds,
        eval_every=study.eval_every or max(1, study.steps // 10),
        eval_episodes=study.eval_episodes,
        on=on,
        out=folder / re.sub(r"[^A-Za-z0-9.-]+", "-", env) / arm.name,
        name="search",
    )


def one_search(request: Request, search: Search, limits: Limits) -> tune.Found:
    folder = request.out / "tune" / request.algo / "search"
    if folder.exists():
        return tune.resume(folder, limits, Listener())
    return tune.start(request, search, limits, Listener())


def search_on_cores(
    cells: list[Request], search: Search, limits: Limits, interruption: Interruption
) -> None:
    """Where there is no accelerator: a search a core, each one program. What they found
    lies in their folders; one that failed tells why when it is asked again."""
    limits = dataclasses.replace(limits, stop_after=interruption.left())
    tasks = [Task(str(cell.out), search_code, (cell, search, limits)) for cell in cells]
    count = search.processes or len(cores())
    for _ in run_tasks(tasks, count, interruption.poll):
        pass


def search_code(cell: Request, search: Search, limits: Limits) -> int:
    try:
        return one_search(cell, search, limits).exit_code
    except PenfacError as error:
        return error.exit_code


def told(found: tune.Found) -> str:
    """The best score, and what it was found with."""
    best = next(row for row in reversed(found.rows) if row.config == found.best)
    settings = found.settings[str(found.best)]
    drawn = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"{best.score:.4g} with {drawn}"


# --- the table ---------------------------------------------------------------------------


def write(folder: Path, table: Table) -> None:
    blocks = [
        f'["{env}".{arm}]\n{as_toml(settings)}'
        for env, arms in table.items()
        for arm, settings in arms.items()
    ]
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    RunFolder(folder).write(FILE, "\n".join(blocks).encode())


def read(file: Path) -> Table:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"--settings {file}: {error}") from None
    shaped = all(
        isinstance(arms, dict) and all(isinstance(own, dict) for own in arms.values())
        for arms in found.values()
    )
    if not shaped:
        raise ConfigError(f'--settings {file}: needs blocks ["ENVIRONMENT".ARM]')
    return found


def with_settings(study: Study, table: Table) -> Study:
    """The study, its arms with what was found for them on each environment."""
    known = {arm.name for arm in study.arms}
    for env, arms in table.items():
        if env not in study.envs:
            raise ConfigError(
                f"{study.name}: the settings name {env}, which it has not"
            )
        for name in arms.keys() - known:
            raise ConfigError(
                f"{study.name}: the settings name {name}, which is no arm"
            )
    arms = tuple(
        dataclasses.replace(
            arm,
            on=arm.on
            | {
                env: arm.on.get(env, {}) | own[arm.name]
                for env, own in table.items()
                if arm.name in own
            },
        )
        for arm in study.arms
    )
    return check(dataclasses.replace(study, arms=arms))
