"""What is typed on the command line, as the numbers that were meant."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from penfac.errors import ConfigError
from penfac.settings.configs import parse_number

T = TypeVar("T")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}


def whole(text: str, option: str) -> int:
    """`1e6`, `300k` and `1_000_000` as they are meant."""
    try:
        return int(parse_number(text, int))
    except ConfigError:
        raise ConfigError(f"{option} {text}: is not a whole number") from None


def if_given(parse: Callable[[str, str], T], text: str | None, option: str) -> T | None:
    """What an option says, if it was given."""
    return None if text is None else parse(text, option)


def duration(text: str, option: str) -> float:
    """`9m`, `90s`, `1.5h` or plain seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip().lower())
    if match is None:
        raise ConfigError(f"{option} {text}: write 90s, 9m or 1.5h")
    return float(match[1]) * SECONDS[match[2]]


def timeout(text: str) -> float:
    seconds = duration(text, "--env-timeout")
    if seconds <= 0:
        raise ConfigError(f"--env-timeout {text}: needs more than 0")
    return seconds


def seed_list(seed: str, seeds: str | None) -> tuple[int, ...]:
    """`--seeds 8` is 0 to 7; `--seeds 3,5,8` and `--seeds 10-19` name them."""
    if seeds is None:
        return (whole(seed, "--seed"),)
    if re.fullmatch(r"\d+-\d+", seeds):
        first, last = map(int, seeds.split("-"))
        if not first <= last < first + 100_000:
            raise ConfigError(f"--seeds {seeds}: needs 1 to 100 000 seeds, first-last")
        return tuple(range(first, last + 1))
    if "," in seeds:
        return tuple(whole(s.strip(), "--seeds") for s in seeds.split(",") if s.strip())
    try:
        count = whole(seeds, "--seeds")
    except ConfigError:
        raise ConfigError(f"--seeds {seeds}: write 8, 10-19 or 3,5,8") from None
    if not 1 <= count <= 100_000:
        raise ConfigError(f"--seeds {seeds}: needs 1 to 100 000 seeds")
    return tuple(range(count))


def bounds(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(parse_number(p.strip(), float)) for p in text.split(","))
    except (ConfigError, ValueError):
        raise ConfigError(f"--action-bounds {text}: write LOW,HIGH") from None
    return low, high


def env_arguments(pairs: list[str]) -> dict[str, Any]:
    """`--env-arg frame_skip=4`: JSON where it parses, else a word."""
    arguments = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"--env-arg {pair}: write it as key=value")
        try:
            arguments[key.strip()] = json.loads(text)
        except (ValueError, RecursionError):
            arguments[key.strip()] = text
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:
        raise ConfigError("--env-arg: needs finite numbers") from None
    return arguments


def picture_size(text: str) -> tuple[int, int]:
    """`480x360`."""
    match = re.fullmatch(r"(\d{2,4})x(\d{2,4})", text)
    if match is None or int(match[1]) > 1920 or int(match[2]) > 1080:
        raise ConfigError(f"--size {text}: write 480x360, at most 1920x1080")
    return int(match[1]), int(match[2])


def at_once(text: str | None) -> int | None:
    size = None if text is None else whole(text, "--slice")
    if size is not None and size < 1:
        raise ConfigError(f"--slice {text}: needs at least 1")
    return size


def check_place(on: str, name: str | None) -> None:
    """Where a run runs, and what its folder is called."""
    if on not in ("auto", "cpu", "device"):
        raise ConfigError(f"--on {on}: is auto, cpu or device")
    if name is not None and (not name.strip() or "/" in name or name.startswith(".")):
        raise ConfigError(f"--name {name}: needs a plain folder name")
