"""PPO as Table 3 has it, and as people run it today, as values of one config."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.noise import Exploration
from penfac.settings.configs import Range, check_layers, check_ranges
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


@dataclass(frozen=True)
class Config:
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # returns
    gamma: float = 0.99
    lam: float = 0.95
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"  # D8

    # the surrogate
    clip: float = 0.2
    clip_end: float | None = None  # annealed to this over the run; none: constant
    normalise_advantage: bool = True  # over each minibatch
    entropy_weight: float = 0.0
    value_weight: float = 0.5  # of the mean squared error of V, without a half
    clip_value: bool = False  # keep V within `clip` of the old V too

    # steps of Adam
    epochs: int = 10
    minibatches: int = 32
    lr: float = 3e-4
    lr_end: float | None = None  # annealed to this over the run; none: constant
    kl_target: float | None = None  # the step size follows the policy's movement
    max_grad_norm: float = 0.5
    adam_b1: float = 0.9
    adam_b2: float = 0.999
    adam_eps: float = 1e-5

    # exploration
    sigma: float = 1.0  # at the start; learned from there,
    sigma_end: float | None = None  # ... or annealed to this and not learned
    clip_action: bool = True  # before the environment gets it, D32

    # networks
    actor_hidden: tuple[int, ...] = (64, 64)
    critic_hidden: tuple[int, ...] = (64, 64)
    activation: Literal["leaky_relu", "relu", "tanh"] = "tanh"
    actor_output: Literal["tanh", "linear"] = "linear"
    init: Literal["orthogonal", "small", "uniform"] = "orthogonal"
    normalise_obs: bool = True
    normalise_returns: bool = True
    obs_clip: float = 10.0  # of the running normaliser, in standard deviations

    # the batch of one update
    collect: Literal["episodes", "steps"] = "steps"
    episodes_per_update: int = 4
    min_steps_per_update: int = 2048
    worlds: int = 8
    steps_per_world: int = 256


RANGES = {
    "gamma": Range(0, 1, "the paper uses 0.99"),
    "lam": Range(0, 1, "Table 3 keeps 0.97 and 0.95"),
    "clip": Range(0, 100, "Table 3 uses 0.2", open_low=True),
    "clip_end": Range(0, 100, "Table 3 uses 0.2"),
    "entropy_weight": Range(0, 1e3, "Table 3 uses 0"),
    "value_weight": Range(0, 1e3, "of the mean squared error: OpenAI's 0.5 is 0.25"),
    "epochs": Range(1, 10**6, "Table 3 keeps 10 and 50"),
    "minibatches": Range(1, 10**6, "Table 3 keeps 32 and 4"),
    "lr": Range(0, 1e3, "Table 3 keeps 3e-4 and 1e-4", open_low=True),
    "lr_end": Range(0, 1e3),
    "kl_target": Range(0, 1e3, "0.01 is usual", open_low=True),
    "max_grad_norm": Range(0, 1e9, open_low=True),
    "adam_b1": Range(0, 0.999999),
    "adam_b2": Range(0, 0.9999999),
    "adam_eps": Range(0, 1, open_low=True),
    "sigma": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "sigma_end": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "obs_clip": Range(0, open_low=True),
    "episodes_per_update": Range(1, 10**6),
    "min_steps_per_update": Range(1, 10**8),
    "worlds": Range(1, 10**6),
    "steps_per_world": Range(1, 10**6, "Table 3 keeps 4096 to 16384"),
}


def check(cfg: Config) -> None:
    """Refuse what cannot be meant."""
    check_ranges(cfg, RANGES)
    check_layers(cfg, "actor_hidden", "critic_hidden")


def collecting(cfg: Config) -> Collecting:
    return collecting_by(cfg, Exploration("gaussian", clip=cfg.clip_action))


class Numbers(NamedTuple):
    """What learners of one program may differ in."""

    gamma: Scalar
    lam: Scalar
    bootstrap: Scalar  # 1: a time limit is not an end; 0: it is
    clip: Scalar
    clip_end: Scalar
    normalise_advantage: Bool[Array, ""]
    entropy_weight: Scalar
    value_weight: Scalar
    clip_value: Bool[Array, ""]
    lr: Scalar
    lr_end: Scalar
    kl_target: Scalar  # infinite: the step size stays
    max_grad_norm: Scalar
    adam_b1: Scalar
    adam_b2: Scalar
    adam_eps: Scalar
    sigma: Scalar
    sigma_learned: Bool[Array, ""]
    actor_running: Bool[Array, ""]
    normalise_returns: Bool[Array, ""]
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
    epochs: int
    minibatches: int
    batch_norm: bool = False  # never; networks.actor_mean asks


def plan(cfg: Config, spec: EnvSpec) -> Plan:
    return Plan(
        **network_plan(cfg, spec),
        epochs=cfg.epochs,
        minibatches=cfg.minibatches,
    )


def numbers(cfg: Config) -> Numbers:
    f, b = jnp.float32, jnp.bool_
    kl = jnp.inf if cfg.kl_target is None else cfg.kl_target
    return Numbers(
        gamma=f(cfg.gamma),
        lam=f(cfg.lam),
        bootstrap=f(cfg.time_limit == "bootstrap"),
        clip=f(cfg.clip),
        clip_end=f(cfg.clip if cfg.clip_end is None else cfg.clip_end),
        normalise_advantage=b(cfg.normalise_advantage),
        entropy_weight=f(cfg.entropy_weight),
        value_weight=f(cfg.value_weight),
        clip_value=b(cfg.clip_value),
        lr=f(cfg.lr),
        lr_end=f(cfg.lr if cfg.lr_end is None else cfg.lr_end),
        kl_target=f(kl),
        max_grad_norm=f(cfg.max_grad_norm),
        adam_b1=f(cfg.adam_b1),
        adam_b2=f(cfg.adam_b2),
        adam_eps=f(cfg.adam_eps),
        sigma=f(cfg.sigma),
        sigma_learned=b(cfg.sigma_end is None),
        actor_running=b(cfg.normalise_obs),
        normalise_returns=b(cfg.normalise_returns),
        obs_clip=f(cfg.obs_clip),
    )
