"""Environments of others as pure functions: plain functions, gymnax, Brax, Playground.

A typed key in a state is kept as its numbers: checkpoints hold numbers only.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from penfac.envs.base import JaxEnv, Outcome
from penfac.errors import ConfigError, one_line
from penfac.types import EnvSpec

NEVER = 2**30  # a time limit beyond every run


def functions_env(
    env_id: str,
    *,
    reset: Callable[..., Any],
    step: Callable[..., Any],
    observe: Callable[[Any], Any] | None = None,
    action_low: Any,
    action_high: Any,
    max_episode_steps: int | None,
    raw_keys: bool = False,
    summary: str = "",
) -> JaxEnv:
    """Check functions of one world, and fit them together: `reset(key)` gives a state,
    `observe(state)` an observation, `step(state, action, key)` the next state, the
    reward and whether it is terminated. `raw_keys`: they expect jax.random.PRNGKey."""
    low, high = bounds(env_id, action_low, action_high)
    if max_episode_steps is None or max_episode_steps < 1:
        raise ConfigError(
            f"{env_id}: has no time limit, so an episode may never end; give "
            "max_episode_steps"
        )
    given = (lambda key: jax.random.key_data(key)) if raw_keys else (lambda key: key)
    see = observe or (lambda state: state)
    key = jax.eval_shape(lambda: jax.random.key(0))
    first = shapes(env_id, "reset", lambda k: reset(given(k)), key)
    seen = shapes(env_id, "observe", lambda s: flat(see(s)), first)

    def own_reset(key: Any) -> Any:
        return pack(reset(given(key)))

    def own_observe(state: Any) -> Any:
        return flat(see(unpack(state, first)))

    def own_step(state: Any, action: Any, key: Any) -> Outcome:
        found = Outcome(*step(unpack(state, first), action, given(key)))
        after = jax.tree.map(cast, found.state, first)
        reward = jnp.asarray(found.reward, jnp.float32).reshape(())
        ended = jnp.asarray(found.terminated).astype(bool).reshape(())
        finite = jnp.isfinite(reward) & jnp.isfinite(flat(see(after))).all()
        return Outcome(pack(after), reward, ended, found.broken | ~finite)

    action = jax.ShapeDtypeStruct(low.shape, jnp.float32)
    shapes(env_id, "step", own_step, jax.eval_shape(own_reset, key), action, key)
    spec = EnvSpec(env_id, seen.shape[0], low, high, int(max_episode_steps))
    return JaxEnv(spec, own_reset, own_observe, own_step, summary or env_id)


def bounds(env_id: str, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        one, other = np.broadcast_arrays(
            np.ravel(np.asarray(low, np.float32)),
            np.ravel(np.asarray(high, np.float32)),
        )
    except (TypeError, ValueError):
        raise ConfigError(
            f"{env_id}: action_low and action_high must be numbers of one shape"
        ) from None
    if not (
        np.isfinite(one).all() and np.isfinite(other).all() and (one < other).all()
    ):
        raise ConfigError(
            f"{env_id}: action_low {one} and action_high {other} must be finite, low "
            "below high"
        )
    return one.copy(), other.copy()


def shapes(
    env_id: str, name: str, function: Callable[..., Any], *arguments: Any
) -> Any:
    """The shapes that a function returns; a failure becomes one line."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        text = one_line(str(error))[:300]
        raise ConfigError(f"{env_id}: {name} cannot be traced: {text}") from error


def flat(obs: Any) -> Any:
    """An observation as one vector; the parts of a dict or tuple in order."""
    parts = [jnp.ravel(jnp.asarray(x, jnp.float32)) for x in jax.tree.leaves(obs)]
    return jnp.concatenate(parts)


def is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def pack(state: Any) -> Any:
    """A state with the numbers of its typed keys."""

    def one(x: Any) -> Any:
        x = jnp.asarray(x)
        return jax.random.key_data(x) if is_key(x) else x

    return jax.tree.map(one, state)


def unpack(state: Any, like: Any) -> Any:
    def one(x: Any, shape: Any) -> Any:
        return jax.random.wrap_key_data(x) if is_key(shape) else x

    return jax.tree.map(one, state, like)


def cast(x: Any, like: Any) -> Any:
    """What a step returns, of the type that a reset returned."""
    return x if is_key(like) else jnp.asarray(x).astype(like.dtype).reshape(like.shape)


# --- other libraries ------------------------------------------------------------------------


def as_jax_env(env: Any, env_id: str | None, limit: int | None) -> JaxEnv | None:
    """The environment of another library, known by its methods; None: it is none."""
    env, params = env if is_pair(env) else (env, None)
    if isinstance(env, JaxEnv):
        spec = env.spec._replace(id=env_id or env.spec.id)
        return env._replace(spec=spec._replace(horizon=limit or spec.horizon))
    name = env_id or type(env).__name__
    if hasattr(env, "step_env") and hasattr(env, "default_params"):
        return from_gymnax(env, params, name, limit)
    if hasattr(env, "action_size") and hasattr(env, "step") and hasattr(env, "reset"):
        return from_brax(env, name, limit)
    return None


def is_pair(env: Any) -> bool:
    """(environment, parameters), as gymnax.make returns them."""
    return type(env) is tuple and len(env) == 2 and hasattr(env[0], "step_env")


def from_gymnax(env: Any, params: Any, env_id: str, limit: int | None) -> JaxEnv:
    """gymnax's `done` is its time limit too, so the limit is taken out of it: the end of
    the time is no terminal state."""
    params = env.default_params if params is None else params
    own = getattr(params, "max_steps_in_episode", None)
    if own is not None:
        params = params.replace(max_steps_in_episode=NEVER)
    space = env.action_space(params)
    if not hasattr(space, "low"):
        kind = type(space).__name__
        raise ConfigError(f"{env_id}: the action space is {kind}; it must be a Box")
    whole = lambda end: np.broadcast_to(end, space.shape)  # noqa: E731
    shaped = lambda a: jnp.reshape(a, space.shape)  # noqa: E731

    def reset(key: Any) -> Any:
        obs, state = env.reset_env(key, params)
        return state, obs

    def step(state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        obs, after, reward, done, _ = env.step_env(
            key, state[0], shaped(action), params
        )
        return (after, obs), reward, done

    return functions_env(
        env_id,
        reset=reset,
        step=step,
        observe=lambda state: state[1],
        action_low=whole(space.low),
        action_high=whole(space.high),
        max_episode_steps=limit or (None if own is None else int(own)),
        raw_keys=True,
        summary=f"{type(env).__name__} of gymnax",
    )


def from_brax(env: Any, env_id: str, limit: int | None) -> JaxEnv:
    """Brax and MuJoCo Playground: `done` is the end of the task alone, unless the
    environment is wrapped."""
    if hasattr(env, "episode_length") and hasattr(env, "env"):
        raise ConfigError(
            f"{env_id}: is wrapped, and its wrapper resets it; pass env.unwrapped"
        )
    own = getattr(getattr(env, "_config", None), "episode_length", None)

    def observe(state: Any) -> Any:
        obs = state.obs
        named = isinstance(obs, dict) and "state" in obs  # beside privileged_state
        return obs["state"] if named else obs

    def step(state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after = env.step(state, action)
        return after, after.reward, after.done

    return functions_env(
        env_id,
        reset=env.reset,
        step=step,
        observe=observe,
        action_low=-np.ones(env.action_size),
        action_high=np.ones(env.action_size),
        max_episode_steps=limit or own,
        raw_keys=True,
        summary=f"{type(env).__name__} of {type(env).__module__.split('.')[0]}",
    )
