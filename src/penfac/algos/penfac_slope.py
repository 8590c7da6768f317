"""The slope of Q in the action, for a share of DPG's step  (Eq. 3; Sec. 7, D36).

PeNFAC has no Q. Here a network fits the advantages of the rows it has, V taken away: its
slope in the action is Q's.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from penfac.algos.batch import passed
from penfac.algos.nets import Layers, init_layers
from penfac.algos.networks import adam, value
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.penfac_actor import Around
from penfac.core.actor import scale_by_rms
from penfac.core.critic import value_loss
from penfac.types import Transitions


class SlopeFit(NamedTuple):
    """A network of (observation, action), and its Adam."""

    layers: Layers
    opt: optax.OptState


def slope_init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> Any:
    """Nothing if DPG has no share."""
    if not plan.slopes:
        return ()
    sizes = (plan.obs_dim + plan.action_dim, *plan.critic_hidden, 1)
    layers = init_layers(key, sizes, plan.init, 1.0)
    step = adam(numbers.critic_lr, numbers.adam_b1, numbers.adam_b2)
    return SlopeFit(layers, step.init(layers))


def fitted_slope(
    fit: Any,
    x: Float[Array, "N n"],
    batch: Transitions,
    advantage: Float[Array, " N"],
    key: PRNGKeyArray,
    around: Around,
) -> Any:
    """As many passes as the critic takes, toward the advantages in units of their rms."""
    plan, numbers = around.plan, around.numbers
    if not plan.slopes:
        return fit
    step_fit = adam(around.rates * numbers.critic_lr, numbers.adam_b1, numbers.adam_b2)
    inputs = jnp.concatenate([x, batch.action], axis=-1)
    rows = (inputs, scale_by_rms(advantage, batch.mask), batch.mask)

    def step(fit, rows):
        inputs, target, mask = rows
        loss = lambda layers: value_loss(value(layers, inputs, plan), target, mask)  # noqa: E731
        change, opt = step_fit.update(jax.grad(loss)(fit.layers), fit.opt)
        layers: Any = optax.apply_updates(fit.layers, change)
        return SlopeFit(layers, opt)

    def one_pass(k, fit):
        # the critic's passes took the keys from 0 on
        pass_key = jax.random.fold_in(key, k + 2**20)
        return passed(step, fit, rows, batch.mask, pass_key, plan.minibatches)

    passes = numbers.fitted_iterations * numbers.critic_steps
    return jax.lax.fori_loop(0, passes, one_pass, fit)


def slopes(
    fit: SlopeFit, x: Float[Array, "N n"], mean: Float[Array, "N m"], plan: Plan
) -> Float[Array, "N m"]:
    """grad_a Q(s, mu(s)) at each row."""

    def total(mean):
        return jnp.sum(value(fit.layers, jnp.concatenate([x, mean], axis=-1), plan))

    return jax.grad(total)(mean)
