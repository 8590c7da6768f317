"""The same search for every arm of a study, on seeds that it will not report.

What is found is a table by environment and arm, which `penfac study run --settings` takes.
"""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.folder import RunFolder, read_config, storage
from penfac.search import halving as tune
from penfac.search.halving import Search
from penfac.search.space import as_toml
from penfac.settings import presets
from penfac.settings.configs import to_values
from penfac.settings.toml import read_toml
from penfac.studies.spec import Arm, Study, arms_named, check
from penfac.training.events import Limits, Listener
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.request import Request
from penfac.workers import Task, run_tasks

FILE = "settings.toml"
Table = dict[str, dict[str, dict[str, Any]]]  # by environment and arm
Tell = Callable[[str], None]


class Follower(Listener):
    """Tells how far the search of one arm is."""

    def __init__(self, who: str, tell: Tell):
        self.who, self.tell = who, tell

    def noted(self, text: str) -> None:
        self.tell(f"{self.who}: {text}")


class Cell(NamedTuple):
    """One arm on one environment, and the search for it."""

    request: Request
    search: Search


def tune_study(
    study: Study,
    seeds: tuple[int, ...],
    folder: Path,
    search: Search,
    on: str,
    limits: Limits,
    tell: Tell,
    only: tuple[str, ...] = (),
) -> tuple[Table, int]:
    """Search for every arm, or for those named, on every environment; what was found
    already is kept.

    Returns the table, and the exit code of a search that was stopped or failed."""
    found: Table = read(folder / FILE) if (folder / FILE).exists() else {}
    cells = {
        (env, arm.name): Cell(
            arm_request(study, env, unsearched(arm, env, own), seeds, on, folder), own
        )
        for env in study.envs
        for arm in arms_named(study, only)
        # what makes an arm what it is is not drawn
        for own in [dataclasses.replace(search, fixed=tuple(arm.settings))]
    }
    with Interruption(limits.stop_after) as interruption:
        try:
            if on == "device" and limits.at_once and not runs_on_accelerator():
                search_on_cores(list(cells.values()), limits, interruption)
            for (env, arm), cell in cells.items():
                within = dataclasses.replace(limits, stop_after=interruption.left())
                done = one_search(cell, within, Follower(f"{env} {arm}", tell))
                if done.preset is None:
                    return found, done.exit_code or 1
                found.setdefault(env, {})[arm] = done.settings[str(done.best)]
                tell(f"{env} {arm}: best {told(done)}")
                write(folder, found)
                interruption.poll()
        except StopRequested as stop:
            return found, stop.exit_code
    return found, 0


def unsearched(arm: Arm, env: str, search: Search) -> Arm:
    """Without what an earlier search found for this environment, be it in the arm or in a
    preset: every search begins with what its algorithm has for all environments."""
    algo = ALGORITHMS[arm.algo]
    drawn = tune.drawn_from(algo, search)
    own = presets.preset(algo.presets, arm.preset, env)
    general = to_values(algo.config()) | presets.preset(algo.presets, arm.preset, "")
    begin = {key: general[key] for key in own if key in drawn}
    kept = {k: v for k, v in arm.on.get(env, {}).items() if k not in drawn}
    return dataclasses.replace(arm, on={env: begin | kept})


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


def one_search(cell: Cell, limits: Limits, listener: Listener) -> tune.Found:
    request, search = cell
    folder = request.out / "tune" / request.algo / "search"
    if folder.exists():
        check_same(folder, cell)
        return tune.resume(folder, limits, listener)
    return tune.start(request, search, limits, listener)


def check_same(folder: Path, cell: Cell) -> None:
    """One table, one budget: a search that was begun otherwise is not gone on with."""
    begun, (request, search) = read_config(folder), cell
    drawn = tune.drawn_from(ALGORITHMS[request.algo], search)
    asked = dataclasses.asdict(search) | {"space": drawn}
    asked |= {"steps": request.steps, "seeds": list(request.seeds)}
    was = begun["search"] | {key: begun[key] for key in ("steps", "seeds")}
    for word in ("steps", "seeds", "configs", "halvings", "seed", "space"):
        if was[word] != asked[word]:
            raise ConfigError(
                f"{folder}: was started with {word} {was[word]}, not {asked[word]}"
            )


def search_on_cores(
    cells: list[Cell], limits: Limits, interruption: Interruption
) -> None:
    """Where there is no accelerator: a search a core, each one program. What they found
    lies in their folders; one that failed tells why when it is asked again."""
    limits = dataclasses.replace(limits, stop_after=interruption.left())
    tasks = [Task(str(c.request.out), search_code, (c, limits)) for c in cells]
    count = cells[0].search.processes or len(usable_cores())
    for _ in run_tasks(tasks, count, interruption.poll):
        pass


def search_code(cell: Cell, limits: Limits) -> int:
    try:
        return one_search(cell, limits, Listener()).exit_code
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
    found = read_toml(file, f"--settings {file}")
    shaped = all(
        isinstance(arms, dict) and all(isinstance(own, dict) for own in arms.values())
        for arms in found.values()
    )
    if not shaped:
        raise ConfigError(f'--settings {file}: must have blocks ["ENVIRONMENT".ARM]')
    return found


def with_settings(study: Study, table: Table) -> Study:
    """The study, its arms with what was found for them on each environment."""
    known = {arm.name for arm in study.arms}
    for env, arms in table.items():
        if env not in study.envs:
            raise ConfigError(
                f"{study.name}: has no environment {env}, which the settings name"
            )
        for name in arms.keys() - known:
            raise ConfigError(
                f"{study.name}: has no arm {name}, which the settings name"
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
