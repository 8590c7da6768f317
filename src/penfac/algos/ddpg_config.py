"""DDPG as both programs of the paper had it, and TD3, as values of one config."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.noise import Exploration
from penfac.errors import ConfigError
from penfac.settings.configs import Range, check_layers, check_ranges
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


@dataclass(frozen=True)
class Config:
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # returns
    gamma: float = 0.99
    n_step: int = 1
    n_step_target: Literal["right", "ddrl"] = "right"  # ddrl: as it was computed, D18
    time_limit: Literal["bootstrap", "terminal"] = "bootstrap"  # D8
    reward_scale: float = 1.0

    # critics
    critics: int = 1  # 2: the lesser counts (TD3)
    critic_lr: float = 1e-3
    critic_error: float = 0.5  # weight of the mean squared error of Q, D33
    critic_l2: float = 0.0  # weight of half the squares of the critics' parameters
    critic_l2_on: Literal["all", "hidden-weights"] = "all"  # which parameters, D33
    target_noise: float = 0.0  # smoothed target: noise of the target's action (TD3),
    target_noise_clip: float = 0.5  # ... kept within this

    # actor
    actor_lr: float = 1e-3
    actor_delay: int = 1  # the actor and the targets move every so many steps (TD3)
    tau: float = 0.005  # soft update of the target networks

    # Adam, both networks
    adam_b1: float = 0.9
    adam_b2: float = 0.999
    adam_eps: float = 1e-8

    # exploration: a law around mu, or noise on the actor's parameters
    exploration: Literal["clipped", "truncated", "ou", "parameters"] = "clipped"
    sigma: float = 0.1  # of the law; of `parameters` the action distance aimed at
    sigma_end: float | None = None  # annealed to this over the run; none: constant
    ou_theta: float = 0.15
    ou_dt: float = 0.01
    random_steps: int = 1000  # at first actions are uniform

    # replay
    replay: int = 1_000_000
    learning_starts: int = 1000  # steps stored before the first gradient step
    batch_size: int = 256
    gradient_steps: int = 50  # an update

    # networks
    actor_hidden: tuple[int, ...] = (64, 64)
    critic_hidden: tuple[int, ...] = (64, 64)
    activation: Literal["leaky_relu", "relu", "tanh"] = "relu"
    actor_output: Literal["tanh", "linear"] = "tanh"
    init: Literal["uniform", "orthogonal", "small", "baselines"] = "uniform"
    normalise_actor: Literal["batch-norm", "running", "none"] = "none"
    normalise_critic: Literal["running", "none"] = "none"
    obs_clip: float = 5.0  # of the running normaliser, in standard deviations

    # the steps of one update
    collect: Literal["episodes", "steps"] = "steps"
    episodes_per_update: int = 1
    min_steps_per_update: int = 1
    worlds: int = 1
    steps_per_world: int = 50
    rounds: int = 1  # collect and learn so often before progress is told


RANGES = {
    "gamma": Range(0, 1, "the paper uses 0.99"),
    "n_step": Range(1, 1000, "Table 4 keeps 1 and 5"),
    "reward_scale": Range(0, 1e6, "Tables 4 and 5 keep 10", open_low=True),
    "critics": Range(1, 100, "TD3 uses 2"),
    "critic_lr": Range(0, 1e3, "Tables 4 and 5 use 1e-3", open_low=True),
    "critic_error": Range(0, 1e3, "DDRL has 0.5, OpenAI's baselines 1", open_low=True),
    "critic_l2": Range(0, 1e3, "Tables 4 and 5 use 0.01"),
    "target_noise": Range(0, 10, "TD3 uses 0.2"),
    "target_noise_clip": Range(0, 10, "TD3 uses 0.5"),
    "actor_lr": Range(0, 1e3, "Tables 4 and 5 use 1e-4", open_low=True),
    "actor_delay": Range(1, 10**6, "TD3 uses 2"),
    "tau": Range(0, 1, "Tables 4 and 5 keep 0.001 and 0.01", open_low=True),
    "adam_b1": Range(0, 0.999999),
    "adam_b2": Range(0, 0.9999999),
    "adam_eps": Range(0, 1, open_low=True),
    "sigma": Range(1e-6, 100, "actions span [-1, 1]"),
    "sigma_end": Range(1e-6, 100, "actions span [-1, 1]"),
    "ou_theta": Range(0, 1e3),
    "ou_dt": Range(0, 1, open_low=True),
    "random_steps": Range(0, 10**9),
    "replay": Range(1, 10**8, "Tables 4 and 5 use 1e6"),
    "learning_starts": Range(1, 10**9),
    "batch_size": Range(1, 10**6, "Tables 4 and 5 keep 128"),
    "gradient_steps": Range(1, 10**6, "Table 5 keeps 50"),
    "obs_clip": Range(0, open_low=True),
    "episodes_per_update": Range(1, 10**6),
    "min_steps_per_update": Range(1, 10**8),
    "worlds": Range(1, 10**6),
    "steps_per_world": Range(1, 10**6, "Table 5 keeps 100"),
    "rounds": Range(1, 10**6),
}


def check(cfg: Config) -> None:
    """Refuse what cannot be meant."""
    check_ranges(cfg, RANGES)
    check_layers(cfg, "actor_hidden", "critic_hidden")
    if cfg.collect == "steps" and cfg.replay < cfg.worlds * cfg.steps_per_world:
        raise ConfigError(
            f"replay = {cfg.replay}: needs at least the {cfg.worlds} worlds x "
            f"{cfg.steps_per_world} steps of an update"
        )
    if cfg.replay < cfg.learning_starts:
        raise ConfigError(
            f"replay = {cfg.replay}: needs at least learning_starts = "
            f"{cfg.learning_starts}"
        )
    if cfg.ou_theta * cfg.ou_dt >= 2:
        raise ConfigError(
            f"ou_theta = {cfg.ou_theta}: times ou_dt = {cfg.ou_dt} it needs to be below "
            "2, or the noise grows without end"
        )
    if cfg.collect == "episodes" and cfg.rounds > 1:
        raise ConfigError(f"rounds = {cfg.rounds}: needs collect = steps")


def collecting(cfg: Config) -> Collecting:
    # noise on the parameters is played as it is: the perturbed actor's own answer
    law = "none" if cfg.exploration == "parameters" else cfg.exploration
    around = Exploration(law)
    if law == "ou":
        around = around._replace(theta=cfg.ou_theta, dt=cfg.ou_dt)
    how = collecting_by(cfg, around)
    return how._replace(rounds=cfg.rounds, random_steps=cfg.random_steps)


class Numbers(NamedTuple):
    """What learners of one program may differ in."""

    gamma: Scalar
    bootstrap: Scalar  # 1: a time limit is not an end; 0: it is
    ddrl_target: Bool[Array, ""]
    reward_scale: Scalar
    critic_lr: Scalar
    critic_error: Scalar
    l2_hidden: Scalar  # of the weights of hidden layers
    l2_rest: Scalar  # of biases and the output layer
    target_noise: Scalar
    target_noise_clip: Scalar
    actor_lr: Scalar
    actor_delay: Int[Array, ""]
    tau: Scalar
    adam_b1: Scalar
    adam_b2: Scalar
    adam_eps: Scalar
    sigma: Scalar  # the action distance that noise on parameters aims at
    learning_starts: Int[Array, ""]
    gradient_steps: Int[Array, ""]
    actor_running: Bool[Array, ""]
    actor_batch_norm: Bool[Array, ""]
    critic_running: Bool[Array, ""]
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
    batch_norm: bool
    critics: int
    n_step: int
    replay: int
    batch_size: int
    one_world: bool
    parameter_noise: bool
    smoothed: bool  # the target's action


def plan(cfg: Config, spec: EnvSpec) -> Plan:
    return Plan(
        **network_plan(cfg, spec),
        batch_norm=cfg.normalise_actor == "batch-norm",
        critics=cfg.critics,
        n_step=cfg.n_step,
        replay=cfg.replay,
        batch_size=cfg.batch_size,
        one_world=cfg.collect == "steps" and cfg.worlds == 1,
        parameter_noise=cfg.exploration == "parameters",
        smoothed=cfg.target_noise > 0,
    )


def numbers(cfg: Config) -> Numbers:
    f, i, b = jnp.float32, jnp.int32, jnp.bool_
    return Numbers(
        gamma=f(cfg.gamma),
        bootstrap=f(cfg.time_limit == "bootstrap"),
        ddrl_target=b(cfg.n_step_target == "ddrl"),
        reward_scale=f(cfg.reward_scale),
        critic_lr=f(cfg.critic_lr),
        critic_error=f(cfg.critic_error),
        l2_hidden=f(cfg.critic_l2),
        l2_rest=f(cfg.critic_l2 if cfg.critic_l2_on == "all" else 0),
        target_noise=f(cfg.target_noise),
        target_noise_clip=f(cfg.target_noise_clip),
        actor_lr=f(cfg.actor_lr),
        actor_delay=i(cfg.actor_delay),
        tau=f(cfg.tau),
        adam_b1=f(cfg.adam_b1),
        adam_b2=f(cfg.adam_b2),
        adam_eps=f(cfg.adam_eps),
        sigma=f(cfg.sigma),
        learning_starts=i(cfg.learning_starts),
        gradient_steps=i(cfg.gradient_steps),
        actor_running=b(cfg.normalise_actor == "running"),
        actor_batch_norm=b(cfg.normalise_actor == "batch-norm"),
        critic_running=b(cfg.normalise_critic == "running"),
        obs_clip=f(cfg.obs_clip),
    )
