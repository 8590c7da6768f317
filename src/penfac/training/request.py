"""A request for a run, checked and resolved into the run's config."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import penfac
from penfac.envs.gym import check_id, is_vector
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError
from penfac.runs.config import RunConfig, check_arm_name, check_config
from penfac.runs.versions import versions
from penfac.settings import presets
from penfac.settings.registry import parse, settings_of
from penfac.training import warm


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
    eval_every: int | None = None  # None: a twentieth of the run
    eval_episodes: int = 10
    eval_unit: str = "steps"
    options: EnvOptions = field(default_factory=EnvOptions)
    restarts: int = 0
    on: str = "auto"  # auto, cpu, device
    start_from: Path | None = None  # a run whose weights this one begins with
    out: Path = Path("runs")
    name: str | None = None


def resolve(request: Request) -> RunConfig:
    """Check everything that can be checked without building an environment."""
    if ":" in request.env:  # its module may register a JAX environment
        check_id(request.env)
    config = settle(request)
    check_id(request.env)
    if request.restarts and is_vector(request.env):
        raise ConfigError(
            f"--env-restarts {request.restarts}: {request.env} is a vector environment, "
            "which breaks as a whole; leave it out"
        )
    return config


def settle(request: Request) -> RunConfig:
    """The config of a request; nothing is imported to look its environment up."""
    algo = settings_of(request.algo)
    values = presets.preset(algo.presets, request.preset, request.env)
    values = values | dict(algo.overrides) | request.settings
    every = request.eval_every
    config = RunConfig(
        penfac=penfac.__version__,
        algo=request.algo,
        env=request.env,
        env_options=request.options,
        preset=request.preset,
        settings=parse(request.algo, values),
        seeds=request.seeds,
        steps=request.steps,
        eval_every=max(1, request.steps // 20) if every is None else every,
        eval_episodes=request.eval_episodes,
        eval_unit="episodes" if request.eval_unit == "episodes" else "steps",
        restarts=request.restarts,
        engine="host",
        start_from=began_with(request),
        arms=None if request.arms is None else resolve_arms(request, values),
    )
    check_config(config)
    on_device = runs_on_device(request)
    return replace(config, engine="device") if on_device else config


def began_with(request: Request) -> str | None:
    """The path of the run to start from, which must have all seeds."""
    if request.start_from is None:
        return None
    for seed in request.seeds:
        warm.source_of(request.start_from, seed)
    return str(request.start_from.resolve())


def stamp(config: RunConfig, command: str) -> RunConfig:
    """The config of a run that begins now."""
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    return replace(config, command=command, created=created, versions=versions())


def resolve_arms(request: Request, values: dict[str, Any]) -> dict[str, Any]:
    """The whole config of each arm; `distinct` leaves out configs that repeat."""
    arms: dict[str, Any] = {}
    for name, changes in (request.arms or {}).items():
        try:
            check_arm_name(name)
            cfg = parse(request.algo, values | changes)
        except ConfigError as error:
            raise ConfigError(f"--arms: [{name}]: {error}") from None
        if not (request.distinct and cfg in arms.values()):
            arms[name] = cfg
    return arms


def runs_on_device(request: Request) -> bool:
    """JAX environments run inside the program, the Roboschool tasks on request, all
    others on the host."""
    from penfac.envs.builtin import BUILT_IN, found, is_jax_env

    if request.on == "device" and not is_jax_env(request.env):
        raise ConfigError(
            f"--on device: {request.env} is not a JAX environment; these are "
            f"the Roboschool tasks, {', '.join(BUILT_IN)}"
        )
    asked = request.on == "device" or found(request.env) is not None
    if not asked or request.on == "cpu":
        return False
    known = {"rules"} if found(request.env) is None else set()
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
    return True
