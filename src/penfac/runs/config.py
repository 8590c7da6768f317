"""config.json as a typed record: read, checked and written here and nowhere else."""

import collections
import json
import math
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError, CorruptFile
from penfac.runs.folder import NAMES
from penfac.runs.storage import read_file
from penfac.settings.configs import to_values
from penfac.settings.declaration import known_fields
from penfac.settings.registry import SETTINGS, config_class, parse_saved

FORMAT = 1
FILE = "config.json"
MAX_SEED = 2**32 - 1
IDENTITY = (  # the keys that may not change between a checkpoint and its resumption
    "algo", "env", "env_options", "config", "eval_every", "eval_episodes", "eval_unit",
    "restarts", "engine",
)  # fmt: skip


class SearchConfig(msgspec.Struct, frozen=True):
    """The search that a run belongs to."""

    configs: int
    halvings: int
    space: dict[str, Any]  # the distribution of each setting that is drawn
    seed: int = 0  # of the draws
    processes: int | None = None  # None: one per core
    fixed: tuple[str, ...] = ()  # settings of the space that were not drawn
    sampler: Literal["random", "tpe"] = "random"  # all drawn first, or one by one
    told: tuple[
        tuple[str, int, bool], ...
    ] = ()  # tpe: config, rung, whether it goes on


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to run it again, in the order of config.json."""

    format: int = FORMAT
    penfac: str  # the version that made it
    algo: str
    env: str
    env_options: EnvOptions
    preset: str | None = None
    settings: Any = msgspec.field(name="config")  # the algorithm's Config
    seeds: tuple[int, ...]
    steps: int
    eval_every: int
    eval_episodes: int
    eval_unit: Literal["steps", "episodes"]
    restarts: int
    engine: Literal["host", "device"]
    arms: dict[str, Any] | None = None  # a Config for each arm
    study: str | None = None
    search: SearchConfig | None = None
    start_from: str | None = None  # the run whose weights it began with
    command: str | None = None
    created: str | None = None
    versions: dict[str, str] | None = None
    arm: str | None = None  # set where an arm's own folder is meant
    alive: tuple[str, ...] | None = None  # the arms a search still trains; None: all

    def identity(self) -> dict[str, Any]:
        """Of one learner: what may not change between a checkpoint and its resumption."""
        document = self.to_document()
        learner = {"seed": self.seeds[0], "arm": self.arm}
        return {key: document[key] for key in IDENTITY} | learner

    def to_document(self) -> dict[str, Any]:
        """The content of config.json; keys without a value are left out."""
        arms = self.arms and {k: to_values(v) for k, v in self.arms.items()}
        plain = msgspec.structs.replace(
            self, settings=to_values(self.settings), arms=arms
        )
        document = msgspec.to_builtins(plain)
        # through JSON, so that it compares equal to what a file gives back
        return json.loads(
            json.dumps({k: v for k, v in document.items() if v is not None})
        )


# --- reading -----------------------------------------------------------------------------


def read_config(path: Path) -> RunConfig:
    """The checked config of a run folder."""
    file = path / FILE
    if not path.is_dir():
        raise ConfigError(f"{path}: no such run folder")
    if not file.is_file():
        raise ConfigError(f"{path}: is not a run folder (it has no {FILE})")
    try:
        document = json.loads(read_file(file))
    except (OSError, ValueError, RecursionError):
        raise CorruptFile(f"{file}: is not a config that penfac wrote") from None
    return parse_config(file, document)


def parse_config(file: Path, document: Any) -> RunConfig:
    """Check a document that someone may have edited; `file` is named in errors."""
    if not isinstance(document, dict) or "format" not in document:
        raise CorruptFile(f"{file}: is not a config that penfac wrote")
    version = document["format"]
    if type(version) is not int or not 1 <= version <= FORMAT:
        raise CorruptFile(
            f"{file}: has format {version}, of penfac {document.get('penfac')}; "
            f"this penfac reads up to {FORMAT}"
        )
    if not isinstance(document.get("versions"), dict):  # a note for people
        document = document | {"versions": None}
    try:
        config = msgspec.convert(document, RunConfig)
        check_options(document["env_options"])
        if config.algo not in SETTINGS:
            words = ", ".join(SETTINGS)
            raise ConfigError(f"algo is {config.algo}, must be one of {words}")
        arms = config.arms and {
            name: parse_saved(config.algo, values)
            for name, values in config.arms.items()
        }
        settings = parse_saved(config.algo, config.settings)
        config = msgspec.structs.replace(config, settings=settings, arms=arms)
        check_config(config)
        check_search(config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {explain(error, document)}") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file}: was edited ({error})") from error
    return config


def check_options(options: dict[str, Any]) -> None:
    """Each option of an environment is there, and no other."""
    for key in options.keys() ^ set(EnvOptions.__dataclass_fields__):
        what = "is no option" if key in options else "is missing"
        raise ConfigError(f"env_options.{key} {what}")


def explain(error: msgspec.ValidationError, document: dict[str, Any]) -> str:
    """`steps is 'junk', must be int`, from what msgspec says."""
    text, _, path = str(error).replace("`", "").partition(" - at $.")
    if text.startswith("Object missing required field "):
        key = ".".join(filter(None, (path, text.split()[-1])))
        return f"{key} is missing"
    key, *rest = re.split(r"[.\[]", path)
    if text.startswith("Invalid enum value"):
        kind, found = RunConfig, document
        if rest:  # `search.sampler`, the only word of an inner part
            kind, found, key = SearchConfig, document[key], rest[0]
        words = kind.__annotations__[key].__args__
        return f"{path} is {found[key]}, must be one of {', '.join(words)}"
    needs = text.removeprefix("Expected ").partition(", got")[0]
    value = "" if rest else f" is {document.get(key)!r},"
    return f"{path}{value} must be {needs}"


# --- checks that a command's options share -------------------------------------------------


def check_config(config: RunConfig) -> None:
    """Ranges of numbers and names of arms; an error names the option of the command."""
    least = {
        "steps": config.steps,
        "eval-every": config.eval_every,
        "eval-episodes": config.eval_episodes,
        "max-episode-steps": config.env_options.max_episode_steps,
        "seeds": len(config.seeds),
    }
    for name, value in least.items():
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: must be at least 1")
    if config.restarts < 0:
        raise ConfigError(f"--env-restarts {config.restarts}: must be at least 0")
    for seed in config.seeds:
        if not 0 <= seed <= MAX_SEED:
            raise ConfigError(f"--seed {seed}: must be 0 to {MAX_SEED}")
    counts = collections.Counter(config.seeds)
    if repeated := sorted(seed for seed, n in counts.items() if n > 1):
        listed = ", ".join(map(str, repeated))
        raise ConfigError(f"--seeds: {listed} is listed twice; seeds must differ")
    bounds = config.env_options.action_bounds
    if bounds is not None and not -math.inf < bounds[0] < bounds[1] < math.inf:
        raise ConfigError(
            f"--action-bounds {bounds[0]},{bounds[1]}: must be two finite numbers, "
            "low below high"
        )
    if config.arms is not None and not config.arms:
        raise ConfigError("--arms: the file has no arm; write [NAME] blocks")
    for arm in config.arms or ():
        check_arm_name(arm)
    for arm in config.alive or ():
        if arm not in (config.arms or ()):
            raise ConfigError(f"alive: {arm} is not an arm of the run")


def check_search(config: RunConfig) -> None:
    """Numbers of a search that fit its arms, and settings that they have."""
    search, arms = config.search, config.arms or {}
    if search is None:
        return
    grows = search.sampler == "tpe"  # its arms are drawn while others learn
    count = search.configs if grows else len(arms)
    most = min(count, config.steps).bit_length() - 1
    for name, value, low, high in (
        ("configs", search.configs, max(2, len(arms)) if grows else 2, count),
        ("halvings", search.halvings, 0, most),
        ("seed", search.seed, 0, MAX_SEED),
        ("processes", search.processes or 1, 1, 2**16),
    ):
        if not low <= value <= high:
            raise ConfigError(f"search.{name} {value}: must be {low} to {high}")
    for key in search.space.keys() - known_fields(config_class(config.algo)).keys():
        raise ConfigError(f"search.space: {key} is no setting of {config.algo}")
    for arm, rung, _ in search.told:
        if arm not in arms or not 0 <= rung <= search.halvings:
            raise ConfigError(f"search.told: {arm} at {rung} is not of this search")


def check_arm_name(name: str) -> None:
    """An arm's name is also its folder's."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name)
    if plain is None or name.startswith("seed-"):
        raise ConfigError("a name needs letters, digits, . _ - and may not be seed-...")
    if name in NAMES:
        raise ConfigError("a run has a file with this name; choose another")


def differences(
    old: dict[str, Any], new: dict[str, Any], prefix: str = ""
) -> list[str]:
    """`config.gamma: 0.99 -> 0.9` for each difference between two documents."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            lines.append(f"{prefix}{key}: {a} -> {b}")
    return lines
