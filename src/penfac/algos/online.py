"""CACLA, CAC, SPG and DPG as they were first written: one step, one update  (Sec. 3, 4).

One update, from the step that was just played, every value taken before it moves:

    V                delta = R + gamma V(s') - V(s)
    critic           V toward R + gamma V(s')
    actor            CACLA: toward a if delta > 0  (Eq. 6);  CAC: as far as delta says
                     (Eq. 7);  SPG: away from a if delta < 0 too  (Eq. 1);
                     DPG: up the gradient of Q in a  (Eq. 3)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.near import add_near, everywhere, near
from penfac.algos.nets import init_layers
from penfac.algos.networks import (
    Actor,
    Inputs,
    adam,
    all_finite,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.online_critics import (
    State,
    actor_mean,
    gradients_by_compatible_q,
    gradients_by_q_network,
    gradients_by_v,
    inputs_of,
)
from penfac.core.normalise import running_init, running_update
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Metrics(NamedTuple):
    """One row of progress.csv: means over the steps since the last one."""

    value_loss: Scalar
    td_error: Scalar
    positive_fraction: Scalar
    finite: Bool[Array, ""]


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
    find_gradients = {
        None: gradients_by_v,
        "compatible": gradients_by_compatible_q,
    }.get(plan.q, gradients_by_q_network)
    gradients = find_gradients(state, batch, inputs_of(state, numbers), plan, numbers)
    obs, plain = batch.obs, plan.optimiser == "sgd"
    tiling = plan.tiling if plain else None  # what Adam remembers moves every row
    moved = {}
    for name, lr, grad in (
        ("actor", numbers.actor_lr, gradients.actor_grad),
        ("critic", numbers.critic_lr, gradients.critic_grad),
        ("w", numbers.q_lr, gradients.w_grad),
    ):
        step, own = optimiser(lr, plan, numbers), getattr(state, name)
        if not plain:
            grad = everywhere(grad, own, obs, plan.tiling)
        change, opt = step.update(grad, getattr(state, f"{name}_opt"))
        moved |= {name: add_near(own, change, obs, tiling), f"{name}_opt": opt}
    for name in () if plain else ("actor", "actor_opt"):
        moved[name] = jax.tree.map(
            lambda new, old: jnp.where(gradients.pulled, new, old),
            moved[name],
            getattr(state, name),
        )
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(**moved, observed=observed)
    metrics = Metrics(
        value_loss=0.5 * jnp.mean(gradients.delta**2, where=batch.mask),
        td_error=jnp.mean(gradients.delta, where=batch.mask),
        positive_fraction=jnp.mean(gradients.delta > 0, where=batch.mask),
        finite=jnp.bool_(True),
    )
    changed = [near(x, obs, tiling) for x in (new.actor, new.critic, new.w)]
    rest = new._replace(actor=[], critic=[], w=[])
    return new, metrics._replace(finite=all_finite((changed, rest, metrics)))


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
