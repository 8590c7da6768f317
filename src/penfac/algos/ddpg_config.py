"""DDPG as both programs of the paper had it, and TD3, as values of one config."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from penfac.algos.base import Collecting, collecting_by
from penfac.algos.networks import network_plan
from penfac.core.noise import Exploration
from penfac.settings.ddpg import Config
from penfac.types import EnvSpec

Scalar = Float[Array, ""]


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
