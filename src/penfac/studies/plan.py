"""A study as run folders: STUDY/<env>/<algo>/<arm>/seed-<s>, each a run like any other.

The arms of one algorithm on one environment are a group: a run with arms, and so one
program on a device.
"""

import json
import time
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
from penfac.runs.sealed import refuse_changed
from penfac.runs.status import NEW, read_status
from penfac.runs.storage import make_folder
from penfac.runs.versions import versions
from penfac.studies import spec
from penfac.studies.spec import Arm, Study
from penfac.training.request import Request, settle

FORMAT = 1
FILE = "study.json"
LONGEST = 200  # characters of an environment's folder
STATES: tuple[str, ...] = ("finished", "running", "failed", "missing")
# a difference in these makes runs no longer comparable
VERSIONED = ("jax", "jaxlib", "mujoco", "gymnasium", "numpy")


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

    def to_document(self) -> dict[str, Any]:
        """The content of study.json."""
        return msgspec.to_builtins(replace(self, study=spec.to_table(self.study)))


class Unit(NamedTuple):
    """One arm, one seed, one environment: one run folder."""

    env: str
    arm: str
    seed: int
    path: Path
    config: RunConfig | None = None  # None: a run that is known by its report alone

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
    keys = ("name", "fidelity", "envs", "steps", "eval_every", "eval_episodes")
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
    """The arms of each algorithm on each environment as one run, resolved and checked."""
    study, found, names = plan.study, [], {}
    for env in study.envs:
        name = folder_name(env)
        if len(name) > LONGEST:
            raise ConfigError(f"{study.name}: {env}: is too long for a folder")
        if names.setdefault(name, env) != env:
            raise ConfigError(
                f"{study.name}: {names[name]} and {env} would share a folder; rename one"
            )
        for algo in dict.fromkeys(arm.algo for arm in study.arms):
            arms = [arm for arm in study.arms if arm.algo == algo]
            found.append(Run(folder / name / algo, group_config(plan, env, arms)))
    return found


def group_config(plan: Plan, env: str, arms: list[Arm]) -> RunConfig:
    configs = {arm.name: arm_config(plan, env, arm) for arm in arms}
    first = next(iter(configs.values()))
    return replace(
        first,
        preset=" or ".join(dict.fromkeys(arm.preset for arm in arms)),
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
        steps=study.steps,
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
    found = [
        Unit(g.config.env, str(x.arm), x.seed, x.path, learner_config(g.config, x))
        for g in groups(folder, plan)
        for x in g.learners
    ]
    order = {seed: k for k, seed in enumerate(plan.seeds)}
    return sorted(found, key=lambda unit: order[unit.seed])


def state_of(unit: Unit) -> str:
    """One of STATES; a run that was stopped on its way counts as running."""
    status = read_status(unit.path)
    if status.state in ("finished", "failed"):
        return status.state
    return "missing" if status is NEW else "running"


def check_runs(found: list[Unit], mixed: bool) -> None:
    """Refuse runs that were made otherwise than the study says."""
    for unit in found:
        if not (unit.path / "config.json").exists():
            continue
        try:
            there = read_config(unit.path)
        except ConfigError as error:
            text = f"{unit.path}: is not a run of this study: {error}"
            raise ConfigError(text) from None
        planned = unit.run.config
        old = there.identity() | {"steps": there.steps}
        new = planned.identity() | {"steps": planned.steps}
        if changed := differences(old, new):
            raise ConfigError(f"{unit.path}: is not a run of this study: {changed[0]}")
        refuse_changed(unit.path, planned)
        changed = changed_versions(there.versions, planned.versions)
        if changed and not mixed:
            raise ConfigError(
                f"{unit.path}: was made with other versions ({'; '.join(changed)}); "
                "--mixed accepts it"
            )


def changed_versions(
    old: dict[str, str] | None, new: dict[str, str] | None
) -> list[str]:
    """`jax: 0.9 -> 0.10` for each version that makes runs no longer comparable."""
    pick = lambda found: {key: (found or {}).get(key) for key in VERSIONED}  # noqa: E731
    return differences(pick(old), pick(new))


def with_current_versions(todo: list[Unit], plan: Plan, mixed: bool) -> list[Unit]:
    """Runs to come name the versions that make them; other versions than those the study
    was begun with need `mixed`."""
    changed = changed_versions(plan.versions, versions())
    if not changed or not todo:
        return todo
    if not mixed:
        raise ConfigError(
            f"{plan.study.name}: was started with other versions "
            f"({'; '.join(changed)}); --mixed continues with these"
        )
    return [u._replace(config=replace(u.run.config, versions=versions())) for u in todo]
