"""Check the keywords of Python users, which are the options of commands."""

import contextlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError, PenfacError
from penfac.process import recognise_ctrl_c
from penfac.runs import tracking
from penfac.training.limits import Limits

WORDS = {  # words of command-line messages, and their Python equivalents
    "--max-episode-steps N": "max_episode_steps=N",
    "--action-bounds LOW,HIGH": "action_bounds=(LOW, HIGH)",
    "--flatten-obs joins": "flatten_obs=True joins",
    "--env-arg": "env_kwargs",
    "--steps": "total_timesteps",
    "add --trust": "pass trust=True to penfac.load",
    "--stochastic": "deterministic=False",
    "--from": "set_parameters",
    "--on cpu": 'on="cpu"',
    "--on device": 'on="device"',
}


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Make error messages name keywords instead of options."""
    try:
        with recognise_ctrl_c():
            yield
    except PenfacError as error:
        message = str(error)
        for option, keyword in WORDS.items():
            message = message.replace(option, keyword)
        message = re.sub(
            r"(?<!\S)--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), message
        )
        error.args = (message,)
        raise


def whole(name: str, value: Any, least: int | None = None) -> int:
    """Return a whole number; `1e6` is one."""
    number = value.item() if hasattr(value, "item") else value
    right = isinstance(number, int | float) and not isinstance(number, bool)
    if not right or number != number // 1:
        raise ConfigError(f"{name} {value!r}: must be a whole number")
    if least is not None and number < least:
        raise ConfigError(f"{name} {value}: must be at least {least}")
    return int(number)


def limits_of(env_workers: Any, track: str | Sequence[str] = ()) -> Limits:
    """Return how a process of a program trains: a watchdog would end it."""
    auto = env_workers == "auto"
    workers = None if auto else whole("env_workers", env_workers, 0)
    names = (track,) if isinstance(track, str) else tuple(track)
    tracking.check(names)
    return Limits(env_timeout=math.inf, env_workers=workers, trust=True, track=names)


def options_of(
    max_episode_steps: int | None,
    action_bounds: tuple[float, float] | None,
    flatten_obs: bool,
    env_kwargs: dict[str, Any] | None,
) -> EnvOptions:
    """Return the options of an environment, as config.json stores them."""
    kwargs = dict(env_kwargs or {})
    try:
        kwargs = json.loads(json.dumps(kwargs, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"env_kwargs: {error}; values must fit into JSON, or pass a function that "
            "makes the environment"
        ) from None
    bounds = None
    if action_bounds is not None:
        try:
            low, high = map(float, action_bounds)
        except (TypeError, ValueError):
            raise ConfigError(
                f"action_bounds {action_bounds!r}: must be two numbers, (LOW, HIGH)"
            ) from None
        bounds = (low, high)
    limit = max_episode_steps
    limit = None if limit is None else whole("max_episode_steps", limit, 1)
    return EnvOptions(limit, bounds, bool(flatten_obs), kwargs)
