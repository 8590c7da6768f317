"""JAX environments that a program or a module registers, under an id of its own."""

from typing import Any

from gymnasium.envs.registration import register, registry

from penfac.envs.base import JaxEnv
from penfac.envs.builtin import BUILT_IN, REGISTERED
from penfac.envs.jax_envs import as_jax_env, functions_env
from penfac.envs.roboschool.registration import IDS
from penfac.errors import ConfigError


def register_jax_env(
    id: str, env: Any = None, *, max_episode_steps: int | None = None, **functions: Any
) -> JaxEnv:
    """Register a JAX environment: its worlds are part of the compiled program, on a CPU
    or a GPU, and every command knows it by `module:id`.

    `env` is an environment of gymnax, Brax or MuJoCo Playground, or a JaxEnv. Without it
    give functions of one world: `reset(key)`, `step(state, action, key)`,
    `observe(state)`, and `action_low`, `action_high`.
    """
    if not isinstance(id, str) or not id.strip() or ":" in id:
        raise ConfigError(f"register_jax_env: id {id!r} must be a name without a colon")
    if id in BUILT_IN or id in IDS or (id in registry and id not in REGISTERED):
        raise ConfigError(f"register_jax_env: {id} is taken; choose another id")
    if env is None:
        missing = {"reset", "step", "action_low", "action_high"} - functions.keys()
        if missing:
            raise ConfigError(
                f"register_jax_env: {id} needs {', '.join(sorted(missing))}"
            )
        try:
            made = functions_env(id, max_episode_steps=max_episode_steps, **functions)
        except TypeError as error:
            raise ConfigError(f"register_jax_env: {id}: {error}") from None
    else:
        if functions:
            raise ConfigError(
                f"register_jax_env: {id}: {next(iter(functions))} is of no use beside env"
            )
        made = as_jax_env(env, id, max_episode_steps)
    if made is None:
        raise ConfigError(
            f"register_jax_env: {id}: a {type(env).__name__} is no JAX environment that "
            "penfac knows (gymnax, Brax, MuJoCo Playground, JaxEnv); give its functions"
        )
    announce_jax(id, made)
    return made


def announce_jax(env_id: str, env: JaxEnv) -> None:
    """Let the id mean this environment from now on."""
    REGISTERED[env_id] = env
    registry.pop(env_id, None)
    register(
        id=env_id,
        entry_point="penfac.envs.adapter:JaxEnvAdapter",
        max_episode_steps=env.spec.horizon,
        kwargs={"env_id": env_id},
    )
