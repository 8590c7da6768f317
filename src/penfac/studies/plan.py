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
from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.runs.folder import RunFolder, read_config, storage
from penfac.runs.learners import documents, learner_document, learners_of
from penfac.runs.standing import failure, status
from penfac.studies import spec
from penfac.studies.spec import Arm, Study
from penfac.training.request import IDENTITY, Request, differences, resolve, versions

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
        raise ConfigError(f"{folder}: is not a study folder (it has no {FILE})")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        version = document["format"]
        if type(version) is int and version > FORMAT:
            raise CorruptFile(
                f"{file}: has format {version}, of penfac {document.get('penfac')}; "
                f"this penfac reads up to {FORMAT}"
            )
        check_kinds(document)
        spec.of_table(document["study"])
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        ConfigError,
    ):
        raise CorruptFile(f"{file}: is not a study that penfac wrote") from None
    return document


def check_kinds(document: dict[str, Any]) -> None:
    """Refuse what `make_document` would not have written."""
    kinds = {
        "format": int, "penfac": str, "study": dict, "seeds": list, "on": str,
        "command": str, "created": str, "versions": dict,
    }  # fmt: skip
    for key, kind in kinds.items():
        if type(document[key]) is not kind:
            raise TypeError(key)
    seeds = document["seeds"]
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("seeds")
    if not all(type(seed) is int for seed in seeds):
        raise TypeError("seeds")
    if document["on"] not in ("auto", "device"):
        raise ValueError("on")


def study_of(document: dict[str, Any]) -> Study:
    return spec.of_table(document["study"])


def agreed(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """A new study, or the one that is there with its seeds and ours. Everything that can
    be wrong is told here, and nothing is written."""
    if (folder / FILE).exists():
        document = joined(folder, read_document(folder), document)
    elif folder.exists() and not unused(folder):
        raise RunFolderBusy(
            f"{folder}: exists and is not a study; choose another --name"
        )
    groups(folder, document)
    return document


def unused(folder: Path) -> bool:
    """Nothing in it but what a driver leaves that is killed before it wrote study.json."""
    return folder.is_dir() and all(
        path.name == "lock" or path.name.startswith(".tmp-")
        for path in folder.iterdir()
    )


def joined(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The study that is there, with the seeds of both; another study is refused."""
    changed = differences(what(old), what(new))
    if changed:
        short = [text if len(text) < 120 else text.split(":")[0] for text in changed]
        raise ConfigError(
            f"{folder}: holds another study ({'; '.join(short[:3])}); "
            "choose another --name"
        )
    seeds = [*old["seeds"], *(s for s in new["seeds"] if s not in old["seeds"])]
    if len(old["seeds"]) == 1 and len(seeds) > 1:
        raise ConfigError(
            f"{folder}: was started with one seed, others need another --name"
        )
    return old | {"seeds": seeds, "study": new["study"]}


def what(document: dict[str, Any]) -> dict[str, Any]:
    """What may not change: all that a run learns from. Words and claims may."""
    table = spec.to_table(study_of(document))  # what older ones leave out is added
    keys = ("name", "fidelity", "envs", "steps", "eval_every", "eval_episodes")
    arms = [
        {key: value for key, value in arm.items() if key != "note"}
        for arm in table["arms"]
    ]
    return {key: table[key] for key in keys} | {"arms": arms, "on": document["on"]}


def write(folder: Path, document: dict[str, Any]) -> None:
    """study.json, then each config.json that is not there yet or has too few seeds: a
    driver that is killed in between is made up for by the next."""
    home = RunFolder(folder)
    home.sweep()
    if not (folder / FILE).exists() or read_document(folder) != document:
        home.write_json(FILE, document)
    for group in groups(folder, document):
        for path, own in documents(group.folder, group.document).items():
            if (path / "config.json").exists() and own["seeds"] == seeds_in(path):
                continue
            with storage(path):
                path.mkdir(parents=True, exist_ok=True)
            below = RunFolder(path)
            below.sweep()  # nobody learns where this file is yet to be written
            below.write_json("config.json", own)


def seeds_in(path: Path) -> Any:
    return read_config(path).get("seeds")


# --- groups and units --------------------------------------------------------------------


def groups(folder: Path, document: dict[str, Any]) -> list[Group]:
    """One document a group, resolved and checked as `penfac train` does."""
    study, found, names = study_of(document), [], {}
    for env in study.envs:
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", env)
        if names.setdefault(name, env) != env:
            raise ConfigError(
                f"{study.name}: {names[name]} and {env} would share a folder; rename one"
            )
        algos = dict.fromkeys(arm.algo for arm in study.arms)
        for algo in algos:
            arms = [arm for arm in study.arms if arm.algo == algo]
            own = group_document(study, env, arms, document)
            found.append(Group(env, folder / name / algo, own))
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
        settings=arm.settings | arm.on.get(env, {}),
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
        keys = (*IDENTITY, "steps")
        changed = differences(
            {key: there.get(key) for key in keys},
            {key: unit.document[key] for key in keys},
        )
        if changed:
            raise ConfigError(f"{unit.path}: is not a run of this study: {changed[0]}")
        moved = versions_moved(there.get("versions"), unit.document["versions"])
        if moved and not mixed:
            raise ConfigError(
                f"{unit.path}: was made with other versions ({'; '.join(moved)}); "
                "--mixed accepts it"
            )


def versions_moved(old: Any, new: dict[str, Any]) -> list[str]:
    """`jax: 0.9 -> 0.10` for what makes runs no longer comparable."""
    known = old if isinstance(old, dict) else {}
    return differences(
        {key: known.get(key) for key in VERSIONED},
        {key: new.get(key) for key in VERSIONED},
    )


def by_these_versions(
    todo: list[Unit], document: dict[str, Any], mixed: bool
) -> list[Unit]:
    """Runs to come say what makes them; with other versions than the study was begun
    with they are refused, unless they may be mixed."""
    moved = versions_moved(document["versions"], versions())
    if not moved or not todo:
        return todo
    if not mixed:
        raise ConfigError(
            f"{document['study']['name']}: was started with other versions "
            f"({'; '.join(moved)}); --mixed continues with these"
        )
    return [u._replace(document=u.document | {"versions": versions()}) for u in todo]


def at(study: Study, **changed: Any) -> Study:
    """The study with another budget."""
    given = {key: value for key, value in changed.items() if value is not None}
    for key, value in given.items():
        if value < 1:
            raise ConfigError(f"--{key.replace('_', '-')} {value}: must be at least 1")
    return dataclasses.replace(study, **given)
