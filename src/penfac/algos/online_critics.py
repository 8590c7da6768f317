"""What a critic makes of a step: its error, and the gradients that follow from it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float

from penfac.algos.batch import discounts_of
from penfac.algos.near import Near, axes_near, near, sum_near
from penfac.algos.nets import ACTIVATIONS, Layers, mlp
from penfac.algos.networks import (
    Inputs,
    rule_of,
    running_inputs,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.core.actor import actor_weight, dpg_loss, toward_loss
from penfac.core.critic import compatible_q, value_loss
from penfac.core.features import (
    compatible_direction,
    compatible_features,
)
from penfac.core.normalise import Running, normalise
from penfac.core.returns import td_errors
from penfac.types import Transitions

Scalar = Float[Array, ""]
Actions = Float[Array, "N m"]


class State(NamedTuple):
    """Everything learning carries from one step to the next."""

    actor: Layers
    actor_opt: optax.OptState
    critic: Layers  # V, or the network that is Q
    critic_opt: optax.OptState
    w: Any  # of the compatible features, shaped like the actor; () without them
    w_opt: Any
    observed: Running


class Gradients(NamedTuple):
    """What the critic says of a step, and the gradients that follow from it."""

    delta: Float[Array, " N"]
    critic_grad: Near
    actor_grad: Near
    w_grad: Near
    pulled: Bool[Array, ""]  # nothing pulls: the actor rests, whatever Adam remembers


def through(
    layers: Layers, obs: Float[Array, "*b n"], inputs: Inputs, plan: Plan
) -> Float[Array, "*b k"]:
    """A network of the features of a state: linear in them if it has one layer."""
    return through_near(near(layers, obs, plan.tiling), obs, inputs, plan)


def through_near(
    layers: Near, obs: Float[Array, "*b n"], inputs: Inputs, plan: Plan
) -> Float[Array, "*b k"]:
    """... given what of it is near these states."""
    if plan.tiling is None:
        return mlp(layers, normalise(obs, *inputs), plan.activation)
    rows, b = layers[0]
    first = jnp.sum(rows, axis=-2) + b
    if len(layers) == 1:
        return first
    return mlp(layers[1:], ACTIVATIONS[plan.activation](first), plan.activation)


def actor_mean(
    actor: Near, obs: Float[Array, "*b n"], inputs: Inputs, plan: Plan
) -> Float[Array, "*b m"]:
    """mu(s), given what of the actor is near s."""
    out = through_near(actor, obs, inputs, plan)
    return jnp.tanh(out) if plan.actor_output == "tanh" else out


def inputs_of(state: State, numbers: Numbers) -> Inputs:
    return running_inputs(state.observed, numbers.normalise.running, numbers.obs_clip)


def played(batch: Transitions) -> Float[Array, " N"]:
    """1 / N for each step really played: a sum weighted by it is the mean."""
    return batch.mask / jnp.maximum(jnp.sum(batch.mask), 1)


def gradients_by_v(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Gradients:
    """CACLA, CAC and SPG: the temporal difference says which way  (Eq. 6, 7, 1)."""
    v = lambda critic, obs: through_near(critic, obs, inputs, plan)[..., 0]  # noqa: E731
    critic = near(state.critic, batch.obs, plan.tiling)
    ahead = near(state.critic, batch.next_obs, plan.tiling)
    before, after = v(critic, batch.obs), v(ahead, batch.next_obs)
    delta = td_errors(batch.reward, discounts_of(batch, numbers), before, after)
    delta = jnp.where(batch.mask, delta, 0)
    weight = actor_weight(delta, rule_of(numbers.actor_update)) * played(batch)
    critic_grad = jax.grad(
        lambda c: value_loss(v(c, batch.obs), before + delta, batch.mask)
    )(critic)
    actor_grad = jax.grad(
        lambda a: toward_loss(
            actor_mean(a, batch.obs, inputs, plan), batch.action, weight
        )
    )(near(state.actor, batch.obs, plan.tiling))
    return Gradients(delta, critic_grad, actor_grad, (), jnp.any(weight != 0))


def gradients_by_compatible_q(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Gradients:
    """Q = compatible features . w + V; of V(s') only, for mu acts there. DPG climbs it
    (Eq. 3); SPG weighs the action that was played by what Q says of it  (Eq. 1)."""
    v = lambda critic, obs: through_near(critic, obs, inputs, plan)[..., 0]  # noqa: E731
    here = lambda layers: near(layers, batch.obs, plan.tiling)  # noqa: E731
    actor, critic, w = here(state.actor), here(state.critic), here(state.w)
    ahead = near(state.critic, batch.next_obs, plan.tiling)
    before, after = v(critic, batch.obs), v(ahead, batch.next_obs)

    def one(actor, w, obs, action, v):
        mean = lambda actor: actor_mean(actor, obs, inputs, plan)  # noqa: E731
        direction = compatible_direction(mean, actor, w)
        q = compatible_q(direction, action, mean(actor), v)
        return q, direction, compatible_features(mean, actor, action)

    own = axes_near(state.actor, plan.tiling)
    q, direction, features = jax.vmap(one, in_axes=(own, own, 0, 0, 0))(
        actor, w, batch.obs, batch.action, before
    )
    delta = td_errors(batch.reward, discounts_of(batch, numbers), q, after)
    delta = jnp.where(batch.mask, delta, 0)
    weight = played(batch)
    w_grad = sum_near(features, -weight * delta, plan.tiling)
    critic_grad = jax.grad(
        lambda c: value_loss(v(c, batch.obs), before + delta, batch.mask)
    )(critic)
    toward = weight * actor_weight(q - before, rule_of(numbers.actor_update))
    up = weight * numbers.actor_update.dpg

    def actor_loss(actor):
        mean = actor_mean(actor, batch.obs, inputs, plan)
        climbed = jnp.sum(up * jnp.sum(mean * direction, axis=1))
        return toward_loss(mean, batch.action, toward) - climbed

    actor_grad = jax.grad(actor_loss)(actor)
    return Gradients(delta, critic_grad, actor_grad, w_grad, jnp.bool_(True))


def gradients_by_q_network(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Gradients:
    """DPG with a Q that is a network  (Eq. 3)."""

    def q(critic, obs, action):
        x = jnp.concatenate([normalise(obs, *inputs), action], axis=-1)
        return mlp(critic, x, plan.activation)[..., 0]

    before = q(state.critic, batch.obs, batch.action)
    ahead = actor_mean(state.actor, batch.next_obs, inputs, plan)
    after = q(state.critic, batch.next_obs, ahead)
    delta = td_errors(batch.reward, discounts_of(batch, numbers), before, after)
    delta = jnp.where(batch.mask, delta, 0)
    critic_grad = jax.grad(
        lambda c: value_loss(q(c, batch.obs, batch.action), before + delta, batch.mask)
    )(state.critic)
    share = played(batch) * len(batch.mask)  # dpg_loss is a mean over all rows

    def actor_loss(actor):
        action = actor_mean(actor, batch.obs, inputs, plan)
        return dpg_loss(share * q(state.critic, batch.obs, action))

    actor_grad = jax.grad(actor_loss)(state.actor)
    return Gradients(delta, critic_grad, actor_grad, (), jnp.bool_(True))
