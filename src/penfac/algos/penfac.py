"""NFAC, PeNFAC and every ablation between them: one algorithm, one config  (Sec. 3.3, 5.2).

One update, from a batch that the incoming policy played:

    fit the critic   fitted_iterations x (fresh lambda-return targets, critic_steps of Adam)
    advantages       lambda-advantages under the fitted critic
    fit the actor    actor_steps x (adapt beta; one step of Adam toward the good actions,
                     held near mu_old with weight beta)
    remember         advance the observation statistics
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.batch import discounts_of
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
    Config,
    Numbers,
    Plan,
    check,
    collecting,
    numbers,
    plan,
)
from penfac.core.actor import actor_weight, scale_by_rms, toward_loss
from penfac.core.critic import explained_variance, value_loss
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


class Metrics(NamedTuple):
    """One row of progress.csv."""

    value_loss: Scalar
    explained_variance: Scalar
    positive_fraction: Scalar
    advantage_rms: Scalar
    distance: Scalar
    beta: Scalar
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
    state: State,
    batch: Transitions,
    plan: Plan,
    numbers: Numbers,
    now: Moment | None = None,
) -> tuple[State, Metrics]:
    """One update from one batch that `state` itself played  (Sec. 5.2).

    Nothing in it is random, and nothing depends on how far the run has come.
    """
    inputs = running_inputs(state.observed, numbers.critic_running, numbers.obs_clip)
    x, x_next = normalise(batch.obs, *inputs), normalise(batch.next_obs, *inputs)
    critic, critic_opt, loss = fit_critic(state, x, x_next, batch, plan, numbers)
    v, v_next = value(critic, x, plan), value(critic, x_next, plan)
    advantage = advantages(v, v_next, batch, numbers)
    fit = fit_actor(state, batch, advantage, plan, numbers)
    new = State(
        actor=fit.actor,
        actor_opt=fit.opt,
        critic=critic,
        critic_opt=critic_opt,
        beta=jnp.where(numbers.beta_keep, fit.beta, numbers.beta_start),
        observed=running_update(state.observed, batch.obs, batch.mask),
        batch_stats=fit.batch_stats,
    )
    metrics = Metrics(
        value_loss=loss,
        explained_variance=explained_variance(v, v + advantage, batch.mask),
        positive_fraction=jnp.mean(advantage > 0, where=batch.mask),
        advantage_rms=jnp.sqrt(jnp.mean(advantage**2, where=batch.mask)),
        distance=fit.distance,
        beta=fit.beta,
        actor_steps=fit.k,
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


def fit_critic(
    state: State,
    x: Float[Array, "N n"],
    x_next: Float[Array, "N n"],
    batch: Transitions,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Layers, optax.OptState, Scalar]:
    """Fitted value iteration: fresh targets, some steps of Adam, repeated  (Sec. 3.3)."""
    step_critic = optimiser(numbers.critic_lr, numbers)
    discount = discounts_of(batch, numbers)

    def refit(_, carry):
        critic, opt, _ = carry
        v, v_next = value(critic, x, plan), value(critic, x_next, plan)
        target = lambda_returns(
            batch.reward, discount, batch.last, v, v_next, numbers.lam
        )

        def step(_, carry):
            critic, opt, _ = carry
            loss, grad = jax.value_and_grad(
                lambda c: value_loss(value(c, x, plan), target, batch.mask)
            )(critic)
            change, opt = step_critic.update(grad, opt)
            return optax.apply_updates(critic, change), opt, loss

        return jax.lax.fori_loop(0, numbers.critic_steps, step, (critic, opt, loss0))

    loss0 = jnp.zeros(())
    start = (state.critic, state.critic_opt, loss0)
    return jax.lax.fori_loop(0, numbers.fitted_iterations, refit, start)


class Pull(NamedTuple):
    """What a fit moves the actor toward: the same in all of its steps."""

    batch: Transitions
    observed: Running
    mu_old: Float[Array, "N m"]
    weight: Float[Array, " N"]  # of the action that was played
    failed: Float[Array, " N"]  # of mu_old, where that action was no good


class ActorFit(NamedTuple):
    """Where the actor's fit stands after k steps."""

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
    plan: Plan,
    numbers: Numbers,
) -> ActorFit:
    """Adam steps toward the good actions, held near the policy that played  (Sec. 5.2)."""
    pull = Pull(
        batch,
        state.observed,
        mu_old=mu(state, batch.obs, plan, numbers),  # D14: `state` played this
        weight=pulling_weight(advantage, batch.mask, numbers),
        failed=numbers.hold_nonpositive * (advantage <= 0),
    )
    # with nothing to move toward the actor rests
    steps = jnp.where(jnp.any(pull.weight != 0), numbers.actor_steps, 0)
    start = ActorFit(
        jnp.int32(0), jnp.bool_(False), state.actor, state.actor_opt, state.beta,
        jnp.zeros(()), state.batch_stats,
    )  # fmt: skip
    fit = jax.lax.while_loop(
        lambda fit: (fit.k < steps) & ~fit.stopped,
        lambda fit: improve(fit, pull, plan, numbers),
        start,
    )
    if plan.batch_norm:  # ... but batch norm still sees the batch
        seen = batch_stats_update(fit.batch_stats, batch.obs, batch.mask)
        rested = steps == 0
        stats = jax.tree.map(
            lambda new, old: jnp.where(rested, new, old), seen, fit.batch_stats
        )
        fit = fit._replace(batch_stats=stats)
    return fit._replace(distance=moved(fit, pull, plan, numbers)[2])


def improve(fit: ActorFit, pull: Pull, plan: Plan, numbers: Numbers) -> ActorFit:
    """Adapt beta to how far the actor is; then one step of Adam  (Sec. 5.2)."""
    batch, (means, pullback, distance) = pull.batch, moved(fit, pull, plan, numbers)
    first = fit.k == 0
    adapted = adapt_beta(
        fit.beta, distance, numbers.d_target, numbers.beta_min, numbers.beta_max,
        numbers.beta_band, numbers.beta_factor,
    )  # fmt: skip
    beta = jnp.where(first, fit.beta, adapted)
    settled = on_target(distance, numbers.d_target, numbers.beta_band)
    stop = numbers.early_stop & ~first & settled
    hold = jnp.where(batch.mask, numbers.penalty * beta + pull.failed, 0.0)

    def loss(means):
        toward_good = toward_loss(means, batch.action, pull.weight)
        return toward_good + toward_loss(means, pull.mu_old, hold)

    (grad,) = pullback(jax.grad(loss)(means))
    if plan.batch_norm:
        grad = only_with_batch_norm(grad, numbers.actor_batch_norm)
    change, opt = optimiser(numbers.actor_lr, numbers).update(grad, fit.opt)
    stats = fit.batch_stats
    if plan.batch_norm:
        stats = batch_stats_update(stats, batch.obs, batch.mask)
    actor: Any = optax.apply_updates(fit.actor, change)
    stepped = ActorFit(fit.k + 1, stop, actor, opt, beta, distance, stats)
    kept = fit._replace(stopped=stop, beta=beta, distance=distance)
    return jax.tree.map(lambda old, new: jnp.where(stop, old, new), kept, stepped)


def moved(fit: ActorFit, pull: Pull, plan: Plan, numbers: Numbers):
    """mu(s) with running statistics, the way back to theta, and how far mu_old is."""
    batch = pull.batch
    inputs = actor_inputs(pull.observed, fit.batch_stats, plan, numbers)
    means, pullback = jax.vjp(
        lambda actor: actor_mean(
            actor, batch.obs, jacobian_inputs(batch, inputs, plan, numbers), plan
        ),
        fit.actor,
    )
    if plan.batch_norm:  # batch statistics enter the Jacobian only (deviation D9)
        means = actor_mean(fit.actor, batch.obs, inputs, plan)
    distance = jnp.where(
        numbers.printed,
        printed_distance(pull.mu_old, means, batch.mask),
        action_distance(pull.mu_old, means, batch.mask),
    )
    return means, pullback, distance


def pulling_weight(
    advantage: Float[Array, " N"], mask: Bool[Array, " N"], numbers: Numbers
) -> Float[Array, " N"]:
    """How hard each action pulls mu(s): 0 on padding  (Eq. 6, 7, 8)."""
    scaled = scale_by_rms(advantage, mask)
    scaled = jnp.where(numbers.rms, scaled, advantage)
    return jnp.where(mask, actor_weight(scaled, numbers.rule), 0)


def jacobian_inputs(
    batch: Transitions, inputs: Inputs, plan: Plan, numbers: Numbers
) -> Inputs:
    """Inputs of the pass that is differentiated: batch statistics under batch norm."""
    if not plan.batch_norm:
        return inputs
    moments = batch_moments(batch.obs, batch.mask)
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
)

NFAC = PENFAC._replace(
    name="nfac",
    summary="fitted actor-critic with the CACLA update, no trust region",
    section="Sec. 3.3",
    overrides={"actor_update": "cacla", "trust_region": False},
)
