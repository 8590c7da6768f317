"""What a study is: arms x environments x seeds, a budget, and claims."""

import dataclasses
import json
import re
import runpy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.settings.suggest import did_you_mean
from penfac.settings.toml import read_toml
from penfac.studies import claims
from penfac.studies.claims import Claim
from penfac.training.request import check_arm

OWN = ("algo", "preset", "note")  # words of an arm that are no settings
BUDGET = (
    "seeds", "steps", "eval_every", "eval_episodes", "paper_seeds", "paper_steps",
)  # fmt: skip


@dataclass(frozen=True)
class Arm:
    """One curve: an algorithm, a preset, and the settings in which it differs."""

    name: str
    algo: str = "penfac"
    preset: str = "tuned"
    settings: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    on: dict[str, dict[str, Any]] = field(default_factory=dict)  # more, by environment


@dataclass(frozen=True)
class Study:
    """An experiment as data."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    envs: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    question: str = ""
    paper: str = ""  # where it stands there
    fidelity: str = ""
    seeds: int = 10
    steps: int = 1_000_000
    eval_every: int | None = None  # none: a twentieth of the steps
    eval_episodes: int = 10
    paper_seeds: int | None = None  # what the paper's figure is made of
    paper_steps: int | None = None


def check(study: Study) -> Study:
    """Refuse what cannot be run; what is left to the run's own checks is its config."""
    check_words(study)
    if not study.arms or not study.envs:
        raise ConfigError(f"{study.name}: must have arms and envs")
    twice(study.name, "arm", [arm.name for arm in study.arms])
    twice(study.name, "environment", list(study.envs))
    for arm in study.arms:
        try:
            check_arm(arm.name)
        except ConfigError as error:
            raise ConfigError(f"{study.name}: arm {arm.name!r}: {error}") from None
        if arm.algo not in ALGORITHMS:
            hint = did_you_mean(arm.algo, ALGORITHMS)
            raise ConfigError(
                f"{study.name}: arm {arm.name}: {arm.algo} is not an algorithm{hint}"
            )
    for claim in study.claims:
        try:
            claims.check(claim, {arm.name for arm in study.arms})
        except ConfigError as error:
            raise ConfigError(f"{study.name}: {error}") from None
        for env in {*claim.envs, *(e for pair in claim.changes for e in pair)} - set(
            study.envs
        ):
            raise ConfigError(f"{study.name}: {claim.words!r}: {env} is not in envs")
        for side in (s for c in claim.comparisons for s in c.sides):
            algo = next(a.algo for a in study.arms if a.name == side.arm)
            modes = ALGORITHMS[algo].modes
            if side.mode not in modes:
                raise ConfigError(
                    f"{study.name}: {side.arm}[{side.mode}]: must be "
                    f"{' or '.join(modes)} for {algo}"
                )
    return study


def check_words(study: Study) -> None:
    """What names a folder or is printed is text; name and fidelity make a folder's name."""
    for key in ("name", "title", "question", "paper", "fidelity"):
        if not isinstance(getattr(study, key), str):
            raise ConfigError(f"{key} = {getattr(study, key)!r}: must be text")
    for word in (study.name, study.fidelity or "none"):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", word):
            raise ConfigError(
                f"{word!r}: a name must hold letters, digits, . _ and - only"
            )
    texts(study.name, "envs", study.envs)
    every = vars(study) | {"eval_every": study.eval_every or 1}
    needed = ("seeds", "steps", "eval_every", "eval_episodes")
    if not set(needed) <= numbers(study.name, every).keys():
        raise ConfigError(
            f"{study.name}: seeds, steps and eval_episodes must be whole numbers above 0"
        )
    for arm in study.arms:
        if not all(isinstance(w, str) for w in (arm.name, arm.preset, arm.note)):
            raise ConfigError(
                f"{study.name}: arm {arm.name}: name, algo, preset and note must be text"
            )
        if not isinstance(arm.settings, dict):
            raise ConfigError(f"{study.name}: arm {arm.name}: settings must be a table")
        try:
            json.dumps(arm.settings)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{study.name}: arm {arm.name}: {error}") from None


def arms_named(study: Study, only: tuple[str, ...]) -> tuple[Arm, ...]:
    """Those of its arms, or all where none is named."""
    known = [arm.name for arm in study.arms]
    for name in only:
        if name not in known:
            hint = did_you_mean(name, known) or f": {', '.join(known)}"
            raise ConfigError(f"--arms {name}: {study.name} has no such arm{hint}")
    return tuple(arm for arm in study.arms if not only or arm.name in only)


def twice(study: str, what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{study}: {what} {name}: must be there once")


# --- a study of one's own ----------------------------------------------------------------


def run_python(file: Path) -> Any:
    """What a Python file leaves as `study`."""
    try:
        return runpy.run_path(str(file)).get("study")
    except OSError as error:
        raise ConfigError(f"{file}: {error}") from None
    except Exception as error:  # whatever a file of theirs raises
        raise ConfigError(f"{file}: {type(error).__name__}: {error}") from None


def read(file: Path) -> Study:
    """From a TOML file, or a Python file that leaves `study`: a Study or the same table."""
    is_python = file.suffix == ".py"
    found = run_python(file) if is_python else read_toml(file, str(file))
    if isinstance(found, Study):
        return check(found)
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: must set `study` to a Study or a table")
    return from_table(file.stem, found)


def from_table(name: str, table: dict[str, Any]) -> Study:
    """The same shape in TOML and in Python: [arms.NAME] blocks, [[claims]]."""
    known = {f.name for f in dataclasses.fields(Study)} | {"algo", "preset"}
    unknown_words(name, table, known)
    plain = {k: v for k, v in table.items() if k not in ("arms", "claims", *OWN)}
    usual = {k: table[k] for k in ("algo", "preset") if k in table}
    blocks = table.get("arms", {})
    if not isinstance(blocks, dict) or not all(map(is_table, blocks.values())):
        raise ConfigError(f"{name}: arms must be blocks [arms.NAME]")
    arms = tuple(arm(key, usual | block) for key, block in blocks.items())
    listed = table.get("claims", [])
    if not isinstance(listed, list) or not all(map(is_table, listed)):
        raise ConfigError(f"{name}: claims must be blocks [[claims]]")
    envs = table.get("envs", [])
    given: dict[str, Any] = {"name": name, "title": name} | plain
    given |= numbers(name, plain) | {
        "arms": arms,
        "envs": texts(name, "envs", envs),
        "claims": tuple(claim(name, c) for c in listed),
    }
    return check(Study(**given))


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


def numbers(name: str, table: dict[str, Any]) -> dict[str, int]:
    """Whole numbers, 1e6 among them."""
    found = {}
    for key in BUDGET:
        value = table.get(key)
        if value is None:
            continue
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or value < 1 or value % 1 != 0:  # of inf and NaN that is NaN
            raise ConfigError(
                f"{name}: {key} = {value!r}: must be a whole number above 0"
            )
        found[key] = int(value)
    return found


def arm(name: str, block: dict[str, Any]) -> Arm:
    own: dict[str, Any] = {key: str(block[key]) for key in OWN if key in block}
    settings = {key: value for key, value in block.items() if key not in OWN}
    return Arm(name, settings=settings, **own)


def claim(study: str, block: dict[str, Any]) -> Claim:
    unknown_words(study, block, {f.name for f in dataclasses.fields(Claim)})
    if "compare" not in block:
        raise ConfigError(f'{study}: a claim must have compare = ["a above b", ...]')
    lines = texts(study, "compare", block["compare"])
    told: dict[str, Any] = {"words": "; ".join(lines)} | block | {"compare": lines}
    for key in ("envs", "needs"):
        told[key] = texts(study, key, block.get(key, []))
    listed = block.get("changes", [])
    if not isinstance(listed, list | tuple):
        raise ConfigError(f"{study}: changes = {listed!r}: must be a list of pairs")
    told["changes"] = tuple(pair(study, each) for each in listed)
    return Claim(**told)


def pair(study: str, value: Any) -> tuple[str, str]:
    """Two environments: from, to."""
    found = texts(study, "changes", value)
    if len(found) != 2:
        raise ConfigError(
            f"{study}: changes = {value!r}: must be pairs of environments"
        )
    return found[0], found[1]


def texts(study: str, key: str, value: Any) -> tuple[str, ...]:
    """A list of words, or one."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(
        isinstance(word, str) for word in listed
    ):
        raise ConfigError(f"{study}: {key} = {value!r}: must be a list of words")
    return tuple(listed)


def unknown_words(study: str, table: dict[str, Any], known: set[str]) -> None:
    for key in table.keys() - known:
        hint = did_you_mean(key, known)
        raise ConfigError(f"{study}: {key}: no such key{hint}")


# --- as study.json holds it --------------------------------------------------------------


def to_table(study: Study) -> dict[str, Any]:
    """As JSON holds it: lists, no tuples."""
    return json.loads(json.dumps(dataclasses.asdict(study)))


def of_table(table: dict[str, Any]) -> Study:
    """Back from JSON."""
    arms = tuple(Arm(**block) for block in table["arms"])
    listed = tuple(claim_of(block) for block in table["claims"])
    own: dict[str, Any] = {"arms": arms, "claims": listed, "envs": tuple(table["envs"])}
    return check(Study(**(table | own)))


def claim_of(block: dict[str, Any]) -> Claim:
    """Back from JSON, also from one that was written before claims had needs."""
    keys = ("compare", "envs", "needs")
    told: dict[str, Any] = dict(block)
    told |= {key: tuple(block.get(key, ())) for key in keys}
    told["changes"] = tuple(
        (first, second) for first, second in told.get("changes", ())
    )
    return Claim(**told)
