"""How a config enters a program: traced settings as numbers, the others as its plan."""

import functools
import typing
from collections import namedtuple
from typing import Any, Literal

import jax.numpy as jnp

from penfac.settings.declaration import Settings, declared, effective, known_fields
from penfac.types import EnvSpec

Numbers = (
    Any  # a named tuple of traced scalars: what learners of a program may differ in
)
Plan = Any  # a named tuple, hashable: what shapes the program


@functools.cache
def record(name: str, names: tuple[str, ...]) -> Any:
    """A class for named values; the same names give the same class."""
    return namedtuple(name, names)


def numbers(cfg: Settings, spec: EnvSpec | None = None) -> Numbers:
    """Each traced setting by its name: float32, int32 or bool, a word as a flag for each
    word it could be. `spec` completes what the config leaves to the environment."""
    cfg = cfg if spec is None else cfg.complete(spec)
    every, kinds = declared(type(cfg)), known_fields(type(cfg))
    names = tuple(name for name, setting in every.items() if setting.role == "traced")
    values = (traced_value(name, effective(cfg, name), kinds[name]) for name in names)
    return record("Numbers", names)(*values)


def traced_value(name: str, value: Any, kind: Any) -> Any:
    if typing.get_origin(kind) is Literal:
        words = typing.get_args(kind)
        flags = record(name, tuple(word.replace("-", "_") for word in words))
        return flags(*(jnp.bool_(word == value) for word in words))
    if kind is bool:
        return jnp.bool_(value)
    return jnp.int32(value) if kind is int else jnp.float32(value)


def plan(cfg: Settings, spec: EnvSpec) -> Plan:
    """The sizes of the environment, the settings that shape the program by their names,
    and what the config derives from them."""
    every = declared(type(cfg)).items()
    shaping = {k: getattr(cfg, k) for k, setting in every if setting.role == "shapes"}
    sizes = {"obs_dim": spec.obs_dim, "action_dim": spec.action_dim}
    values = sizes | shaping | cfg.shape(spec)
    return record("Plan", tuple(values))(**values)
