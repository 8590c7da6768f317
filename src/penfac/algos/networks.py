"""How actors and critics are built, and how observations are normalised for them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from penfac.algos.nets import Layers, init_layers, mlp
from penfac.algos.numbers import Numbers, Plan
from penfac.core.actor import ACTOR_RULES, ActorRule
from penfac.core.normalise import (
    BATCH_NORM_EPS,
    BatchStats,
    Running,
    batch_stats_moments,
    normalise,
    running_moments,
)

Scalar = Float[Array, ""]


class Actor(NamedTuple):
    """mu_theta. Without batch norm, scale and shift stay 1 and 0."""

    scale: Float[Array, " n"]
    shift: Float[Array, " n"]
    layers: Layers
    spread: Any = ()  # SAC: one more last layer, whose output is log sigma


class Inputs(NamedTuple):
    """How an observation enters a network."""

    mean: Float[Array, " n"]
    std: Float[Array, " n"]
    clip: Scalar


def rule_of(update: Any) -> ActorRule:
    """The flags of `actor_update` as the three numbers of a rule: zeros for `dpg`."""
    chosen = [getattr(update, word) for word in ACTOR_RULES]
    weights = [jnp.array(column) for column in zip(*ACTOR_RULES.values(), strict=True)]
    return ActorRule(*(jnp.select(chosen, list(column)) for column in weights))


def init_actor(key: PRNGKeyArray, plan: Plan) -> Actor:
    n, m = plan.obs_dim, plan.action_dim
    layers = init_layers(key, (n, *plan.actor_hidden, m), plan.init, 0.01)
    return Actor(jnp.ones(n), jnp.zeros(n), layers)


def running_inputs(observed: Running, on: Bool[Array, ""], clip: Scalar) -> Inputs:
    """Normalise by running statistics, or return the raw observation if this is off."""
    mean, std = running_moments(observed)
    return Inputs(
        jnp.where(on, mean, 0), jnp.where(on, std, 1), jnp.where(on, clip, jnp.inf)
    )


def batch_norm_inputs(moments, otherwise: Inputs, on: Bool[Array, ""]) -> Inputs:
    """Apply batch norm with the given (mean, variance), if it is on."""
    mean, variance = moments
    return Inputs(
        jnp.where(on, mean, otherwise.mean),
        jnp.where(on, jnp.sqrt(variance + BATCH_NORM_EPS), otherwise.std),
        jnp.where(on, jnp.inf, otherwise.clip),
    )


def actor_inputs(
    observed: Running, batch_stats: BatchStats, plan: Plan, numbers: Numbers
) -> Inputs:
    """Normalise as acting does: always by running statistics."""
    inputs = running_inputs(observed, numbers.normalise_actor.running, numbers.obs_clip)
    if plan.batch_norm:
        moments = batch_stats_moments(batch_stats)
        inputs = batch_norm_inputs(moments, inputs, numbers.normalise_actor.batch_norm)
    return inputs


def actor_mean(
    actor: Actor, obs: Float[Array, "*b n"], inputs: Inputs, plan: Plan
) -> Float[Array, "*b m"]:
    """mu_theta(s), in [-1, 1] by tanh, or linear for a linear policy."""
    x = normalise(obs, *inputs)
    if plan.batch_norm:
        x = x * actor.scale + actor.shift
    out = mlp(actor.layers, x, plan.activation)
    return jnp.tanh(out) if plan.actor_output == "tanh" else out


def value(critic: Layers, x: Float[Array, "*b n"], plan: Plan) -> Float[Array, " *b"]:
    """V(s) of normalised observations."""
    return mlp(critic, x, plan.activation)[..., 0]


def only_with_batch_norm(grad: Actor, on: Bool[Array, ""]) -> Actor:
    """Keep scale and shift constant for a learner without batch norm."""
    return grad._replace(
        scale=jnp.where(on, grad.scale, 0), shift=jnp.where(on, grad.shift, 0)
    )


def adam(lr: Scalar, b1: Scalar, b2: Scalar, eps: Scalar | float = 1e-8):
    # in float32 throughout (D15)
    return optax.adam(lr, b1=b1, b2=b2, eps=eps)  # pyright: ignore[reportArgumentType]


def all_finite(tree) -> Bool[Array, ""]:
    """Whether all numbers of a tree are finite, by one reduction: eighty small
    reductions would take much longer."""
    numbers = [
        x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)
    ]
    return jnp.all(jnp.isfinite(jnp.concatenate([jnp.ravel(x) for x in numbers])))
