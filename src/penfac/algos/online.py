"""CACLA, CAC, SPG and DPG as they were first written: one step, one update  (Sec. 3, 4).

One update, from the step that was just played, every value taken before it moves:

    V                delta = R + gamma V(s') - V(s)
    critic           V toward R + gamma V(s')
    actor            CACLA: toward a if delta > 0  (Eq. 6);  CAC: as far as delta says
                     (Eq. 7);  SPG: away from a if delta < 0 too  (Eq. 1);
                     DPG: up the gradient of Q in a  (Eq. 3)
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.batch import discounts_of
from penfac.algos.near import Near, add_near, axes_near, everywhere, near, sum_near
from penfac.algos.nets import ACTIVATIONS, Layers, init_layers, mlp
from penfac.algos.networks import (
    Actor,
    Inputs,
    adam,
    all_finite,
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
from penfac.core.normalise import Running, normalise, running_init, running_update
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


class Metrics(NamedTuple):
    """One row of progress.csv: means over the steps since the last one."""

    value_loss: Scalar
    td_error: Scalar
    positive_fraction: Scalar
    finite: Bool[Array, ""]


class Judged(NamedTuple):
    """What the critic says of a step, and the gradients that follow from it."""

    delta: Float[Array, " N"]
    critic_grad: Near
    actor_grad: Near
    w_grad: Near
    pulled: Bool[Array, ""]  # nothing pulls: the actor rests, whatever Adam remembers


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    sizes = (plan.width, *plan.actor_hidden, plan.action_dim)
    actor = init_layers(actor_key, sizes, plan.init, 0.01)
    width = plan.width + (plan.action_dim if plan.q == "network" else 0)
    critic = init_layers(critic_key, (width, *plan.critic_hidden, 1), plan.init, 1.0)
    if plan.tiling is not None:  # a linear function of tiles starts at 0
        actor, critic = jax.tree.map(jnp.zeros_like, (actor, critic))
    w = jax.tree.map(jnp.zeros_like, actor) if plan.q == "compatible" else ()
    return State(
        actor=actor,
        actor_opt=optimiser(numbers.actor_lr, plan, numbers).init(actor),
        critic=critic,
        critic_opt=optimiser(numbers.critic_lr, plan, numbers).init(critic),
        w=w,
        w_opt=optimiser(numbers.q_lr, plan, numbers).init(w),
        observed=running_init(plan.obs_dim),
    )


def optimiser(lr: Scalar, plan: Plan, numbers: Numbers) -> optax.GradientTransformation:
    if plan.optimiser == "sgd":
        return optax.sgd(lr)
    return adam(lr, numbers.adam_b1, numbers.adam_b2)


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


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    scale, shift = jnp.ones(plan.obs_dim), jnp.zeros(plan.obs_dim)  # no batch norm here
    return inputs_of(state, numbers), Actor(scale, shift, state.actor)


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """mu(s) of the learner as it stands."""
    actor = near(state.actor, obs, plan.tiling)
    return actor_mean(actor, obs, inputs_of(state, numbers), plan)


# --- one update -----------------------------------------------------------------------


def update(
    state: State,
    batch: Transitions,
    plan: Plan,
    numbers: Numbers,
    now: Moment | None = None,
) -> tuple[State, Metrics]:
    """One step of actor and critic; with several worlds the mean of theirs."""
    judge = {None: judged_by_v, "compatible": judged_by_compatible_q}.get(
        plan.q, judged_by_q_network
    )
    judged = judge(state, batch, inputs_of(state, numbers), plan, numbers)
    obs, plain = batch.obs, plan.optimiser == "sgd"
    tiling = plan.tiling if plain else None  # what Adam remembers moves every row
    moved = {}
    for name, lr, grad in (
        ("actor", numbers.actor_lr, judged.actor_grad),
        ("critic", numbers.critic_lr, judged.critic_grad),
        ("w", numbers.q_lr, judged.w_grad),
    ):
        step, own = optimiser(lr, plan, numbers), getattr(state, name)
        if not plain:
            grad = everywhere(grad, own, obs, plan.tiling)
        change, opt = step.update(grad, getattr(state, f"{name}_opt"))
        moved |= {name: add_near(own, change, obs, tiling), f"{name}_opt": opt}
    for name in () if plain else ("actor", "actor_opt"):
        moved[name] = jax.tree.map(
            lambda new, old: jnp.where(judged.pulled, new, old),
            moved[name],
            getattr(state, name),
        )
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(**moved, observed=observed)
    metrics = Metrics(
        value_loss=0.5 * jnp.mean(judged.delta**2, where=batch.mask),
        td_error=jnp.mean(judged.delta, where=batch.mask),
        positive_fraction=jnp.mean(judged.delta > 0, where=batch.mask),
        finite=jnp.bool_(True),
    )
    changed = [near(x, obs, tiling) for x in (new.actor, new.critic, new.w)]
    rest = new._replace(actor=[], critic=[], w=[])
    return new, metrics._replace(finite=all_finite((changed, rest, metrics)))


def played(batch: Transitions) -> Float[Array, " N"]:
    """1 / N for each step really played: a sum weighted by it is the mean."""
    return batch.mask / jnp.maximum(jnp.sum(batch.mask), 1)


def judged_by_v(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Judged:
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
    return Judged(delta, critic_grad, actor_grad, (), jnp.any(weight != 0))


def judged_by_compatible_q(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Judged:
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
    return Judged(delta, critic_grad, actor_grad, w_grad, jnp.bool_(True))


def judged_by_q_network(
    state: State, batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Judged:
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
    return Judged(delta, critic_grad, actor_grad, (), jnp.bool_(True))


CACLA = Algorithm(
    name="cacla",
    summary="online: toward an action that turned out better than expected",
    section="Sec. 3.1",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
)

CAC = CACLA._replace(
    name="cac",
    summary="online: CACLA, as far as the temporal difference says",
    section="Sec. 3.2",
)

SPG = CACLA._replace(
    name="spg",
    summary="online: toward better actions and away from worse ones",
    section="Sec. 2",
)

DPG = CACLA._replace(
    name="dpg",
    summary="online: up the gradient of Q in the action",
    section="Sec. 2",
)
