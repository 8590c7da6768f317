"""A study as run folders: STUDY/<env>/<algo>/<arm>/seed-<s>, each a run like any other.

The arms of one algorithm on one environment are a group: a run with arms, and so one
program on a device.
"""

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import penfac
from penfac.configs import from_values
from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.learners import learner_document, learners_of
from penfac.request import Request, differences, resolve, versions
from penfac.runs import RunFolder, read_config, storage
from penfac.standing import failure, status
from penfac.studies import spec
from penfac.studies.spec import Arm, Study
from penfac.trial import write_configs

FORMAT = 1
FILE = "study.json"
STATES: tuple[str, ...] = ("finished", "running", "failed", "missing")
# a difference in these makes runs no longer comparable
VERSIONED = ("jax", "jaxlib", "mujoco", "gymnasium", "numpy")


class Group(NamedTuple):
    """Arms of one algorithm on one environment."""

    env: str
    folder: Path
    document: dict[str, Any]


class Unit(NamedTuple):
    """One arm, one seed, one environment: one run folder."""

    env: str
    arm: str
    seed: int
    path: Path
    document: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.env} {self.arm} seed {self.seed}"


# --- study.json --------------------------------------------------------------------------


def make_document(
    study: Study, seeds: tuple[int, ...], on: str, command: str
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "penfac": penfac.__version__,
        "study": spec.to_table(study),
        "seeds": list(seeds),
        "on": on,  # auto or device: which engine, not who runs it
        "command": command,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
    }


def read_document(folder: Path) -> dict[str, Any]:
    file = folder / FILE
    if not file.is_file():
        raise ConfigError(f"{folder}: not a study folder (it has no {FILE})")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        version, seeds = document["format"], document["seeds"]
        spec.of_table(document["study"])
        if not all(type(s) is int for s in seeds) or len(set(seeds)) < len(seeds):
            raise ValueError("seeds")
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError):
        raise CorruptFile(f"{file}: is not a study that penfac wrote") from None
    if version > FORMAT:
        raise CorruptFile(
            f"{file}: written in format {version} by penfac {document.get('penfac')}, "
            f"this one reads up to {FORMAT}"
        )
    return document


def study_of(document: dict[str, Any]) -> Study:
    return spec.of_table(document["study"])


def begin(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """A new study, or the one that is there with its seeds and ours."""
    if (folder / FILE).exists():
        return joined(folder, read_document(folder), document)
    if folder.exists() and any(folder.iterdir()):
        raise RunFolderBusy(f"{folder}: is there and holds no study; choose --name")
    found = groups(folder, document)  # everything that can be wrong is told first
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for group in found:
        write_configs(group.folder, group.document)
    RunFolder(folder).write_json(FILE, document)
    return document


def joined(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The study that is there, with the seeds of both; another study is refused."""
    changed = differences(
        {key: old[key] for key in ("study", "on")},
        {key: new[key] for key in ("study", "on")},
    )
    if changed:
        short = [text if len(text) < 120 else text.split(":")[0] for text in changed]
        raise ConfigError(
            f"{folder}: holds another study ({'; '.join(short[:3])}); choose --name"
        )
    seeds = [*old["seeds"], *(s for s in new["seeds"] if s not in old["seeds"])]
    if seeds == old["seeds"]:
        return old
    if len(old["seeds"]) == 1:
        raise ConfigError(f"{folder}: was begun with one seed; choose --name")
    document = old | {"seeds": seeds}
    for group in groups(folder, document):
        write_configs(group.folder, group.document)
    RunFolder(folder).write_json(FILE, document)
    return document


# --- groups and units --------------------------------------------------------------------


def groups(folder: Path, document: dict[str, Any]) -> list[Group]:
    """One document a group, resolved and checked as `penfac train` does."""
    study, found = study_of(document), []
    for env in study.envs:
        algos = dict.fromkeys(arm.algo for arm in study.arms)
        for algo in algos:
            arms = [arm for arm in study.arms if arm.algo == algo]
            home = folder / re.sub(r"[^A-Za-z0-9.-]+", "-", env) / algo
            found.append(Group(env, home, group_document(study, env, arms, document)))
    return found


def group_document(
    study: Study, env: str, arms: list[Arm], document: dict[str, Any]
) -> dict[str, Any]:
    own = {arm.name: arm_request(study, env, arm, document) for arm in arms}
    first = next(iter(own.values()))
    used = dict.fromkeys(arm.preset for arm in arms)
    return first | {
        "preset": " or ".join(used),
        "arms": {name: resolved["config"] for name, resolved in own.items()},
        "study": study.name,
        "command": document["command"],
        "created": document["created"],
        "versions": document["versions"],
    }


def arm_request(
    study: Study, env: str, arm: Arm, document: dict[str, Any]
) -> dict[str, Any]:
    request = Request(
        env=env,
        algo=arm.algo,
        preset=arm.preset,
        settings=arm.settings,
        steps=study.steps,
        seeds=tuple(document["seeds"]),
        eval_every=study.eval_every,
        eval_episodes=study.eval_episodes,
        on=document["on"],
    )
    try:
        return resolve(request)
    except ConfigError as error:
        raise ConfigError(f"{study.name}: arm {arm.name} on {env}: {error}") from None


def units(folder: Path, document: dict[str, Any]) -> list[Unit]:
    """Seed by seed, so that what is there early says something of every arm."""
    found = [
        Unit(g.env, str(x.arm), x.seed, x.path, learner_document(g.document, x))
        for g in groups(folder, document)
        for x in learners_of(g.folder, g.document)
    ]
    order = {seed: k for k, seed in enumerate(document["seeds"])}
    return sorted(found, key=lambda unit: order[unit.seed])


def state_of(unit: Unit) -> str:
    """finished, failed, running (or stopped on its way), missing."""
    told = status(unit.path).get("state")
    if told == "finished":
        return "finished"
    if failure(unit.path) is not None:
        return "failed"
    if told == "failed":  # not by its own fault: it will be tried again
        return "failed" if "error" in status(unit.path) else "running"
    return "running" if told else "missing"


def check_runs(found: list[Unit], mixed: bool) -> None:
    """Refuse runs that were made otherwise than the study says."""
    for unit in found:
        if not (unit.path / "config.json").exists():
            continue
        there = read_config(unit.path)
        keys = (
            "algo",
            "env",
            "config",
            "steps",
            "engine",
            "eval_every",
            "eval_episodes",
        )
        changed = differences(
            {key: there.get(key) for key in keys},
            {key: unit.document[key] for key in keys},
        )
        if changed:
            raise ConfigError(f"{unit.path}: is no run of this study: {changed[0]}")
        moved = differences(
            {key: there.get("versions", {}).get(key) for key in VERSIONED},
            {key: unit.document["versions"].get(key) for key in VERSIONED},
        )
        if moved and not mixed:
            raise ConfigError(
                f"{unit.path}: was made with other versions: {'; '.join(moved)}; "
                "--mixed takes it as it is"
            )


def at(study: Study, **changed: Any) -> Study:
    """The study with another budget."""
    given = {key: value for key, value in changed.items() if value is not None}
    for key, value in given.items():
        if value < 1:
            raise ConfigError(f"--{key.replace('_', '-')} {value}: needs at least 1")
    return dataclasses.replace(study, **given)


def config_of(unit: Unit) -> Any:
    """The config of a unit's algorithm, as it learns with it."""
    from penfac.algos import ALGORITHMS

    return from_values(
        ALGORITHMS[unit.document["algo"]].config, unit.document["config"]
    )
