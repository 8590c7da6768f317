"""A study as data: arms x environments x seeds, a budget, and claims."""

import dataclasses
import json
import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError, printable
from penfac.runs.config import check_arm_name
from penfac.settings.suggest import did_you_mean
from penfac.settings.toml import read_toml
from penfac.studies import claims
from penfac.studies.budgets import whole_numbers, whole_tables
from penfac.studies.claims import Claim

ARM_KEYS = ("algo", "preset", "note")  # keys of an arm that are not settings


@dataclass(frozen=True)
class Arm:
    """One curve: an algorithm, a preset, and the settings in which it differs."""

    name: str
    algo: str = "penfac"
    preset: str = "tuned"
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    on: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # further settings, by environment


@dataclass(frozen=True)
class Study:
    """An experiment as data."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    envs: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    question: str = ""
    paper: str = ""  # the figure or section
    fidelity: str = ""
    seeds: int = 10
    steps: int = 1_000_000
    eval_every: int | None = None  # None: a twentieth of the steps
    eval_episodes: int = 10
    paper_seeds: int | None = None  # of the paper's figure
    paper_steps: int | None = None
    env_steps: dict[str, int] = field(default_factory=dict)  # where they are others
    algo_seeds: dict[str, int] = field(default_factory=dict)  # at most so many

    def steps_on(self, env: str) -> int:
        return self.env_steps.get(env, self.steps)


def check(study: Study) -> Study:
    """Refuse a study that cannot run; each run checks its own config."""
    check_types(study)
    if not study.arms or not study.envs:
        raise ConfigError(f"{study.name}: must have arms and envs")
    check_unique(study.name, "arm", [arm.name for arm in study.arms])
    check_unique(study.name, "environment", list(study.envs))
    for arm in study.arms:
        try:
            check_arm_name(arm.name)
        except ConfigError as error:
            raise ConfigError(f"{study.name}: arm {arm.name!r}: {error}") from None
        if arm.algo not in ALGORITHMS:
            raise ConfigError(
                f"{study.name}: arm {arm.name}: {arm.algo} is not an algorithm"
                f"{did_you_mean(arm.algo, ALGORITHMS)}"
            )
    for claim in study.claims:
        try:
            claims.check(claim, {arm.name for arm in study.arms})
            check_claim(claim, study)
        except ConfigError as error:
            raise ConfigError(f"{study.name}: {error}") from None
    return study


def check_claim(claim: Claim, study: Study) -> None:
    """Refuse environments and evaluation modes that the study does not have."""
    named = {*claim.envs, *(env for pair in claim.changes for env in pair)}
    for env in named - set(study.envs):
        raise ConfigError(f"{claim.words!r}: {env} is not in envs")
    algos = {arm.name: arm.algo for arm in study.arms}
    for side in (side for c in claim.comparisons for side in c.sides):
        algo = algos[side.arm]
        modes = ALGORITHMS[algo].modes
        if side.mode not in modes:
            raise ConfigError(
                f"{side.arm}[{side.mode}]: must be {' or '.join(modes)} for {algo}"
            )


def check_types(study: Study) -> None:
    """Refuse values of the wrong type, and names that cannot name a folder."""
    for key in ("name", "title", "question", "paper", "fidelity"):
        check_text(key, getattr(study, key))
    for word in (study.name, study.fidelity or "none"):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", word):
            raise ConfigError(
                f"{word!r}: a name must hold letters, digits, . _ and - only"
            )
    for env in word_list(study.name, "envs", study.envs):
        check_text("envs", env)
    for claim in study.claims:
        check_text("words", claim.words)
        check_text("where", claim.where)
    every = vars(study) | {"eval_every": study.eval_every or 1}
    needed = ("seeds", "steps", "eval_every", "eval_episodes")
    if not set(needed) <= whole_numbers(study.name, every).keys():
        raise ConfigError(
            f"{study.name}: seeds, steps and eval_episodes must be whole numbers above 0"
        )
    tables = whole_tables(study.name, vars(study))
    check_keys(study.name, tables["env_steps"], set(study.envs))
    check_keys(study.name, tables["algo_seeds"], {arm.algo for arm in study.arms})
    if min(tables["algo_seeds"].values(), default=2) < 2:
        raise ConfigError(f"{study.name}: algo_seeds must be at least 2")
    for arm in study.arms:
        for word in (arm.name, arm.preset, arm.note):
            check_text(f"{study.name}: name, algo, preset or note of an arm", word)
        if not isinstance(arm.settings, dict):
            raise ConfigError(f"{study.name}: arm {arm.name}: settings must be a table")
        try:
            json.dumps(arm.settings)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{study.name}: arm {arm.name}: {error}") from None


def check_text(key: str, value: Any) -> None:
    """Refuse what is no text, and what a terminal would obey."""
    if not isinstance(value, str) or printable(value) != value:
        raise ConfigError(f"{key} = {value!r}: must be text without control characters")


def arms_named(study: Study, only: tuple[str, ...]) -> tuple[Arm, ...]:
    """The arms named in `only`; all if none is."""
    known = [arm.name for arm in study.arms]
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known) or f": {', '.join(known)}"
            raise ConfigError(f"--arms {name}: {study.name} has no such arm{hint}")
    return tuple(arm for arm in study.arms if not only or arm.name in only)


def with_budget(study: Study, **changed: int | None) -> Study:
    """The study with another budget; None keeps what it has."""
    budget = {key: value for key, value in changed.items() if value is not None}
    for key, value in budget.items():
        if value < 1:
            raise ConfigError(f"--{key.replace('_', '-')} {value}: must be at least 1")
    changes: dict[str, Any] = budget
    if "steps" in changes:
        changes["env_steps"] = {}  # as many on every environment
    return dataclasses.replace(study, **changes)


def check_unique(study: str, kind: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{study}: {kind} {name}: must be there once")


# --- a study in a file -------------------------------------------------------------------


def run_python(file: Path) -> Any:
    """The `study` that a Python file sets."""
    try:
        return runpy.run_path(str(file)).get("study")
    except OSError as error:
        raise ConfigError(f"{file}: {error}") from None
    except Exception as error:  # a Python file may raise anything
        raise ConfigError(f"{file}: {type(error).__name__}: {error}") from None


def read(file: Path) -> Study:
    """Read a TOML file, or a Python file that sets `study` to a Study or a table."""
    is_python = file.suffix == ".py"
    content = run_python(file) if is_python else read_toml(file, str(file))
    if isinstance(content, Study):
        return check(content)
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must set `study` to a Study or a table")
    return from_table(file.stem, content)


def from_table(name: str, table: dict[str, Any]) -> Study:
    """A study from [arms.NAME] blocks and [[claims]], in TOML or in Python."""
    known = {f.name for f in dataclasses.fields(Study)} | {"algo", "preset"}
    check_keys(name, table, known)
    plain = {k: v for k, v in table.items() if k not in ("arms", "claims", *ARM_KEYS)}
    shared = {k: table[k] for k in ("algo", "preset") if k in table}
    arms, listed = table.get("arms", {}), table.get("claims", [])
    if not isinstance(arms, dict) or not all(map(is_table, arms.values())):
        raise ConfigError(f"{name}: arms must be blocks [arms.NAME]")
    if not isinstance(listed, list) or not all(map(is_table, listed)):
        raise ConfigError(f"{name}: claims must be blocks [[claims]]")
    values: dict[str, Any] = {"name": name, "title": name} | plain
    values |= whole_numbers(name, plain) | whole_tables(name, plain)
    values |= {
        "arms": tuple(parse_arm(key, shared | block) for key, block in arms.items()),
        "envs": word_list(name, "envs", table.get("envs", [])),
        "claims": tuple(parse_claim(name, block) for block in listed),
    }
    return check(Study(**values))


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


def parse_arm(name: str, block: dict[str, Any]) -> Arm:
    words: dict[str, Any] = {k: str(block[k]) for k in ARM_KEYS if k in block}
    settings = {key: value for key, value in block.items() if key not in ARM_KEYS}
    return Arm(name, settings=settings, **words)


def parse_claim(study: str, block: dict[str, Any]) -> Claim:
    check_keys(study, block, {f.name for f in dataclasses.fields(Claim)})
    if "compare" not in block:
        raise ConfigError(f'{study}: a claim must have compare = ["a above b", ...]')
    lines = word_list(study, "compare", block["compare"])
    values: dict[str, Any] = {"words": "; ".join(lines)} | block | {"compare": lines}
    for key in ("envs", "needs"):
        values[key] = word_list(study, key, block.get(key, []))
    changes = block.get("changes", [])
    if not isinstance(changes, list | tuple):
        raise ConfigError(f"{study}: changes = {changes!r}: must be a list of pairs")
    pairs = tuple(word_list(study, "changes", pair) for pair in changes)
    for pair in pairs:
        if len(pair) != 2:
            raise ConfigError(
                f"{study}: changes = {pair!r}: must be pairs of environments"
            )
    values["changes"] = pairs
    return Claim(**values)


def word_list(study: str, key: str, value: Any) -> tuple[str, ...]:
    """A list of words; one word stands for a list of one."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(
        isinstance(word, str) for word in words
    ):
        raise ConfigError(f"{study}: {key} = {value!r}: must be a list of words")
    return tuple(words)


def check_keys(study: str, table: dict[str, Any], known: set[str]) -> None:
    for key in table.keys() - known:
        raise ConfigError(f"{study}: {key}: no such key{did_you_mean(key, known)}")


# --- study.json --------------------------------------------------------------------------


def to_table(study: Study) -> dict[str, Any]:
    """The study as JSON: lists instead of tuples."""
    return json.loads(json.dumps(dataclasses.asdict(study)))


def of_table(table: dict[str, Any]) -> Study:
    """A study from JSON; claims of earlier versions have neither needs nor changes."""
    name = str(table["name"])
    typed = table | whole_numbers(name, table) | whole_tables(name, table)
    try:
        return check(msgspec.convert(typed, Study))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{table['name']}: {error}") from None
