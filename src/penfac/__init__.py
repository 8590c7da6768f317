"""Deterministic controllers learned from the sign of the advantage.

Everything heavy is imported when it is first used: `import penfac` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penfac.algos import ALGORITHMS as ALGORITHMS
    from penfac.api import CAC as CAC
    from penfac.api import CACLA as CACLA
    from penfac.api import DDPG as DDPG
    from penfac.api import DPG as DPG
    from penfac.api import NFAC as NFAC
    from penfac.api import PPO as PPO
    from penfac.api import SAC as SAC
    from penfac.api import SPG as SPG
    from penfac.api import TD3 as TD3
    from penfac.api import OffPeNFAC as OffPeNFAC
    from penfac.api import PeNFAC as PeNFAC
    from penfac.api import load as load
    from penfac.api.callbacks import Event as Event
    from penfac.api.ready_callbacks import CheckpointCallback as CheckpointCallback
    from penfac.api.ready_callbacks import EvalCallback as EvalCallback
    from penfac.api.ready_callbacks import (
        StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold,
    )
    from penfac.envs.base import JaxEnv as JaxEnv
    from penfac.envs.registered import register_jax_env as register_jax_env
    from penfac.policy import Policy as Policy

__version__ = "0.2.0"
_MODELS = (
    "PeNFAC", "NFAC", "CACLA", "CAC", "SPG", "DPG", "DDPG", "TD3", "SAC", "OffPeNFAC",
    "PPO",
)  # fmt: skip
_CALLBACKS = ("CheckpointCallback", "EvalCallback", "StopTrainingOnRewardThreshold")
_HOMES = {
    "ALGORITHMS": "algos",
    "Policy": "policy",
    "JaxEnv": "envs.base",
    "register_jax_env": "envs.registered",
    "Event": "api.callbacks",
    **dict.fromkeys((*_MODELS, "load"), "api"),
    **dict.fromkeys(_CALLBACKS, "api.ready_callbacks"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"penfac.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'penfac' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
