"""Every reading of NFAC and PeNFAC as values of one config.

`Config` is what people write and what config.json holds. `numbers` turns its words into
the scalars the program computes with, so that arms of a study differ in numbers only;
`plan` keeps what shapes the program.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.actor import ACTOR_RULES, ActorRule
from penfac.core.noise import Exploration
from penfac.core.returns import usual_gamma
from penfac.errors import ConfigError
from penfac.settings.configs import Range, check_layers, check_ranges
from penfac.types import EnvSpec

Scalar = Float[Array, ""]
Normalisation = Literal["batch-norm", "running", "none"]


@dataclass(frozen=True)
class Config:
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # returns
    gamma: float | None = None  # none: by the time step of the environment, D28
    lam: float = 0.9
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"  # D8
    normalise_returns: bool = True  # divide rewards by the deviation of returns, D22

    # passes over the batch: fresh minibatches in each, one step of Adam a minibatch
    minibatches: int = 32  # 1: the whole batch, D26
    rates_end: float = (
        1.0  # both learning rates fall to this fraction over the run, D25
    )

    # actor
    actor_update: Literal["cac", "cacla", "spg"] = "cacla"
    centred: bool = True  # the centred sign: a control variate on the pull, D23
    ratio_limit: float | None = 0.3  # a sample stops pulling there; none: never, D24
    nonpositive: Literal["ignore", "hold"] = "ignore"  # hold: NFAC's own agent, D11
    advantage_scale: Literal["none", "rms"] = "rms"  # D12
    actor_steps: int = 7  # passes over the batch
    actor_lr: float = 3e-4

    # trust region
    trust_region: bool = True
    d_target: float = 0.06
    distance: Literal["rms", "printed", "sigma"] = "sigma"  # D3, D24
    beta_start: float = 0.1  # D1
    beta_keep: bool = True  # from one update to the next, D1
    beta_rule: Literal["step", "update"] = "update"  # how often beta is adapted, D27
    beta_min: float = 0.01  # D1
    beta_max: float = 20.0  # D1
    beta_band: float = 1.5  # how far from d_target leaves beta as it is
    beta_factor: float = 2.0  # by which it is divided or multiplied
    early_stop: bool = False  # the commented "else stop", D2
    penalty: float = 1.0  # times beta; 2 is the gradient as printed, D4

    # critic
    fitted_iterations: int = 5
    critic_steps: int = 1  # passes over the batch in each fitted iteration, D5
    critic_lr: float = 8e-4

    # Adam, both networks
    adam_b1: float = 0.9
    adam_b2: float = 0.999

    # exploration
    exploration: Literal["truncated", "clipped", "gaussian"] = "gaussian"  # D7
    sigma: float = 0.5  # a standard deviation, D6
    sigma_end: float | None = 0.25  # annealed to this over the run; none: constant

    # networks
    actor_hidden: tuple[int, ...] = (64, 64)  # none: linear in the observation
    critic_hidden: tuple[int, ...] = (64, 64)
    activation: Literal["leaky_relu", "relu", "tanh"] = "tanh"
    actor_output: Literal["tanh", "linear"] = "linear"
    init: Literal["orthogonal", "small"] = "orthogonal"  # D10
    normalise_actor: Normalisation = "running"  # D9
    normalise_critic: Literal["running", "none"] = "running"  # D9
    obs_clip: float = 10.0  # of the running normaliser, in standard deviations

    # the batch of one update
    collect: Literal["episodes", "steps"] = "steps"
    episodes_per_update: int = 4
    min_steps_per_update: int = 2048  # more episodes until there are so many steps, D13
    worlds: int = 64  # collect = steps: so many worlds that go on across updates,
    steps_per_world: int = 32  # ... so many steps of each an update


# what a run did that was begun before these settings existed
EARLIER = {
    "normalise_returns": False,
    "minibatches": 1,
    "rates_end": 1.0,
    "centred": False,
    "ratio_limit": None,
    "beta_rule": "step",
}

RANGES = {
    "gamma": Range(0, 1, "the paper uses 0.99"),
    "lam": Range(0, 1, "Table 2 keeps 0.9"),
    "minibatches": Range(1, 10**6, "1 is the whole batch, as in the paper"),
    "rates_end": Range(0, 1, "a fraction of the learning rates; 1 keeps them"),
    "ratio_limit": Range(0, hint="0.3 is usual; none: no limit", open_low=True),
    "actor_steps": Range(1, 10**6, "Table 2 keeps 30"),
    "actor_lr": Range(0, hint="Table 2 keeps 1e-4", open_low=True),
    "d_target": Range(0, hint="Table 2 keeps 0.03", open_low=True),
    "beta_start": Range(0),
    "beta_min": Range(0),
    "beta_max": Range(0),
    "beta_band": Range(1, 1e6, "the paper uses 1.5"),
    "beta_factor": Range(1, 1e6, "the paper uses 2"),
    "penalty": Range(0),
    "fitted_iterations": Range(1, 10**6, "Table 2 keeps 10"),
    "critic_steps": Range(1, 10**6, "Table 2 keeps 1"),
    "critic_lr": Range(0, hint="Table 2 keeps 1e-3", open_low=True),
    "adam_b1": Range(0, 0.999999),
    "adam_b2": Range(0, 0.9999999),  # nearer to 1 is 1 in float32
    "sigma": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "sigma_end": Range(1e-6, 100, "a standard deviation; actions span [-1, 1]"),
    "obs_clip": Range(0, open_low=True),
    "episodes_per_update": Range(1, 10**6, "Table 2 uses 5 to 50"),
    "min_steps_per_update": Range(1, 10**8),
    "worlds": Range(1, 10**6),
    "steps_per_world": Range(1, 10**6),
}


def check(cfg: Config) -> None:
    """Refuse what cannot be meant. Called where text becomes a config, never by JAX."""
    check_ranges(cfg, RANGES)
    if cfg.beta_min > cfg.beta_max:
        raise ConfigError(
            f"beta_min = {cfg.beta_min}: needs at most beta_max = {cfg.beta_max}"
        )
    check_layers(cfg, "actor_hidden", "critic_hidden")
    steps = cfg.worlds * cfg.steps_per_world
    if cfg.collect == "steps" and steps % cfg.minibatches:
        raise ConfigError(
            f"minibatches = {cfg.minibatches}: must divide worlds x steps_per_world = {steps}"
        )
    if cfg.actor_output == "linear" and cfg.exploration == "truncated":
        raise ConfigError(
            "exploration = truncated: needs mu in [-1, 1], and actor_output = linear leaves it; "
            "set exploration=gaussian or actor_output=tanh"
        )
    finite = ("actor_lr", "critic_lr", "d_target", "beta_start", "beta_min", "penalty")
    for key in finite:
        if math.isinf(getattr(cfg, key)):
            raise ConfigError(f"{key} = inf: must be finite")


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
