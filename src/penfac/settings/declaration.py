"""How a config declares a setting: default, range, meaning, and what the setting changes.

    lam: float = traced(0.9, "[0, 1]", hint="Table 2 keeps 0.9", means="lambda of returns")

`traced` settings enter a compiled program as numbers, so learners that differ in them
share it. `shapes` settings are part of the program itself, `derives` settings only by
what `Settings.shape` makes of them. `collects` settings say how a batch is collected.
"""

import functools
import math
import re
import typing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from penfac.settings.horizon import usual_gamma

if TYPE_CHECKING:
    from penfac.types import EnvSpec

T = TypeVar("T")
UNCHANGED = object()  # an earlier version had the setting, with the same default


class Interval(NamedTuple):
    """The numbers a setting accepts."""

    low: float
    high: float
    open_low: bool
    open_high: bool

    def holds(self, number: float) -> bool:
        """False for NaN too."""
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below

    def rule(self) -> str:
        """The interval in words; an infinite end needs none, but may exclude infinity."""
        parts = []
        if self.low > -math.inf:
            parts.append(f"{'above' if self.open_low else 'at least'} {self.low:g}")
        if self.high < math.inf:
            parts.append(f"{'below' if self.open_high else 'at most'} {self.high:g}")
        if math.inf in (self.high, -self.low) and self.open_high:
            parts.append("finite")
        return " and ".join(parts)


def interval(text: str) -> Interval:
    """`(0, inf]` as people write it: a round bracket leaves the end out."""
    found = re.fullmatch(r"([\[(])(\S+), (\S+)([\])])", text)
    if found is None:
        raise ValueError(f"{text} is not an interval such as [0, 1]")
    left, low, high, right = found.groups()
    return Interval(float(low), float(high), left == "(", right == ")")


@dataclass(frozen=True)
class Setting:
    """All that a declaration says beside the type and the default."""

    role: Literal["traced", "shapes", "derives", "collects"]
    within: Interval | None  # of a number, or of every number of a tuple
    means: str  # one line for the documentation
    hint: str = ""  # what others use, for error messages
    none: float | str | None = None  # the number None stands for, or another setting
    only: str = ""  # while this setting is 0 or false, the other counts as 0 or no word
    earlier: Any = UNCHANGED  # the value in runs begun before the setting existed


def declare(role: Any, default: T, within: str, means: str, **more: Any) -> T:
    setting = Setting(role, interval(within) if within else None, means, **more)
    # pyright sees the default's type, dataclass sees the field
    return field(default=default, metadata={"setting": setting})  # type: ignore[return-value]


def traced(default: T, within: str = "", *, means: str, **more: Any) -> T:
    """A setting that enters the program as a number."""
    return declare("traced", default, within, means, **more)


def shapes(default: T, within: str = "", *, means: str, **more: Any) -> T:
    """A setting that the program itself depends on."""
    return declare("shapes", default, within, means, **more)


def derives(default: T, within: str = "", *, means: str, **more: Any) -> T:
    """A setting that `Settings.shape` reads."""
    return declare("derives", default, within, means, **more)


def collects(default: T, within: str = "", *, means: str, **more: Any) -> T:
    """A setting of how the batch of an update is collected."""
    return declare("collects", default, within, means, **more)


@dataclass(frozen=True)
class Settings:
    """What every config has beside its settings."""

    def check_together(self) -> None:
        """Refuse settings that do not go together."""

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        """What shapes a program and is no setting itself, but follows from settings."""
        return {}

    def complete(self, spec: "EnvSpec") -> "Settings":
        """The config with the gamma of this environment, if it leaves gamma to it."""
        if getattr(self, "gamma", 0.0) is not None:
            return self
        return replace(self, gamma=usual_gamma(spec.time_step))


def effective(cfg: Settings, name: str) -> Any:
    """What a setting counts as: nothing while it is switched off, and never None."""
    setting, value = declared(type(cfg))[name], getattr(cfg, name)
    if setting.only and not getattr(cfg, setting.only):
        return type(value)()
    if value is not None:
        return value
    stands_for = setting.none
    return effective(cfg, stands_for) if isinstance(stands_for, str) else stands_for


@functools.cache
def declared(config: type) -> dict[str, Setting]:
    """Setting name -> its declaration."""
    return {f.name: f.metadata["setting"] for f in fields(config)}


@functools.cache
def known_fields(config: type) -> dict[str, Any]:
    """Setting name -> annotated type."""
    hints = typing.get_type_hints(config)
    return {f.name: hints[f.name] for f in fields(config)}


@functools.cache
def earlier_settings(config: type) -> dict[str, Any]:
    """What a run did that was begun before these settings existed."""
    every = {name: setting.earlier for name, setting in declared(config).items()}
    return {name: value for name, value in every.items() if value is not UNCHANGED}
