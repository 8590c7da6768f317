"""The environments that are pure JAX functions, by id."""

import importlib.util
from typing import Any

from penfac.envs.bandits import BANDITS
from penfac.envs.base import JaxEnv
from penfac.envs.classic import MOUNTAIN_CAR, PENDULUM
from penfac.envs.lqr import LQR_ENV
from penfac.envs.probes import PROBES
from penfac.envs.roboschool.registration import IDS
from penfac.envs.swingup import SWING_UP
from penfac.errors import ConfigError

BUILT_IN: dict[str, JaxEnv] = {
    env.spec.id: env
    for env in (PENDULUM, MOUNTAIN_CAR, SWING_UP, LQR_ENV, *PROBES, *BANDITS)
}
REGISTERED: dict[str, JaxEnv] = {}  # by penfac.register_jax_env


def found(env_id: str) -> JaxEnv | None:
    """A built-in or registered environment; MODULE:ID is its id."""
    name = env_id.rpartition(":")[2]
    return BUILT_IN.get(env_id) or REGISTERED.get(name)


def jax_env(env_id: str, arguments: dict[str, Any]) -> JaxEnv:
    """An environment for the device: built in, or a Roboschool task on MJX."""
    if (own := found(env_id)) is not None:
        return own
    need_mjx(f"{env_id} on a device")
    from penfac.envs.roboschool.mjx import roboschool_env

    try:
        return roboschool_env(env_id, **arguments)
    except ValueError as error:
        raise ConfigError(f"{env_id}: {error}") from None


def need_mjx(what: str) -> None:
    if importlib.util.find_spec("mujoco.mjx") is None:
        raise ConfigError(
            f'{what}: MuJoCo MJX is missing; pip install "penfac[device]"'
        )


def is_jax_env(env_id: str) -> bool:
    """Whether this environment can run inside the program."""
    return found(env_id) is not None or env_id in IDS
