"""Text to config: parse, check, suggest. Nothing here knows an algorithm."""

import math
import types
import typing
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal

from penfac.errors import ConfigError
from penfac.settings.declaration import declared, known_fields
from penfac.settings.suggest import did_you_mean
from penfac.settings.words import explain

SCALES = {"k": 1_000, "m": 1_000_000}
ROUNDING = 1e-12  # of a number that is scaled


def parse_number(text: str, kind: type) -> int | float:
    """`1e6`, `1_000_000`, and of whole numbers `1000k` and `1M`, are the same to a user."""
    scale = SCALES.get(text[-1:].lower(), 1) if kind is int else 1
    digits = text[:-1] if scale > 1 else text
    try:
        number = float(digits) * scale
    except ValueError:
        raise ConfigError(f"{text!r} is not a number") from None
    if kind is float:
        return number
    # 1.001k is 1000.9999999999999
    if not math.isfinite(number) or abs(number - round(number)) > ROUNDING * scale:
        raise ConfigError(f"{text} is not a whole number")
    # through float only when it must be: 1e6 needs it, 2**60 + 1 must not lose digits
    return int(text) if text.lstrip("+-").replace("_", "").isdigit() else round(number)


def parse_value(key: str, text: str, kind: Any) -> Any:
    """One `key=value` from a command line, by the annotated type of the field."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        if text in args:
            return text
        raise ConfigError(f"{key} = {text}: must be one of {', '.join(map(str, args))}")
    if origin in (types.UnionType, typing.Union):  # X | None
        if text.lower() in ("none", ""):
            return None
        return parse_value(key, text, next(a for a in args if a is not type(None)))
    if origin is tuple:
        items = text.strip("()[] ").replace("x", ",").split(",")
        words = [i for i in items if i.strip() and i.strip().lower() != "none"]
        return tuple(parse_value(key, w.strip(), args[0]) for w in words)
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "on": True}
        words |= {"false": False, "no": False, "0": False, "off": False}
        if text.lower() in words:
            return words[text.lower()]
        raise ConfigError(f"{key} = {text}: must be true or false")
    try:
        return parse_number(text, kind)
    except ConfigError as error:
        raise ConfigError(f"{key} = {text}: {error}") from None


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    known = list(known)
    hint = explain(key, known) or did_you_mean(key, known)
    return ConfigError(
        f"{key}: no such setting{hint} (`penfac presets` lists them all)"
    )


def parse_settings(cls: type, pairs: list[str]) -> dict[str, Any]:
    """`["lam=0.9", "hidden=64,64"]` as typed values of `cls`."""
    known, settings = known_fields(cls), {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals:
            raise ConfigError(f"--set {pair}: must be key=value")
        if key not in known:
            raise unknown_key(key, known)
        settings[key] = parse_value(key, text.strip(), known[key])
    return settings


def from_values(cls: type, values: dict[str, Any]) -> Any:
    """A config from typed values (a preset, a JSON file); every type is checked."""
    known = known_fields(cls)
    for key in values:
        if key not in known:
            raise unknown_key(key, known)
    values = {key: unworded(value, known[key]) for key, value in values.items()}
    for key, value in values.items():
        check_type(key, value, known[key])
    return cls(**{k: as_field(v, known[k]) for k, v in values.items()})


def unworded(value: Any, kind: Any) -> Any:
    """What JSON or TOML can only say by a word: infinity, and nothing."""
    if value == "none" and type(None) in typing.get_args(kind):
        return None
    return math.inf if value == "inf" else value


def as_field(value: Any, kind: Any) -> Any:
    """A checked value as the field holds it: a list as a tuple, an int as its float."""
    floats = kind is float or float in typing.get_args(kind)
    if isinstance(value, list | tuple):
        return tuple(map(float, value) if floats else value)
    return float(value) if floats and isinstance(value, int) else value


def to_values(cfg: Any) -> dict[str, Any]:
    """A config as JSON can hold it: tuples as lists, infinity as a word."""
    values = {f.name: getattr(cfg, f.name) for f in fields(cfg)}
    values = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    return {k: "inf" if v == math.inf else v for k, v in values.items()}


def check_type(key: str, value: Any, kind: Any) -> None:
    """Refuse a value of the wrong type; an int stands for a float."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is not None:
            check_type(key, value, next(a for a in args if a is not type(None)))
        return
    if origin is Literal:
        if value not in args:
            raise ConfigError(f"{key} = {value}: must be one of {', '.join(args)}")
        return
    if origin is tuple:
        allowed = (int, float) if float in args else (int,)
        right = isinstance(value, tuple | list) and all(
            type(v) in allowed for v in value
        )
    elif kind is float:
        right = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        right = type(value) is kind
    if not right:
        name = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{key} = {value!r}: must be of type {name}")


def check(cfg: Any) -> None:
    """Refuse a number out of its range, and settings that do not go together."""
    for key in declared(type(cfg)):
        check_range(cfg, key)
    cfg.check_together()


def check_range(cfg: Any, key: str) -> None:
    """Refuse one setting whose number is out of its range."""
    value, setting = getattr(cfg, key), declared(type(cfg))[key]
    if setting.within is None or value is None:
        return
    for number in value if isinstance(value, tuple) else (value,):
        if not setting.within.holds(number):
            hint = f" ({setting.hint})" if setting.hint else ""
            rule = setting.within.rule()
            raise ConfigError(f"{key} = {number}: must be {rule}{hint}")
