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
from penfac.algos.batch import (
    dealt,
    discounts_of,
    padded,
    returns_seen,
    scaled_rewards,
)
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_inputs,
    actor_mean,
    adam,
    all_finite,
    batch_norm_inputs,
    init_actor,
    only_with_batch_norm,
    running_inputs,
    value,
)
from penfac.algos.penfac_config import (
    EARLIER,
    Config,
    Numbers,
    Plan,
    check,
    collecting,
    numbers,
    plan,
    settled,
)
from penfac.core.actor import (
    actor_weight,
    beyond_limit,
    control_variate,
    likelihood_ratio,
    scale_by_rms,
    toward_loss,
)
from penfac.core.critic import explained_variance, value_loss
from penfac.core.noise import annealed
from penfac.core.normalise import (
    BatchStats,
    Running,
    batch_moments,
    batch_stats_init,
    batch_stats_update,
    normalise,
    running_init,
    running_update,
)
from penfac.core.returns import lambda_advantages, lambda_returns, td_errors
from penfac.core.trust_region import (
    action_distance,
    adapt_beta,
    on_target,
    printed_distance,
)
from penfac.nets import Layers, init_layers
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
    """One update from one batch that `state` itself played  (Sec. 5.2)."""
    critic_key, actor_key = jax.random.split(now.key)
    rates = jnp.asarray(annealed(1.0, numbers.rates_end, now.progress))
    inputs = running_inputs(state.observed, numbers.critic_running, numbers.obs_clip)
    x, x_next = normalise(batch.obs, *inputs), normalise(batch.next_obs, *inputs)
    judged = lambda critic: (value(critic, x, plan), value(critic, x_next, plan))  # noqa: E731

    returned = returns_seen(state.returned, batch, *judged(state.critic), numbers)
    batch = batch._replace(reward=scaled_rewards(returned, batch, numbers))
    critic, critic_opt, loss = fit_critic(
        state, x, x_next, batch, critic_key, rates, plan, numbers
    )
    v, v_next = judged(critic)
    advantage = advantages(v, v_next, batch, numbers)
    fit, limited = fit_actor(
        state, batch, advantage, now.sigma, actor_key, rates, plan, numbers
    )
    new = State(
        actor=fit.actor,
        actor_opt=fit.opt,
        critic=critic,
        critic_opt=critic_opt,
        beta=next_beta(fit, numbers),
        observed=running_update(state.observed, batch.obs, batch.mask),
        batch_stats=fit.batch_stats,
        returned=returned,
    )
    metrics = Metrics(
        value_loss=loss,
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
    return new, metrics._replace(finite=all_finite((new, metrics)))


def advantages(
    v: Float[Array, " N"],
    v_next: Float[Array, " N"],
    batch: Transitions,
    numbers: Numbers,
) -> Float[Array, " N"]:
    """lambda-advantages of the batch; 0 on padding  (Sec. 3.3)."""
    discount = discounts_of(batch, numbers)
    delta = jnp.where(batch.mask, td_errors(batch.reward, discount, v, v_next), 0)
    advantage = lambda_advantages(delta, discount, batch.last, numbers.lam)
    return jnp.where(batch.mask, advantage, 0)


def passed(step, carry, rows, mask, key: PRNGKeyArray, minibatches: int):
    """One pass over a batch: `step(carry, rows)` for each of its minibatches."""
    if minibatches == 1:
        return step(carry, rows)
    rows = padded(rows, minibatches)
    parts = dealt(key, padded(mask, minibatches), minibatches)

    def next_step(carry, part):
        return step(carry, jax.tree.map(lambda x: x[part], rows)), None

    return jax.lax.scan(next_step, carry, parts)[0]


# --- the critic -----------------------------------------------------------------------


def fit_critic(
    state: State,
    x: Float[Array, "N n"],
    x_next: Float[Array, "N n"],
    batch: Transitions,
    key: PRNGKeyArray,
    rates: Scalar,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Layers, optax.OptState, Scalar]:
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

    def refit(i, carry):
        critic = carry[0]
        v, v_next = value(critic, x, plan), value(critic, x_next, plan)
        target = lambda_returns(
            batch.reward, discount, batch.last, v, v_next, numbers.lam
        )
        rows = (x, target, batch.mask)
        keys = jax.random.fold_in(key, i)

        def one_pass(k, carry):
            key = jax.random.fold_in(keys, k)
            return passed(step, carry, rows, batch.mask, key, plan.minibatches)

        return jax.lax.fori_loop(0, numbers.critic_steps, one_pass, carry)

    start = (state.critic, state.critic_opt, jnp.zeros(()))
    return jax.lax.fori_loop(0, numbers.fitted_iterations, refit, start)


# --- the actor ------------------------------------------------------------------------


class Pull(NamedTuple):
    """What a fit moves the actor toward, a row a step: the same in all of its passes."""

    obs: Float[Array, "N n"]
    action: Float[Array, "N m"]
    mask: Bool[Array, " N"]
    mu_old: Float[Array, "N m"]
    weight: Float[Array, " N"]  # of the action that was played
    centre: Float[Array, " N"]  # of the control variate: the mean weight, or 0
    failed: Float[Array, " N"]  # of mu_old, where that action was no good


class Around(NamedTuple):
    """What else a step of the fit reads."""

    observed: Running
    sigma: Scalar
    rates: Scalar
    plan: Plan
    numbers: Numbers


class ActorFit(NamedTuple):
    """Where the actor's fit stands after k passes."""

    k: Int[Array, ""]
    stopped: Bool[Array, ""]
    actor: Actor
    opt: optax.OptState
    beta: Scalar
    distance: Scalar  # from mu_old, of the actor as it stands
    batch_stats: BatchStats


def fit_actor(
    state: State,
    batch: Transitions,
    advantage: Float[Array, " N"],
    sigma: Scalar,
    key: PRNGKeyArray,
    rates: Scalar,
    plan: Plan,
    numbers: Numbers,
) -> tuple[ActorFit, Scalar]:
    """Passes toward the good actions, held near the policy that played  (Sec. 5.2);
    and the share of samples that were at their limit in the end."""
    around = Around(state.observed, sigma, rates, plan, numbers)
    weight = pulling_weight(advantage, batch.mask, numbers)
    centre = numbers.centred * jnp.mean(weight, where=batch.mask)
    pull = Pull(
        batch.obs,
        batch.action,
        batch.mask,
        mu_old=mu(state, batch.obs, plan, numbers),  # D14: `state` played this
        weight=weight,
        centre=jnp.where(batch.mask, centre, 0),
        failed=jnp.where(batch.mask, numbers.hold_nonpositive * (advantage <= 0), 0),
    )
    # with nothing to move toward the actor rests
    passes = jnp.where(jnp.any(pull.weight != 0), numbers.actor_steps, 0)
    start = ActorFit(
        jnp.int32(0), jnp.bool_(False), state.actor, state.actor_opt, state.beta,
        jnp.zeros(()), state.batch_stats,
    )  # fmt: skip
    fit = jax.lax.while_loop(
        lambda fit: (fit.k < passes) & ~fit.stopped,
        lambda fit: improve(fit, pull, jax.random.fold_in(key, fit.k), around),
        start,
    )
    if plan.batch_norm:  # ... but batch norm still sees the batch
        seen = batch_stats_update(fit.batch_stats, batch.obs, batch.mask)
        rested = passes == 0
        stats = jax.tree.map(
            lambda new, old: jnp.where(rested, new, old), seen, fit.batch_stats
        )
        fit = fit._replace(batch_stats=stats)
    means, _ = forward(fit.actor, fit.batch_stats, pull, around)
    limited = jnp.mean(at_limit(means, pull, around), where=batch.mask)
    return fit._replace(distance=distance_to(pull, means, around)), limited


def improve(fit: ActorFit, pull: Pull, key: PRNGKeyArray, around: Around) -> ActorFit:
    """Adapt beta to how far the actor is, where it adapts within an update; then one
    pass over the batch  (Sec. 5.2)."""
    plan, numbers = around.plan, around.numbers
    means, _ = forward(fit.actor, fit.batch_stats, pull, around)
    distance = distance_to(pull, means, around)
    first = fit.k == 0
    adapted = adapted_beta(fit.beta, distance, numbers)
    beta = jnp.where(first | ~numbers.beta_each_step, fit.beta, adapted)
    settled = on_target(distance, numbers.d_target, numbers.beta_band)
    stop = numbers.early_stop & ~first & settled
    start = (fit.actor, fit.opt, fit.batch_stats)

    def step(carry, pull):
        actor, opt, stats = carry
        return step_actor(actor, opt, stats, pull, beta, around)

    actor, opt, stats = passed(step, start, pull, pull.mask, key, plan.minibatches)
    stepped = ActorFit(fit.k + 1, stop, actor, opt, beta, distance, stats)
    kept = fit._replace(stopped=stop, beta=beta, distance=distance)
    return jax.tree.map(lambda old, new: jnp.where(stop, old, new), kept, stepped)


def step_actor(
    actor: Actor,
    opt: optax.OptState,
    stats: BatchStats,
    pull: Pull,
    beta: Scalar,
    around: Around,
) -> tuple[Actor, optax.OptState, BatchStats]:
    """One step of Adam toward the good actions among these rows."""
    plan, numbers = around.plan, around.numbers
    means, pullback = forward(actor, stats, pull, around)
    free = 1.0 - at_limit(means, pull, around)
    hold = jnp.where(pull.mask, numbers.penalty * beta + pull.failed, 0.0)

    def loss(means):  # in this order `authors` and `paper` keep every bit they had
        centre = control_variate(means, pull.action, pull.mu_old, free * pull.centre)
        toward_good = toward_loss(means, pull.action, free * pull.weight)
        return centre + toward_good + toward_loss(means, pull.mu_old, hold)

    (grad,) = pullback(jax.grad(loss)(means))
    if plan.batch_norm:
        grad = only_with_batch_norm(grad, numbers.actor_batch_norm)
        stats = batch_stats_update(stats, pull.obs, pull.mask)
    change, opt = optimiser(around.rates * numbers.actor_lr, numbers).update(grad, opt)
    moved: Any = optax.apply_updates(actor, change)
    return moved, opt, stats


def forward(actor: Actor, stats: BatchStats, pull: Pull, around: Around):
    """mu(s) with running statistics, and the way back to theta."""
    plan, numbers = around.plan, around.numbers
    inputs = actor_inputs(around.observed, stats, plan, numbers)
    means, pullback = jax.vjp(
        lambda actor: actor_mean(
            actor, pull.obs, jacobian_inputs(pull, inputs, plan, numbers), plan
        ),
        actor,
    )
    if plan.batch_norm:  # batch statistics enter the Jacobian only (deviation D9)
        means = actor_mean(actor, pull.obs, inputs, plan)
    return means, pullback


def distance_to(pull: Pull, means: Float[Array, "N m"], around: Around) -> Scalar:
    """d_hat(mu_old, mu) over the batch, as the config measures it."""
    numbers = around.numbers
    distance = jnp.where(
        numbers.printed,
        printed_distance(pull.mu_old, means, pull.mask),
        action_distance(pull.mu_old, means, pull.mask),
    )
    return distance / jnp.where(numbers.by_sigma, around.sigma, 1.0)


def at_limit(
    means: Float[Array, "N m"], pull: Pull, around: Around
) -> Float[Array, " N"]:
    """1 for a sample that mu has followed far enough, else 0."""
    ratio = likelihood_ratio(means, pull.action, pull.mu_old, around.sigma)
    net = pull.weight - pull.centre
    beyond = beyond_limit(ratio, net, around.numbers.ratio_limit)
    return jnp.where(pull.mask & beyond, 1.0, 0.0)


def adapted_beta(beta: Scalar, distance: Scalar, numbers: Numbers) -> Scalar:
    return adapt_beta(
        beta, distance, numbers.d_target, numbers.beta_min, numbers.beta_max,
        numbers.beta_band, numbers.beta_factor,
    )  # fmt: skip


def next_beta(fit: ActorFit, numbers: Numbers) -> Scalar:
    """What the next update begins with."""
    ended = adapted_beta(fit.beta, fit.distance, numbers)
    beta = jnp.where(numbers.beta_each_step | (fit.k == 0), fit.beta, ended)
    return jnp.where(numbers.beta_keep, beta, numbers.beta_start)


def pulling_weight(
    advantage: Float[Array, " N"], mask: Bool[Array, " N"], numbers: Numbers
) -> Float[Array, " N"]:
    """How hard each action pulls mu(s): 0 on padding  (Eq. 6, 7, 8)."""
    scaled = scale_by_rms(advantage, mask)
    scaled = jnp.where(numbers.rms, scaled, advantage)
    return jnp.where(mask, actor_weight(scaled, numbers.rule), 0)


def jacobian_inputs(pull: Pull, inputs: Inputs, plan: Plan, numbers: Numbers) -> Inputs:
    """Inputs of the pass that is differentiated: batch statistics under batch norm."""
    if not plan.batch_norm:
        return inputs
    moments = batch_moments(pull.obs, pull.mask)
    return batch_norm_inputs(moments, inputs, numbers.actor_batch_norm)


PENFAC = Algorithm(
    name="penfac",
    summary="fitted actor-critic with the CAC update inside a trust region",
    section="Sec. 5.2",
    presets="penfac",
    config=Config,
    check=check,
    collecting=collecting,
    plan=plan,
    numbers=numbers,
    init=init,
    mu=mu,
    update=update,
    acting=acting,
    settled=settled,
    earlier_settings=EARLIER,
    earlier_arrays={
        f"state.returned.{key}": np.asarray(array)
        for key, array in running_init(1)._asdict().items()
    },
)

NFAC = PENFAC._replace(
    name="nfac",
    summary="fitted actor-critic with the CACLA update, no trust region",
    section="Sec. 3.3",
    overrides={"actor_update": "cacla", "trust_region": False},
)
