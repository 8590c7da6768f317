"""Every reading of NFAC and PeNFAC as values of one config.

`Config` is what people write and what config.json holds. `numbers` turns its words into
the scalars the program computes with, so that arms of a study differ in numbers only;
`plan` keeps what shapes the program.
"""

from dataclasses import replace
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.actor import ACTOR_RULES, ActorRule
from penfac.core.noise import Exploration
from penfac.core.returns import usual_gamma
from penfac.settings.penfac import Config
from penfac.types import EnvSpec

Scalar = Float[Array, ""]
Normalisation = Literal["batch-norm", "running", "none"]


def settled(cfg: Config, spec: EnvSpec) -> Config:
    """With the gamma of this environment, where none is given."""
    if cfg.gamma is not None:
        return cfg
    return replace(cfg, gamma=usual_gamma(spec.time_step))


def collecting(cfg: Config) -> Collecting:
    return collecting_by(cfg, Exploration(cfg.exploration))


class Numbers(NamedTuple):
    """What learners of one program may differ in: every arm of the ablation is here."""

    gamma: Scalar
    lam: Scalar
    bootstrap: Scalar  # 1: a time limit is not an end; 0: it is
    normalise_returns: Bool[Array, ""]
    rates_end: Scalar
    rule: ActorRule
    centred: Scalar  # 1: with the control variate; 0: without
    ratio_limit: Scalar  # infinite: none
    hold_nonpositive: Scalar  # NFAC's own agent: actions that failed hold mu in place
    rms: Bool[Array, ""]  # divide advantages by their root mean square
    d_target: Scalar
    beta_start: Scalar
    beta_keep: Bool[Array, ""]
    beta_each_step: Bool[Array, ""]  # adapt it within an update, not after it
    beta_min: Scalar
    beta_max: Scalar
    beta_band: Scalar
    beta_factor: Scalar
    early_stop: Bool[Array, ""]
    printed: Bool[Array, ""]  # which distance
    by_sigma: Bool[Array, ""]  # ... in standard deviations of exploration
    penalty: Scalar
    actor_steps: Int[Array, ""]
    actor_lr: Scalar
    fitted_iterations: Int[Array, ""]
    critic_steps: Int[Array, ""]
    critic_lr: Scalar
    adam_b1: Scalar
    adam_b2: Scalar
    actor_running: Bool[Array, ""]
    actor_batch_norm: Bool[Array, ""]
    critic_running: Bool[Array, ""]
    obs_clip: Scalar


class Plan(NamedTuple):
    """What shapes the program: sizes, activations, minibatches, batch norm."""

    obs_dim: int
    action_dim: int
    actor_hidden: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    activation: str
    actor_output: str
    init: str
    minibatches: int
    batch_norm: bool


def plan(cfg: Config, spec: EnvSpec) -> Plan:
    return Plan(
        **network_plan(cfg, spec),
        minibatches=cfg.minibatches,
        batch_norm=cfg.normalise_actor == "batch-norm",
    )


def numbers(cfg: Config) -> Numbers:
    """The words of a config as numbers; no trust region is a beta that stays 0."""
    f, i, b = jnp.float32, jnp.int32, jnp.bool_
    beta = (cfg.beta_start, cfg.beta_min, cfg.beta_max)
    beta_start, beta_min, beta_max = beta if cfg.trust_region else (0.0, 0.0, 0.0)
    return Numbers(
        gamma=f(usual_gamma(None) if cfg.gamma is None else cfg.gamma),
        lam=f(cfg.lam),
        bootstrap=f(cfg.time_limit == "bootstrap"),
        normalise_returns=b(cfg.normalise_returns),
        rates_end=f(cfg.rates_end),
        rule=ActorRule(*map(f, ACTOR_RULES[cfg.actor_update])),
        centred=f(cfg.centred),
        ratio_limit=f(jnp.inf if cfg.ratio_limit is None else cfg.ratio_limit),
        hold_nonpositive=f(cfg.nonpositive == "hold"),
        rms=b(cfg.advantage_scale == "rms"),
        d_target=f(cfg.d_target),
        beta_start=f(beta_start),
        beta_keep=b(cfg.beta_keep),
        beta_each_step=b(cfg.beta_rule == "step"),
        beta_min=f(beta_min),
        beta_max=f(beta_max),
        beta_band=f(cfg.beta_band),
        beta_factor=f(cfg.beta_factor),
        early_stop=b(cfg.early_stop and cfg.trust_region),
        printed=b(cfg.distance == "printed"),
        by_sigma=b(cfg.distance == "sigma"),
        penalty=f(cfg.penalty),
        actor_steps=i(cfg.actor_steps),
        actor_lr=f(cfg.actor_lr),
        fitted_iterations=i(cfg.fitted_iterations),
        critic_steps=i(cfg.critic_steps),
        critic_lr=f(cfg.critic_lr),
        adam_b1=f(cfg.adam_b1),
        adam_b2=f(cfg.adam_b2),
        actor_running=b(cfg.normalise_actor == "running"),
        actor_batch_norm=b(cfg.normalise_actor == "batch-norm"),
        critic_running=b(cfg.normalise_critic == "running"),
        obs_clip=f(cfg.obs_clip),
    )
