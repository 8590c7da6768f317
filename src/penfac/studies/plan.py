"""A study as run folders: STUDY/<env>/<algo>/<arm>/seed-<s>, each a run like any other.

The arms of one algorithm on one environment are a group: a run with arms, and so one
program on a device.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

import penfac
from penfac.envs.gym import check_id
from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.runs.config import RunConfig, differences, read_config
from penfac.runs.folder import RunFolder, folder_name
from penfac.runs.learners import configs_of, learner_config
from penfac.runs.run import Run
from penfac.runs.status import NEW, read_status
from penfac.runs.storage import make_folder
from penfac.runs.versions import versions
from penfac.studies import spec
from penfac.studies.spec import Arm, Study
from penfac.training.request import Request, settle

FORMAT = 1
FILE = "study.json"
LONGEST = 200  # characters of an environment's folder
Shared = dict[str, dict[str, str]]  # by environment and arm
STATES: tuple[str, ...] = ("finished", "running", "failed", "missing")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The content of study.json: a study and how its runs are made."""

    format: int = FORMAT
    penfac: str  # the version that made it
    study: Any  # a Study
    seeds: tuple[int, ...]
    on: Literal["auto", "device"]  # which engine, not who runs it
    command: str
    created: str
    versions: dict[str, str]
    shared: Shared = {}  # folders of arms whose runs another study has
    # seeds whose curves were made elsewhere, by environment and arm
    known: dict[str, dict[str, list[int]]] = {}

    def to_document(self) -> dict[str, Any]:
        """The content of study.json; without what is empty in most studies."""
        plain = msgspec.to_builtins(replace(self, study=spec.to_table(self.study)))
        return {k: v for k, v in plain.items() if v or k not in ("shared", "known")}


class Unit(NamedTuple):
    """One arm, one seed, one environment: one run folder."""

    env: str
    arm: str
    seed: int
    path: Path
    config: RunConfig | None = None  # None: a run that is known by its report alone
    ours: bool = True  # whether it is this study that runs it

    def __str__(self) -> str:
        return f"{self.env} {self.arm} seed {self.seed}"

    @property
    def run(self) -> Run:
        assert self.config is not None, f"{self}: is known by its report alone"  # noqa: S101
        return Run(self.path, self.config)

    @property
    def steps(self) -> int:
        return self.run.config.steps


# --- study.json --------------------------------------------------------------------------


def make_plan(study: Study, seeds: tuple[int, ...], on: str, command: str) -> Plan:
    return Plan(
        penfac=penfac.__version__,
        study=spec.of_table(spec.to_table(study)),  # as a file gives it back
        seeds=seeds,
        on="device" if on == "device" else "auto",
        command=command,
        created=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions=versions(),
    )


def read_plan(folder: Path) -> Plan:
    """Read and check study.json."""
    file = folder / FILE
    if not file.is_file():
        raise ConfigError(f"{folder}: is not a study folder (it has no {FILE})")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        version = document["format"]
        if type(version) is int and not 1 <= version <= FORMAT:
            raise CorruptFile(
                f"{file}: has format {version}, of penfac {document.get('penfac')}; "
                f"this penfac reads up to {FORMAT}"
            )
        plan = msgspec.convert(document, Plan)
        if not plan.seeds or len(set(plan.seeds)) < len(plan.seeds):
            raise ValueError("seeds must differ")
        return replace(plan, study=spec.of_table(plan.study))
    except (
        OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError,
        ConfigError,
    ) as error:  # fmt: skip
        what = f"{file}: is not a study that penfac wrote ({error})"
        raise CorruptFile(what) from None


def join(folder: Path, plan: Plan) -> Plan:
    """A new plan, or the one in the folder with the seeds of both. Reports everything
    that can be wrong, and writes nothing."""
    if (folder / FILE).exists():
        plan = join_plans(folder, read_plan(folder), plan)
    elif folder.exists() and not is_unused(folder):
        raise RunFolderBusy(f"{folder}: is not a study; choose another --name")
    groups(folder, plan)
    for env in plan.study.envs:  # of the study that was asked for, as the rest
        try:
            check_id(env)
        except ConfigError as error:
            raise ConfigError(f"{plan.study.name}: {error}") from None
    return plan


def is_unused(folder: Path) -> bool:
    """Whether it holds only what a driver leaves that is killed before study.json."""
    return folder.is_dir() and all(
        path.name == "lock" or path.name.startswith(".tmp-")
        for path in folder.iterdir()
    )


def join_plans(folder: Path, old: Plan, new: Plan) -> Plan:
    """The old plan with the seeds of both; another study is refused."""
    if changed := differences(fixed_part(old), fixed_part(new)):
        short = [text if len(text) < 120 else text.split(":")[0] for text in changed]
        raise ConfigError(
            f"{folder}: holds another study ({'; '.join(short[:3])}); "
            "choose another --name"
        )
    seeds = tuple(dict.fromkeys(old.seeds + new.seeds))
    if len(old.seeds) == 1 and len(seeds) > 1:
        raise ConfigError(f"{folder}: has one seed; more seeds need another --name")
    return replace(old, seeds=seeds, study=new.study)


def fixed_part(plan: Plan) -> dict[str, Any]:
    """What may not change: all that a run learns from. Words and claims may."""
    table = spec.to_table(plan.study)
    keys = (
        "name", "fidelity", "envs", "steps", "env_steps", "algo_seeds", "eval_every",
        "eval_episodes",
    )  # fmt: skip
    arms = [
        {key: value for key, value in arm.items() if key != "note"}
        for arm in table["arms"]
    ]
    return {key: table[key] for key in keys} | {"arms": arms, "on": plan.on}


def write_plan(folder: Path, plan: Plan) -> None:
    """Write study.json, then each config.json that is missing or has too few seeds: the
    next driver makes up for one that is killed in between."""
    home = RunFolder(folder)
    home.sweep()
    if not (folder / FILE).exists() or read_plan(folder) != plan:
        home.write_json(FILE, plan.to_document())
    for group in groups(folder, plan):
        for path, config in configs_of(group.path, group.config).items():
            there = (path / "config.json").exists()
            if there and config.seeds == read_config(path).seeds:
                continue
            make_folder(path)
            below = RunFolder(path)
            below.sweep()  # nobody learns where this file is yet to be written
            below.write_json("config.json", config.to_document())


# --- groups and units --------------------------------------------------------------------


def groups(folder: Path, plan: Plan) -> list[Run]:
    """The arms of each algorithm on each environment as one run, resolved and checked;
    without those that are shared or known."""
    found = []
    for env, algo, home in places(folder, plan):
        config = group_config(plan, env, arms_of(plan, algo))  # checks every arm
        arms = {arm.name: due_seeds(plan, env, arm) for arm in arms_of(plan, algo)}
        due = {
            name: values for name, values in (config.arms or {}).items() if arms[name]
        }
        if due:
            seeds = [s for s in config.seeds if any(s in arms[name] for name in due)]
            if len(seeds) == 1:  # a run of one seed would have another folder
                seeds = list(dict.fromkeys((*seeds, *config.seeds)))[:2]
            found.append(Run(home, replace(config, arms=due, seeds=tuple(seeds))))
    return found


def places(folder: Path, plan: Plan) -> Iterator[tuple[str, str, Path]]:
    """Every environment and algorithm, with the folder of their runs."""
    study, names = plan.study, {}
    for env in study.envs:
        name = folder_name(env)
        if len(name) > LONGEST:
            raise ConfigError(f"{study.name}: {env}: is too long for a folder")
        if names.setdefault(name, env) != env:
            raise ConfigError(
                f"{study.name}: {names[name]} and {env} would share a folder; rename one"
            )
        for algo in dict.fromkeys(arm.algo for arm in study.arms):
            yield env, algo, folder / name / algo


def arms_of(plan: Plan, algo: str) -> list[Arm]:
    return [arm for arm in plan.study.arms if arm.algo == algo]


def due_seeds(plan: Plan, env: str, arm: Arm) -> set[int]:
    """The seeds that this study runs of an arm."""
    if arm.name in plan.shared.get(env, {}):
        return set()
    return set(seeds_of(plan, arm)) - set(plan.known.get(env, {}).get(arm.name, ()))


def seeds_of(plan: Plan, arm: Arm) -> tuple[int, ...]:
    return plan.seeds[: plan.study.algo_seeds.get(arm.algo)]


def group_config(plan: Plan, env: str, arms: list[Arm]) -> RunConfig:
    configs = {arm.name: arm_config(plan, env, arm) for arm in arms}
    first = next(iter(configs.values()))
    return replace(
        first,
        preset=" or ".join(dict.fromkeys(arm.preset for arm in arms)),
        seeds=seeds_of(plan, arms[0]),
        arms={name: config.settings for name, config in configs.items()},
        study=plan.study.name,
        command=plan.command,
        created=plan.created,
        versions=plan.versions,
    )


def arm_config(plan: Plan, env: str, arm: Arm) -> RunConfig:
    """One arm on one environment, as `penfac train` would resolve it."""
    study = plan.study
    request = Request(
        env=env,
        algo=arm.algo,
        preset=arm.preset,
        settings=arm.settings | arm.on.get(env, {}),
        steps=study.steps_on(env),
        seeds=plan.seeds,
        eval_every=study.eval_every,
        eval_episodes=study.eval_episodes,
        on=plan.on,
    )
    try:
        return settle(request)
    except ConfigError as error:
        raise ConfigError(f"{study.name}: arm {arm.name} on {env}: {error}") from None


def units(folder: Path, plan: Plan) -> list[Unit]:
    """Every run, seed by seed, so that early results cover every arm."""
    found = []
    for env, algo, home in places(folder, plan):
        config = group_config(plan, env, arms_of(plan, algo))
        shared, known = plan.shared.get(env, {}), plan.known.get(env, {})
        for x in Run(home, config).learners:
            own = learner_config(config, x)
            arm, path = str(x.arm), x.path
            ours = arm not in shared and x.seed not in known.get(arm, ())
            if arm in shared:
                owner = folder / shared[arm]
                path, own = owner / x.path.name, replace(own, arm=owner.name)
            found.append(Unit(env, arm, x.seed, path, own, ours))
    order = {seed: k for k, seed in enumerate(plan.seeds)}
    return sorted(found, key=lambda unit: order[unit.seed])


def state_of(unit: Unit) -> str:
    """One of STATES; a run that was stopped on its way counts as running."""
    status = read_status(unit.path)
    if status.state in ("finished", "failed"):
        return status.state
    return "missing" if status is NEW else "running"
