"""What is asked for: a request, checked and resolved into the document a run keeps.

config.json is that document; the same checks hold it to its word when a run goes on.
"""

import collections
import contextlib
import dataclasses
import functools
import math
import platform
import re
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import penfac
from penfac.algos import ALGORITHMS
from penfac.algos.base import Algorithm
from penfac.envs.gym import EnvOptions, check_id
from penfac.errors import ConfigError
from penfac.machine import usable_cores
from penfac.runs.folder import FORMAT as RUN_FORMAT
from penfac.runs.folder import NAMES
from penfac.settings import presets
from penfac.settings.configs import check, from_values, to_values
from penfac.settings.registry import SETTINGS
from penfac.settings.suggest import did_you_mean

VERSIONED = ("jax", "jaxlib", "numpy", "scipy", "optax", "gymnasium", "mujoco")
MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class Request:
    """What a user asks for; a run's config.json is this, resolved."""

    env: str
    algo: str = "penfac"
    preset: str = "tuned"
    settings: dict[str, Any] = field(default_factory=dict)
    arms: dict[str, dict[str, Any]] | None = None  # settings of each, over all others
    distinct: bool = False  # leave out an arm that equals an earlier one
    steps: int = 1_000_000
    seeds: tuple[int, ...] = (0,)
    eval_every: int | None = None  # none: a twentieth of the run
    eval_episodes: int = 10
    eval_unit: str = "steps"
    options: EnvOptions = field(default_factory=EnvOptions)
    restarts: int = 0
    on: str = "auto"  # auto, cpu, device
    out: Path = Path("runs")
    name: str | None = None


def resolve(request: Request) -> dict[str, Any]:
    """Check everything that can be checked without building an environment."""
    if request.algo not in ALGORITHMS:
        hint = did_you_mean(request.algo, ALGORITHMS)
        raise ConfigError(f"--algo {request.algo}: no such algorithm{hint}")
    algo = ALGORITHMS[request.algo]
    values = presets.preset(algo.presets, request.preset, request.env)
    settings = values | dict(algo.overrides) | request.settings
    cfg = from_values(algo.config, settings)
    check(cfg)
    arms = {} if request.arms is None else {"arms": resolve_arms(request, settings)}
    check_numbers(request)
    check_id(request.env)
    every = request.eval_every or max(1, request.steps // 20)
    return {
        "format": RUN_FORMAT,
        "penfac": penfac.__version__,
        "algo": request.algo,
        "env": request.env,
        "env_options": dataclasses.asdict(request.options),
        "preset": request.preset,
        "config": to_values(cfg),
        "seeds": list(request.seeds),
        "steps": request.steps,
        "eval_every": every,
        "eval_episodes": request.eval_episodes,
        "eval_unit": request.eval_unit,
        "restarts": request.restarts,
        "engine": choose_engine(request),
    } | arms


def resolve_arms(
    request: Request, settings: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The whole config of each arm; where they are to be `distinct`, each config once."""
    algo, found = ALGORITHMS[request.algo], {}
    for name, own in (request.arms or {}).items():
        try:
            check_arm(name)
            cfg = from_values(algo.config, settings | own)
            check(cfg)
        except ConfigError as error:
            raise ConfigError(f"--arms: [{name}]: {error}") from None
        values = to_values(cfg)
        if not (request.distinct and values in found.values()):
            found[name] = values
    if not found:
        raise ConfigError("--arms: the file has no arm; write [NAME] blocks")
    return found


def check_arm(name: str) -> None:
    """An arm's name is a folder's."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)
    if plain is None or name.startswith("seed-"):
        rule = "a name needs letters, digits, . _ -, and may not be seed-..."
        raise ConfigError(rule)
    if name in NAMES:
        raise ConfigError("a run has a file with this name; choose another")


def check_numbers(request: Request) -> None:
    least = {
        "steps": request.steps,
        "eval-every": request.eval_every,
        "eval-episodes": request.eval_episodes,
        "max-episode-steps": request.options.max_episode_steps,
        "seeds": len(request.seeds),
    }
    for name, value in least.items():
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: must be at least 1")
    if request.restarts < 0:
        raise ConfigError(f"--env-restarts {request.restarts}: must be at least 0")
    for seed in request.seeds:
        if not 0 <= seed <= MAX_SEED:
            raise ConfigError(f"--seed {seed}: must be 0 to {MAX_SEED}")
    twice = [seed for seed, n in collections.Counter(request.seeds).items() if n > 1]
    if twice:
        listed = ", ".join(map(str, sorted(twice)))
        raise ConfigError(f"--seeds: {listed} is listed twice; seeds must differ")
    bounds = request.options.action_bounds
    if bounds is not None and not -math.inf < bounds[0] < bounds[1] < math.inf:
        raise ConfigError(
            f"--action-bounds {bounds[0]},{bounds[1]}: must be two finite numbers, "
            "low below high"
        )


def choose_engine(request: Request) -> str:
    """JAX environments run inside the program, the Roboschool tasks if asked to,
    everything else on the host."""
    from penfac.envs.builtin import BUILT_IN, is_jax_env

    if request.on == "device" and not is_jax_env(request.env):
        raise ConfigError(
            f"--on device: {request.env} is not a JAX environment; these are "
            f"the Roboschool tasks, {', '.join(BUILT_IN)}"
        )
    asked = request.on == "device" or request.env in BUILT_IN
    if not asked or request.on == "cpu":
        return "host"
    known = {"rules"} if request.env not in BUILT_IN else set()
    used = {
        "action-bounds": request.options.action_bounds,
        "flatten-obs": request.options.flatten_obs,
        "env-arg": request.options.kwargs.keys() - known,
    }
    for option, value in used.items():
        if value:
            raise ConfigError(
                f"--{option}: {request.env} does not have this option on a device; use --on cpu"
            )
    return "device"


def completed(algo: Algorithm, config: dict[str, Any]) -> dict[str, Any]:
    """A config as a file has it; behind it the settings that an earlier version had not."""
    earlier = SETTINGS[algo.name].earlier
    return config | {k: v for k, v in earlier.items() if k not in config}


def check_document(file: Path, document: dict[str, Any]) -> None:
    """Hold a config.json that someone may have edited to what we would have written;
    one of an earlier version gets the settings that it had not."""
    kinds = {
        "algo": str, "env": str, "env_options": dict, "config": dict, "seeds": list,
        "steps": int, "eval_every": int, "eval_episodes": int, "eval_unit": str,
        "restarts": int, "engine": str, "penfac": str,
    }  # fmt: skip
    for key, kind in kinds.items():
        if type(document.get(key)) is not kind:
            said = repr(document[key]) if key in document else "missing"
            raise ConfigError(f"{file}: {key} is {said}, must be a {kind.__name__}")
    words = {
        "algo": tuple(ALGORITHMS),
        "eval_unit": ("steps", "episodes"),
        "engine": ("host", "device"),
    }
    for key, allowed in words.items():
        if document[key] not in allowed:
            raise ConfigError(
                f"{file}: {key} is {document[key]}, must be one of {', '.join(allowed)}"
            )
    if not all(type(seed) is int for seed in document["seeds"]):
        raise ConfigError(
            f"{file}: seeds are {document['seeds']}, must be whole numbers"
        )
    try:
        keys = ("steps", "eval_every", "eval_episodes", "restarts")
        check_numbers(
            Request(
                env=document["env"],
                seeds=tuple(document["seeds"]),
                options=env_options(document),
                **{key: document[key] for key in keys},
            )
        )
        algo = ALGORITHMS[document["algo"]]
        document["config"] = completed(algo, document["config"])
        check(from_values(algo.config, document["config"]))
        for name, values in document.get("arms", {}).items():
            check_arm(name)
            document["arms"][name] = values = completed(algo, values)
            check(from_values(algo.config, values))
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file}: was edited ({error})") from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def env_options(document: dict[str, Any]) -> EnvOptions:
    """The options of the environment, back from JSON."""
    options = dict(document["env_options"])
    if options.get("action_bounds") is not None:
        low, high = options["action_bounds"]
        options["action_bounds"] = (float(low), float(high))
    return EnvOptions(**options)


IDENTITY = (  # what may not change between a checkpoint and its resumption
    "algo", "env", "env_options", "config", "eval_every", "eval_episodes", "eval_unit",
    "restarts", "engine",
)  # fmt: skip


def identity(document: dict[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in IDENTITY}


def differences(
    old: dict[str, Any], new: dict[str, Any], prefix: str = ""
) -> list[str]:
    """`config.gamma: 0.99 -> 0.9` for everything that differs."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}: {a} -> {b}")
    return found


@functools.cache
def versions() -> dict[str, str]:
    found = {}
    for name in VERSIONED:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": str(len(usable_cores())),
    }
