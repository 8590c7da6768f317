"""Parse what is typed on the command line."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from penfac.errors import ConfigError
from penfac.settings.configs import parse_number

T = TypeVar("T")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}


def whole(text: str, option: str) -> int:
    """Parse a whole number such as `1e6`, `300k` or `1_000_000`."""
    try:
        return int(parse_number(text, int))
    except ConfigError:
        raise ConfigError(f"{option} {text}: must be a whole number") from None


def if_given(parse: Callable[[str, str], T], text: str | None, option: str) -> T | None:
    """Parse an option; none if it was not given."""
    return None if text is None else parse(text, option)


def duration(text: str, option: str) -> float:
    """Parse a time such as `9m`, `90s`, `1.5h` or plain seconds, into seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip().lower())
    if match is None:
        raise ConfigError(f"{option} {text}: must be a time such as 90s, 9m or 1.5h")
    return float(match[1]) * SECONDS[match[2]]


def timeout(text: str) -> float:
    seconds = duration(text, "--env-timeout")
    if seconds <= 0:
        raise ConfigError(f"--env-timeout {text}: must be above 0")
    return seconds


def env_workers(text: str) -> int | None:
    """Parse --env-workers; None is auto."""
    if text == "auto":
        return None
    if not text.isdigit():
        raise ConfigError(f"--env-workers {text}: must be 0 or more, or auto")
    return int(text)


def seed_list(seeds: str) -> tuple[int, ...]:
    """Parse --seeds: `8` means 0 to 7; `10-19` and `3,5,8` name the seeds."""
    if re.fullmatch(r"\d+-\d+", seeds):
        first, last = map(int, seeds.split("-"))
        if not first <= last < first + 100_000:
            raise ConfigError(
                f"--seeds {seeds}: must be FIRST-LAST, 1 to 100 000 seeds"
            )
        return tuple(range(first, last + 1))
    if "," in seeds:
        return tuple(whole(s.strip(), "--seeds") for s in seeds.split(",") if s.strip())
    try:
        count = whole(seeds, "--seeds")
    except ConfigError:
        raise ConfigError(f"--seeds {seeds}: must be 8, 10-19 or 3,5,8") from None
    if not 1 <= count <= 100_000:
        raise ConfigError(f"--seeds {seeds}: must be 1 to 100 000")
    return tuple(range(count))


def bounds(text: str, option: str) -> tuple[float, float]:
    try:
        low, high = (float(parse_number(p.strip(), float)) for p in text.split(","))
    except (ConfigError, ValueError):
        raise ConfigError(f"{option} {text}: must be LOW,HIGH") from None
    return low, high


def env_arguments(pairs: list[str]) -> dict[str, Any]:
    """Parse --env-arg KEY=VALUE: VALUE is JSON if it parses, else a word."""
    arguments = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"--env-arg {pair}: must be key=value")
        try:
            arguments[key.strip()] = json.loads(text)
        except (ValueError, RecursionError):
            arguments[key.strip()] = text
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:
        raise ConfigError("--env-arg: numbers must be finite") from None
    return arguments


def picture_size(text: str) -> tuple[int, int]:
    """Parse a size in pixels such as `480x360`."""
    match = re.fullmatch(r"(\d{2,4})x(\d{2,4})", text)
    if match is None or int(match[1]) > 1920 or int(match[2]) > 1080:
        raise ConfigError(f"--size {text}: must be like 480x360, at most 1920x1080")
    return int(match[1]), int(match[2])


def positive(text: str, option: str) -> int:
    number = whole(text, option)
    if number < 1:
        raise ConfigError(f"{option} {text}: must be at least 1")
    return number
