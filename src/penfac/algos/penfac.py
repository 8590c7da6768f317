"""NFAC, PeNFAC and every ablation between them: one algorithm, one config  (Sec. 3.3, 5.2).

One update, from a batch that the incoming policy played:

    scale            rewards in standard deviations of the return
    fit the critic   fitted_iterations x (fresh lambda-return targets, critic_steps passes)
    advantages       lambda-advantages under the fitted critic
    fit the actor    actor_steps passes (toward the good actions, held near mu_old with
                     weight beta)
    remember         advance the statistics of observations and returns

A pass goes over the batch in fresh minibatches, one step of Adam each. With one minibatch
it is a single step on the whole batch, as in the paper.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.batch import discounts_of, passed, returns_seen, scaled_rewards
from penfac.algos.nets import Layers, init_layers
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_inputs,
    actor_mean,
    adam,
    all_finite,
    init_actor,
    running_inputs,
    value,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.penfac_actor import (
    ActorFit,
    Around,
    at_progress,
    begun,
    fit_actor,
    next_beta,
    pull_of,
)
from penfac.algos.penfac_past import backed_up, past_init, reused
from penfac.algos.penfac_slope import fitted_slope, slope_init, slopes
from penfac.core.critic import explained_variance, value_loss
from penfac.core.noise import annealed_late
from penfac.core.normalise import (
    BatchStats,
    Running,
    batch_stats_init,
    normalise,
    running_init,
    running_update,
)
from penfac.core.offpolicy import of_the_action
from penfac.core.returns import td_errors
from penfac.types import Transitions

Scalar = Float[Array, ""]


class State(NamedTuple):
    """Everything learning carries from one update to the next."""

    actor: Actor
    actor_opt: optax.OptState
    critic: Layers
    critic_opt: optax.OptState
    beta: Scalar
    observed: Running
    batch_stats: BatchStats
    returned: Running  # of returns, to divide rewards by
    past: Any = ()  # the batches before, if an update learns from them too
    slope: Any = ()  # of Q in the action, if DPG has a share


class Metrics(NamedTuple):
    """One row of progress.csv."""

    value_loss: Scalar
    explained_variance: Scalar
    positive_fraction: Scalar
    advantage_rms: Scalar
    distance: Scalar
    distance_ratio: Scalar  # to d_target
    limited_fraction: Scalar
    beta: Scalar
    actor_epochs: Int[Array, ""]
    actor_steps: Int[Array, ""]
    finite: Bool[Array, ""]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    n, actor = plan.obs_dim, init_actor(actor_key, plan)
    critic = init_layers(critic_key, (n, *plan.critic_hidden, 1), plan.init, 1.0)
    return State(
        actor=actor,
        actor_opt=optimiser(numbers.actor_lr, numbers).init(actor),
        critic=critic,
        critic_opt=optimiser(numbers.critic_lr, numbers).init(critic),
        beta=numbers.beta_start,
        observed=running_init(n),
        batch_stats=batch_stats_init(n),
        returned=running_init(1),
        past=past_init(plan),
        slope=slope_init(jax.random.fold_in(critic_key, 1), plan, numbers),
    )


def optimiser(lr: Scalar, numbers: Numbers) -> optax.GradientTransformation:
    return adam(lr, numbers.adam_b1, numbers.adam_b2)


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    inputs = actor_inputs(state.observed, state.batch_stats, plan, numbers)
    return inputs, state.actor


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """mu(s) of the learner as it stands."""
    inputs, actor = acting(state, plan, numbers)
    return actor_mean(actor, obs, inputs, plan)


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> tuple[State, Metrics]:
    """One update from one batch that `state` itself played, and on request from those
    before it  (Sec. 5.2)."""
    critic_key, actor_key = jax.random.split(now.key)
    numbers = at_progress(numbers, now.progress)
    rates = jnp.asarray(annealed_late(1.0, numbers.rates_end, now.progress))
    inputs = running_inputs(
        state.observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    played, mean_of = batch, lambda obs: mu(state, obs, plan, numbers)
    batch, mu_old, rho, past = reused(state.past, batch, mean_of, now.sigma)  # D14
    x, x_next = normalise(batch.obs, *inputs), normalise(batch.next_obs, *inputs)
    judged = lambda critic: (value(critic, x, plan), value(critic, x_next, plan))  # noqa: E731

    start = CriticFit(
        state.critic, state.critic_opt, jnp.zeros(()), *judged(state.critic)
    )
    v, v_next = (v[: len(played.reward)] for v in (start.v, start.v_next))
    returned = returns_seen(state.returned, played, v, v_next, numbers)
    batch = batch._replace(reward=scaled_rewards(returned, batch, numbers))
    critic = fit_critic(start, x, x_next, batch, critic_key, rates, plan, numbers, rho)
    advantage = advantages(critic.v, critic.v_next, batch, numbers, rho)
    around = Around(state.observed, now.sigma, rates, plan, numbers)
    slope = fitted_slope(state.slope, x, batch, advantage, critic_key, around)
    steep = slopes(slope, x, mu_old, plan) if plan.slopes else None
    pull = pull_of(batch, mu_old, advantage, numbers, rho, steep)
    start = begun(state.actor, state.actor_opt, state.beta, state.batch_stats)
    fit, limited = fit_actor(start, pull, actor_key, around)
    new = State(
        actor=fit.actor,
        actor_opt=fit.opt,
        critic=critic.critic,
        critic_opt=critic.opt,
        beta=next_beta(fit, numbers),
        observed=running_update(state.observed, played.obs, played.mask),
        batch_stats=fit.batch_stats,
        returned=returned,
        past=past,
        slope=slope,
    )
    metrics = told(critic, advantage, batch, fit, limited, plan, numbers)
    return new, metrics._replace(finite=all_finite((new, metrics)))


def told(
    critic: "CriticFit", advantage: Float[Array, " N"], batch: Transitions,
    fit: ActorFit, limited: Scalar, plan: Plan, numbers: Numbers,
) -> Metrics:  # fmt: skip
    """What an update reports of its fits."""
    v = critic.v
    return Metrics(
        value_loss=critic.loss,
        explained_variance=explained_variance(v, v + advantage, batch.mask),
        positive_fraction=jnp.mean(advantage > 0, where=batch.mask),
        advantage_rms=jnp.sqrt(jnp.mean(advantage**2, where=batch.mask)),
        distance=fit.distance,
        distance_ratio=fit.distance / numbers.d_target,
        limited_fraction=limited,
        beta=fit.beta,
        actor_epochs=fit.k,
        actor_steps=fit.k * plan.minibatches,
        finite=jnp.bool_(True),
    )


def advantages(
    v: Float[Array, " N"],
    v_next: Float[Array, " N"],
    batch: Transitions,
    numbers: Numbers,
    rho: Float[Array, " N"] | None = None,
) -> Float[Array, " N"]:
    """lambda-advantages of the batch; 0 on padding  (Sec. 3.3)."""
    discount = discounts_of(batch, numbers)
    delta = jnp.where(batch.mask, td_errors(batch.reward, discount, v, v_next), 0)
    advantage = backed_up(delta, discount, batch.last, numbers.lam, rho)
    if rho is not None:
        advantage = of_the_action(advantage, delta, rho)
    return jnp.where(batch.mask, advantage, 0)


# --- the critic -----------------------------------------------------------------------


class CriticFit(NamedTuple):
    """Where the critic's fit stands, and its values of the batch."""

    critic: Layers
    opt: optax.OptState
    loss: Scalar
    v: Float[Array, " N"]
    v_next: Float[Array, " N"]


def fit_critic(
    start: CriticFit,
    x: Float[Array, "N n"],
    x_next: Float[Array, "N n"],
    batch: Transitions,
    key: PRNGKeyArray,
    rates: Scalar,
    plan: Plan,
    numbers: Numbers,
    rho: Float[Array, " N"] | None = None,
) -> CriticFit:
    """Fitted value iteration: fresh targets, some passes of Adam, repeated  (Sec. 3.3)."""
    step_critic = optimiser(rates * numbers.critic_lr, numbers)
    discount = discounts_of(batch, numbers)

    def step(carry, rows):
        critic, opt, _ = carry
        x, target, mask = rows
        loss, grad = jax.value_and_grad(
            lambda c: value_loss(value(c, x, plan), target, mask)
        )(critic)
        change, opt = step_critic.update(grad, opt)
        return optax.apply_updates(critic, change), opt, loss

    def refit(i, fit):
        delta = td_errors(batch.reward, discount, fit.v, fit.v_next)
        target = fit.v + backed_up(delta, discount, batch.last, numbers.lam, rho)
        rows = (x, target, batch.mask)
        keys = jax.random.fold_in(key, i)

        def one_pass(k, carry):
            key = jax.random.fold_in(keys, k)
            return passed(step, carry, rows, batch.mask, key, plan.minibatches)

        now = fit.critic, fit.opt, fit.loss
        critic, opt, loss = jax.lax.fori_loop(0, numbers.critic_steps, one_pass, now)
        v, v_next = value(critic, x, plan), value(critic, x_next, plan)
        return CriticFit(critic, opt, loss, v, v_next)

    return jax.lax.fori_loop(0, numbers.fitted_iterations, refit, start)


PENFAC = Algorithm(
    name="penfac",
    summary="fitted actor-critic with the CAC update inside a trust region",
    section="Sec. 5.2",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
    earlier_arrays={  # `running_init(1)`; an import computes nothing
        "state.returned.seen": np.zeros((), np.float32),
        "state.returned.mean": np.zeros(1, np.float32),
        "state.returned.m2": np.zeros(1, np.float32),
    },
)

NFAC = PENFAC._replace(
    name="nfac",
    summary="fitted actor-critic with the CACLA update, no trust region",
    section="Sec. 3.3",
)

OFFPENFAC = PENFAC._replace(
    name="offpenfac",
    summary="PeNFAC that learns from its last batches too, with a share of DPG",
    section="Sec. 7, future work",
)
