"""PPO as Table 3 has it, and as people run it today, as values of one config."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.noise import Exploration
from penfac.settings.ppo import Config
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


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
