"""Environments that a program holds: an object, or a function that makes one.

The layers below know environments by id, so each gets an id in this process.
"""

import contextlib
import copy
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec, register, registry
from gymnasium.vector import VectorEnv

from penfac.envs.base import JaxEnv
from penfac.envs.builtin import REGISTERED
from penfac.envs.calls import Call, Watch, told
from penfac.envs.jax_envs import as_jax_env
from penfac.envs.options import EnvOptions
from penfac.envs.registered import announce_jax
from penfac.errors import ConfigError

NAMESPACE = "penfac-own/"
Make = Callable[..., gymnasium.Env | VectorEnv]
_HOLDERS: dict[str, Any] = {}  # id -> its object or function
_SOURCES: dict[Path, "Source"] = {}  # run folder -> its source in this process


class Source(NamedTuple):
    """An id and how to make its environment."""

    id: str
    options: EnvOptions
    make: Make | None = None  # None: Gymnasium knows the id, or the id is unknown
    limit: int | None = None  # the environment's time limit
    jax: JaxEnv | None = None  # the environment, if its worlds are part of a program
    vector: bool = False  # `make` makes a gymnasium.vector.VectorEnv

    @property
    def lost(self) -> bool:
        """Whether only another process can make it."""
        return self.make is None and self.id.startswith(NAMESPACE)


def source_of(env: Any, options: EnvOptions, known_as: str | None = None) -> Source:
    """Return the source of an id, a function or an object; `known_as` is its earlier
    id."""
    if isinstance(env, str) and known_as is None:
        return Source(env, options)
    if isinstance(env, str):
        return made_by(functools.partial(gymnasium.make, env), options, known_as)
    if isinstance(env, VectorEnv):  # EnvPool's are of gymnasium.Env too
        return vector_like(env, options, known_as)
    if isinstance(env, gymnasium.Env):
        return held_in(env, options, known_as)
    if (pure := as_jax_env(env, None, options.max_episode_steps)) is not None:
        return written_in_jax(env, pure, options, known_as)
    refuse_vectors(env)
    if callable(env):
        return made_by(env, options, known_as)
    raise ConfigError(
        f"env is a {type(env).__name__}: must be an id, a gymnasium.Env, or a "
        "function that makes one, or many (gymnasium.vector.VectorEnv)"
    )


def refuse_vectors(env: Any) -> None:
    if hasattr(env, "num_envs"):
        raise ConfigError(
            f"{type(env).__name__}: holds several environments; pass one of them, or a "
            "function that makes one (learning calls it for each world)"
        )


def announce(source: Source) -> None:
    """Let the id mean this source from now on."""
    if source.jax is not None:
        announce_jax(source.id, source.jax)
    elif source.make is not None:
        registry.pop(source.id, None)
        kind = "vector_entry_point" if source.vector else "entry_point"
        made: dict[str, Any] = {kind: source.make}
        register(source.id, max_episode_steps=source.limit, **made)


def remember(folder: Path, source: Source) -> None:
    """Remember the source of a run folder. The id would not do: another program may use
    the same one."""
    if source.make is not None:
        _SOURCES[folder.resolve()] = source


def recall(folder: Path, source: Source) -> Source:
    """Return the source of a folder of this process, or the given one."""
    found = _SOURCES.get(folder.resolve())
    return source if found is None or found.id != source.id else found


def made_by(
    function: Callable[..., Any], options: EnvOptions, known_as: str | None
) -> Source:
    """Make worlds by a function; it is called once to check what it returns. One that
    takes `num_envs` makes vector environments."""
    named = function.func if isinstance(function, functools.partial) else function
    name = plain_name(getattr(named, "__name__", type(named).__name__))
    with Call(name, "making it", Watch()):
        try:
            sized = {"num_envs": 1} if takes_size(function) else {}
            one = function(**options.kwargs, **sized)
        except Exception as error:
            raise ConfigError(f"{name}: raised {told(error)}") from error
    if not isinstance(one, gymnasium.Env | VectorEnv):
        refuse_vectors(one)
        raise ConfigError(
            f"{name}: returned a {type(one).__name__}; must return a gymnasium.Env"
        )
    vector = isinstance(one, VectorEnv)
    limit = None if vector else time_limit(one)
    with Call(name, "close", Watch()):
        one.close()
    if vector:
        many = vector_maker(function, bool(sized))
        return Source(known_as or id_for(name, function), options, many, vector=True)

    def make(**kwargs: Any) -> gymnasium.Env:  # a plain function: specs are copied
        return function(**kwargs)

    return Source(known_as or id_for(name, function), options, make, limit)


def takes_size(function: Callable[..., Any]) -> bool:
    with contextlib.suppress(TypeError, ValueError):  # some have no signature
        return "num_envs" in inspect.signature(function).parameters
    return False


def vector_maker(function: Callable[..., Any], sized: bool) -> Make:
    """A function as Gymnasium calls a vector_entry_point."""

    def make(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any):
        # the limit is only stated: the function's own environment keeps it
        return function(**kwargs, **({"num_envs": num_envs} if sized else {}))

    return make


def vector_like(env: VectorEnv, options: EnvOptions, known_as: str | None) -> Source:
    """Make vector environments like an object: by its spec, else by copies."""
    if options.kwargs and known_as is None:
        raise ConfigError(
            "env_kwargs: has no effect on an environment that is already made; pass a "
            "function that makes num_envs of them"
        )
    name = plain_name(type(env.unwrapped).__name__)
    spec = env.unwrapped.spec if env is env.unwrapped else None
    if isinstance(spec, EnvSpec) and "vectorization_mode" in spec.kwargs:
        drawn = {k: v for k, v in spec.kwargs.items() if k != "render_mode"}
        spec = dataclasses.replace(spec, kwargs=drawn)
        again = lambda: gymnasium.make_vec(spec, env.num_envs)  # noqa: E731
    else:
        again = by_copying(name, env)
    make = vector_maker(again, sized=False)
    return Source(known_as or id_for(name, env), options, make, vector=True)


def held_in(env: gymnasium.Env, options: EnvOptions, known_as: str | None) -> Source:
    """Make worlds like an object: by its id if that suffices, else by its spec with the
    wrappers, else by copies."""
    if options.kwargs and known_as is None:
        raise ConfigError(
            "env_kwargs: has no effect on an environment that is already made; pass its id"
        )
    alike = None if known_as else registered(env)
    if alike is not None:
        spec_id, kwargs, limit = alike
        limit = options.max_episode_steps or limit
        options = dataclasses.replace(options, kwargs=kwargs, max_episode_steps=limit)
        return Source(spec_id, options)
    name = plain_name(type(env.unwrapped).__name__)
    make = by_spec(env.spec) or by_copying(name, env)
    return Source(known_as or id_for(name, env), options, make, time_limit(env))


def registered(env: gymnasium.Env) -> tuple[str, dict[str, Any], int | None] | None:
    """Return id, arguments and time limit if they make the same environment: registered
    and unwrapped. Leave out the render mode and what the registration says already."""
    spec = env.spec
    known = None if spec is None else registry.get(spec.id)
    if spec is None or known is None or spec.additional_wrappers:
        return None
    if known.entry_point != spec.entry_point or spec.id.startswith(NAMESPACE):
        return None
    kwargs = {k: v for k, v in spec.kwargs.items() if k != "render_mode"}
    try:
        json.dumps([kwargs, known.kwargs], allow_nan=False)
    except (TypeError, ValueError):
        return None
    kwargs = {
        k: v for k, v in kwargs.items() if k not in known.kwargs or known.kwargs[k] != v
    }
    same = spec.max_episode_steps == known.max_episode_steps
    return spec.id, kwargs, None if same else spec.max_episode_steps


def by_spec(spec: EnvSpec | None) -> Make | None:
    """Return a function that makes the environment from its spec, if that works."""
    if spec is None:
        return None
    drawn = {k: v for k, v in spec.kwargs.items() if k != "render_mode"}
    with contextlib.suppress(Exception), Call(spec.id, "making it", Watch()):
        spec = dataclasses.replace(copy.deepcopy(spec), kwargs=drawn)
        gymnasium.make(spec).close()
        return lambda **_: gymnasium.make(spec)
    return None


def by_copying(name: str, env: gymnasium.Env | VectorEnv) -> Make:
    """Return a function that copies the object as it is now."""
    with Call(name, "copying it", Watch()):
        try:
            now = copy.deepcopy(env)
        except Exception as error:
            raise ConfigError(
                f"{name}: cannot be copied ({error}); pass a function that makes one"
            ) from error
    return lambda **_: copy.deepcopy(now)


def written_in_jax(
    env: Any, pure: JaxEnv, options: EnvOptions, known_as: str | None
) -> Source:
    """Make worlds inside the program; a registered environment is known by its id."""
    if options.kwargs:
        raise ConfigError("env_kwargs: has no effect on an environment in JAX")
    if known_as is None and REGISTERED.get(pure.spec.id) is env:
        return Source(pure.spec.id, options)
    name = known_as or id_for(plain_name(pure.spec.id), env)
    pure = pure._replace(spec=pure.spec._replace(id=name))

    def make(**_: Any) -> gymnasium.Env:
        from penfac.envs.adapter import JaxEnvAdapter

        return JaxEnvAdapter(name)

    return Source(name, options, make, pure.spec.horizon, pure)


def time_limit(env: gymnasium.Env) -> int | None:
    """Return the shortest time limit of its wrappers, else that of its spec."""
    limits, layer = [], env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = layer.env
    if not limits and env.spec is not None:
        return env.spec.max_episode_steps
    return min(limits, default=None)


def plain_name(name: str) -> str:
    """Return a name with the characters that ids allow."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "Env"


def id_for(name: str, holder: Any) -> str:
    """Return an id, the same for the same object or function. A number tells two of the
    same name apart; a version would make Gymnasium recommend the newer one."""
    found, k = f"{NAMESPACE}{name}-v0", 1
    while _HOLDERS.setdefault(found, holder) is not holder:
        k += 1
        found = f"{NAMESPACE}{name}-{k}-v0"
    return found
