"""CACLA, CAC, SPG and DPG, one step at a time, as values of one config."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float

from penfac.algos.base import Collecting
from penfac.algos.networks import network_plan
from penfac.core.actor import ACTOR_RULES, ActorRule
from penfac.core.noise import Exploration
from penfac.errors import ConfigError
from penfac.policy import Tiling
from penfac.settings.online import Config
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


def collecting(cfg: Config) -> Collecting:
    return Collecting(
        episodes=None,
        min_steps=1,
        worlds=cfg.worlds,
        steps=1,
        rounds=cfg.rounds,
        exploration=Exploration(cfg.exploration),
        random_steps=0,
    )


class Numbers(NamedTuple):
    """What learners of one program may differ in."""

    gamma: Scalar
    bootstrap: Scalar  # 1: a time limit is not an end; 0: it is
    rule: ActorRule
    up_q: Scalar  # 1: the actor climbs Q; 0: it follows the rule
    actor_lr: Scalar
    critic_lr: Scalar
    q_lr: Scalar
    adam_b1: Scalar
    adam_b2: Scalar
    actor_running: Bool[Array, ""]
    obs_clip: Scalar


class Plan(NamedTuple):
    """What shapes the program."""

    obs_dim: int
    action_dim: int
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: str
    actor_output: str
    init: str
    optimiser: str
    tiling: Tiling | None
    q: str | None  # none: the actor follows V's temporal difference, not a Q

    @property
    def features(self) -> int:
        """What the first layer sees."""
        return self.obs_dim if self.tiling is None else self.tiling.size


def plan(cfg: Config, spec: EnvSpec) -> Plan:
    tiling = None
    if cfg.features == "tiles":
        tiling = Tiling(*box(cfg, spec), cfg.tilings, cfg.tiles, cfg.tile_memory)
    return Plan(
        **network_plan(cfg, spec),
        optimiser=cfg.optimiser,
        tiling=tiling,
        q=kind_of_q(cfg),
    )


def kind_of_q(cfg: Config) -> str | None:
    if cfg.actor_update == "spg" and cfg.spg_critic == "compatible":
        return "compatible"
    return cfg.q if cfg.actor_update == "dpg" else None


def box(cfg: Config, spec: EnvSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What is tiled: the box that was given, else the environment's own bounds where it
    has some."""
    if cfg.tile_box:
        if len(cfg.tile_box) != 2 * spec.obs_dim:
            raise ConfigError(
                f"tile_box = {list(cfg.tile_box)}: {spec.id} has {spec.obs_dim} "
                f"components, so it must hold {2 * spec.obs_dim} numbers"
            )
        return cfg.tile_box[::2], cfg.tile_box[1::2]
    nothing = np.full(spec.obs_dim, np.nan)
    low = nothing if spec.obs_low is None else np.asarray(spec.obs_low, float)
    high = nothing if spec.obs_high is None else np.asarray(spec.obs_high, float)
    # a bound of 1e38 is how some spaces say that they have none
    bounded = (np.abs(low) < 1e6) & (np.abs(high) < 1e6) & (low < high)
    low = np.where(bounded, low, cfg.tile_low)
    high = np.where(bounded, high, cfg.tile_high)
    return tuple(low.tolist()), tuple(high.tolist())


def numbers(cfg: Config) -> Numbers:
    f, b = jnp.float32, jnp.bool_
    rule = ACTOR_RULES.get(cfg.actor_update, ActorRule(0.0, 0.0, 0.0))
    return Numbers(
        gamma=f(cfg.gamma),
        bootstrap=f(cfg.time_limit == "bootstrap"),
        rule=ActorRule(*map(f, rule)),
        up_q=f(cfg.actor_update == "dpg"),
        actor_lr=f(cfg.actor_lr),
        critic_lr=f(cfg.critic_lr),
        q_lr=f(cfg.q_lr),
        adam_b1=f(cfg.adam_b1),
        adam_b2=f(cfg.adam_b2),
        actor_running=b(cfg.normalise == "running"),
        obs_clip=f(cfg.obs_clip),
    )
