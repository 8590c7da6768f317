"""CACLA, CAC, SPG and DPG, one step at a time, as values of one config."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

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
from penfac.settings.configs import Range, check_layers, check_ranges
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


@dataclass(frozen=True)
class Config:
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # returns
    gamma: float = 0.99
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"  # D8

    # actor
    actor_update: Literal["cacla", "cac", "spg", "dpg"] = "cacla"
    actor_lr: float = 1e-4

    # critic: V; with dpg a Q of compatible features upon it, or a network
    q: Literal["compatible", "network"] = "compatible"
    spg_critic: Literal["v", "compatible"] = "v"  # of spg: as CACLA's, or DPG's Q
    critic_lr: float = 1e-3
    q_lr: float = 1e-3  # of the compatible features

    # steps
    optimiser: Literal["adam", "sgd"] = "adam"
    adam_b1: float = 0.0
    adam_b2: float = 0.999

    # exploration
    exploration: Literal["truncated", "clipped", "gaussian"] = "truncated"  # D7
    sigma: float = 0.2
    sigma_end: float | None = None  # annealed to this over the run; none: constant

    # features and networks
    features: Literal["observation", "tiles"] = "observation"
    tilings: int = 8
    tiles: int = 8  # a side of each grid
    tile_memory: int = 4096  # features; grids that need more share them by hashing
    tile_low: float = -5.0  # the side of the box that is tiled, for a component that
    tile_high: float = 5.0  # ... the environment gives no bounds for
    tile_box: tuple[
        float, ...
    ] = ()  # low and high of each component instead of all that
    actor_hidden: tuple[int, ...] = (64, 64)  # none: linear in the features
    critic_hidden: tuple[int, ...] = (64, 64)
    activation: Literal["leaky_relu", "relu", "tanh"] = "leaky_relu"
    actor_output: Literal["tanh", "linear"] = "tanh"
    init: Literal["orthogonal", "small", "uniform"] = "orthogonal"
    normalise: Literal["running", "none"] = "running"
    obs_clip: float = 5.0  # of the running normaliser, in standard deviations

    # how it runs
    worlds: int = 1  # an update is one step of each
    rounds: int = 1000  # updates before progress is told


RANGES = {
    "gamma": Range(0, 1, "the paper uses 0.99"),
    "actor_lr": Range(0, 1e3, open_low=True),
    "critic_lr": Range(0, 1e3, open_low=True),
    "q_lr": Range(0, 1e3, open_low=True),
    "adam_b1": Range(0, 0.999999),
    "adam_b2": Range(0, 0.9999999),
    "sigma": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "sigma_end": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "tilings": Range(1, 1024),
    "tiles": Range(1, 1024),
    "tile_memory": Range(1, 10**8),
    "obs_clip": Range(0, open_low=True),
    "worlds": Range(1, 10**6),
    "rounds": Range(1, 10**7),
}


def check(cfg: Config) -> None:
    """Refuse what cannot be meant."""
    check_ranges(cfg, RANGES)
    check_layers(cfg, "actor_hidden", "critic_hidden")
    if not -math.inf < cfg.tile_low < cfg.tile_high < math.inf:
        raise ConfigError(
            f"tile_low = {cfg.tile_low}: needs to be below tile_high = {cfg.tile_high}"
        )
    sides = list(zip(cfg.tile_box[::2], cfg.tile_box[1::2], strict=False))
    if len(cfg.tile_box) % 2 or not all(-math.inf < a < b < math.inf for a, b in sides):
        raise ConfigError(
            f"tile_box = {list(cfg.tile_box)}: needs low,high of each component in turn"
        )
    if cfg.features == "tiles" and cfg.normalise == "running":
        raise ConfigError(
            "normalise = running: tiles would move under what was learned; "
            "needs normalise = none"
        )
    if cfg.features == "tiles" and cfg.actor_update == "dpg" and cfg.q == "network":
        raise ConfigError(
            "q = network: tiles are features of a state alone; compatible"
        )


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
                f"components, needs {2 * spec.obs_dim} numbers"
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
