"""Epochs of PPO over one batch: the clipped surrogate and the error of V, by Adam."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from penfac.algos.nets import Layers
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_mean,
    adam,
    value,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.core.ppo import (
    approximate_kl,
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    entropy,
    log_likelihood,
    standardised,
)

Scalar = Float[Array, ""]


class Networks(NamedTuple):
    """What Adam moves; the critic has a trunk of its own  (D31)."""

    actor: Actor
    log_sigma: Float[Array, " m"]
    critic: Layers


class Samples(NamedTuple):
    """What a minibatch is drawn from; nothing in it moves during an update."""

    x: Float[Array, "N n"]  # normalised observations
    action: Float[Array, "N m"]
    advantage: Float[Array, " N"]
    target: Float[Array, " N"]
    v: Float[Array, " N"]
    log_likelihood: Float[Array, " N"]
    mask: Bool[Array, " N"]


def optimiser(numbers: Numbers) -> optax.GradientTransformation:
    """Adam with a step of 1: what it gives is scaled by this update's step size."""
    steps = (numbers.adam_b1, numbers.adam_b2, numbers.adam_eps)
    return adam(jnp.ones(()), *steps)


def sigma_of(log_sigma: Float[Array, " m"], configured: Any, numbers: Numbers):
    """The learned deviation, or the annealed one if the config asks for it."""
    return jnp.where(jnp.isinf(numbers.sigma_end), jnp.exp(log_sigma), configured)


def mean_of(actor: Actor, x: Float[Array, "N n"], plan: Plan) -> Float[Array, "N m"]:
    """mu(s) from an observation that is normalised already."""
    n = plan.obs_dim
    plain = Inputs(jnp.zeros(n), jnp.ones(n), jnp.float32(jnp.inf))
    return actor_mean(actor, x, plain, plan)


def surrogate_loss(
    networks: Networks,
    part: Samples,
    clip: Scalar,
    configured: Scalar,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Scalar, Float[Array, "5"]]:
    """What one step of Adam descends; and its parts, the divergence and clip fraction."""
    deviation = sigma_of(networks.log_sigma, configured, numbers)
    new = log_likelihood(part.action, mean_of(networks.actor, part.x, plan), deviation)
    log_ratio = jnp.where(part.mask, new - part.log_likelihood, 0)
    ratio = jnp.exp(log_ratio)
    advantage = jnp.where(
        numbers.normalise_advantage,
        standardised(part.advantage, part.mask),
        part.advantage,
    )
    policy_loss = -clipped_surrogate(ratio, advantage, clip, part.mask)
    v = value(networks.critic, part.x, plan)
    near = jnp.where(numbers.clip_value, clip, jnp.inf)
    value_loss = clipped_value_loss(v, part.v, part.target, near, part.mask)
    policy_entropy = entropy(deviation)
    loss = policy_loss + 2 * numbers.value_weight * value_loss
    loss = loss - numbers.entropy_weight * policy_entropy
    kl = approximate_kl(log_ratio, part.mask)
    fraction = clip_fraction(ratio, clip, part.mask)
    return loss, jnp.stack([policy_loss, value_loss, policy_entropy, kl, fraction])


def shuffled(key: PRNGKeyArray, rows: int, minibatches: int) -> Array:
    """Every row once, in random order, as [minibatches, size]."""
    return jax.random.permutation(key, rows).reshape(minibatches, -1)


def clip_by_norm(grad: Any, most: Scalar) -> Any:
    """The gradient of all networks together, no longer than `most`."""
    norm = optax.tree.norm(grad)
    factor = jnp.minimum(1.0, most / (norm + 1e-6))
    return jax.tree.map(lambda g: factor * g, grad)


def fit_networks(
    networks: Networks,
    opt: optax.OptState,
    samples: Samples,
    key: PRNGKeyArray,
    clip: Scalar,
    lr: Scalar,
    configured: Scalar,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Networks, optax.OptState, Float[Array, "E K 5"]]:
    """Every epoch in fresh minibatches, one step of Adam each, and their reports."""

    def step(carry, minibatch):
        networks, opt = carry
        part = jax.tree.map(lambda x: x[minibatch], samples)
        grad, report = jax.grad(surrogate_loss, has_aux=True)(
            networks, part, clip, configured, plan, numbers
        )
        grad = clip_by_norm(grad, numbers.max_grad_norm)
        change, opt = optimiser(numbers).update(grad, opt)
        change = jax.tree.map(lambda c: lr * c, change)
        return (optax.apply_updates(networks, change), opt), report

    def epoch(carry, key):
        order = shuffled(key, len(samples.mask), plan.minibatches)
        return jax.lax.scan(step, carry, order)

    keys = jax.random.split(key, plan.epochs)
    (moved, opt), reports = jax.lax.scan(epoch, (networks, opt), keys)
    fitted: Any = moved
    return fitted, opt, reports
