"""The same search for every arm of a study, on seeds that its report does not use.

The result is a table by environment and arm, which `penfac study run --settings` takes.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import read_config
from penfac.runs.folder import RunFolder, folder_name
from penfac.runs.storage import make_folder
from penfac.search import halving
from penfac.search.halving import Search
from penfac.search.rungs import SearchOutcome, search_of
from penfac.search.space import as_toml
from penfac.settings import presets
from penfac.settings.configs import to_values
from penfac.settings.toml import read_toml
from penfac.studies.spec import Arm, Study, arms_named, check
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.request import Request
from penfac.workers import Task, run_with_retries

FILE = "settings.toml"
Table = dict[str, dict[str, dict[str, Any]]]  # by environment and arm
Tell = Callable[[str], None]


class ArmListener(Listener):
    """Reports how far the search of one arm is."""

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
    """Search for every arm, or for those named, on every environment, and keep what was
    found before.

    Returns the table, and the exit code of a search that was stopped or failed."""
    folder = folder.absolute()
    found: Table = read(folder / FILE) if (folder / FILE).exists() else {}
    cells = {
        (env, arm.name): Cell(
            arm_request(study, env, without_search(arm, env, own), seeds, on, folder),
            own,
        )
        for env in study.envs
        for arm in arms_named(study, only)
        # the settings that define an arm are not drawn
        for own in [dataclasses.replace(search, fixed=tuple(arm.settings))]
    }
    with Interruption(limits.stop_after) as interruption:
        try:
            if on == "device" and limits.at_once and not runs_on_accelerator():
                search_on_cores(list(cells.values()), limits, interruption)
            for (env, arm), cell in cells.items():
                within = dataclasses.replace(limits, stop_after=interruption.left())
                done = one_search(cell, within, ArmListener(f"{env} {arm}", tell))
                if done.preset is None:
                    return found, done.exit_code or 1
                found.setdefault(env, {})[arm] = done.settings[str(done.best)]
                tell(f"{env} {arm}: best {describe_best(done)}")
                write(folder, found)
                interruption.poll()
        except StopRequested as stop:
            return found, stop.exit_code
    return found, 0


def without_search(arm: Arm, env: str, search: Search) -> Arm:
    """The arm without what an earlier search found for this environment: every search
    begins with what its algorithm has for all environments."""
    algo = ALGORITHMS[arm.algo]
    drawn = halving.space_of(algo, search)
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
        out=folder / folder_name(env) / arm.name,
        name="search",
    )


def one_search(cell: Cell, limits: Limits, listener: Listener) -> SearchOutcome:
    request, search = cell
    folder = request.out / "tune" / request.algo / "search"
    if folder.exists():
        check_same(folder, cell)
        # the study that its user named has this environment
        trusted = dataclasses.replace(limits, trust=True)
        return halving.resume(folder, trusted, listener)
    return halving.start(request, search, limits, listener)


def check_same(folder: Path, cell: Cell) -> None:
    """Refuse to go on with a search that was begun with another budget or space."""
    config, (request, search) = read_config(folder), cell
    space = halving.space_of(ALGORITHMS[request.algo], search)
    begun = search_of(config)
    for word, was, asked in (
        ("env", config.env, request.env),
        ("steps", config.steps, request.steps),
        ("seeds", list(config.seeds), list(request.seeds)),
        ("configs", begun.configs, search.configs),
        ("halvings", begun.halvings, search.halvings),
        ("seed", begun.seed, search.seed),
        ("space", begun.space, space),
    ):
        if was != asked:
            raise ConfigError(f"{folder}: was started with {word} {was}, not {asked}")


def search_on_cores(
    cells: list[Cell], limits: Limits, interruption: Interruption
) -> None:
    """Run a search per core, each one program, where there is no accelerator. Results
    lie in their folders; one that failed reports its error when it is asked again."""
    limits = dataclasses.replace(limits, stop_after=interruption.left())
    tasks = [Task(str(c.request.out), exit_code_of_search, (c, limits)) for c in cells]
    count = cells[0].search.processes or len(usable_cores())
    for _ in run_with_retries(tasks, count, interruption.poll):
        pass


def exit_code_of_search(cell: Cell, limits: Limits) -> int:
    try:
        return one_search(cell, limits, Listener()).exit_code
    except PenfacError as error:
        return error.exit_code


def describe_best(found: SearchOutcome) -> str:
    """The best score and its settings."""
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
    make_folder(folder)
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
