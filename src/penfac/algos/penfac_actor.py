"""How PeNFAC moves its actor: passes toward the good actions, held near mu_old  (Sec. 5.2)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.batch import passed
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_inputs,
    actor_mean,
    adam,
    batch_norm_inputs,
    only_with_batch_norm,
    rule_of,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.core.actor import (
    actor_weight,
    beyond_limit,
    control_variate,
    likelihood_ratio,
    scale_by_rms,
    toward_loss,
)
from penfac.core.normalise import (
    BatchStats,
    Running,
    batch_moments,
    batch_stats_update,
)
from penfac.core.offpolicy import along, sized_as
from penfac.core.trust_region import (
    action_distance,
    adapt_beta,
    annealed_by_half,
    on_target,
    printed_distance,
)
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Pull(NamedTuple):
    """What a fit moves the actor toward, a row a step: the same in all of its passes."""

    obs: Float[Array, "N n"]
    action: Float[Array, "N m"]
    mask: Bool[Array, " N"]
    mu_old: Float[Array, "N m"]
    weight: Float[Array, " N"]  # of the action that was played
    centre: Float[Array, " N"]  # of the control variate: the mean weight, or 0
    failed: Float[Array, " N"]  # of mu_old, where that action was no good
    slope: Any = ()  # [N, m] DPG's part, if it has one


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


def at_progress(numbers: Numbers, progress: Scalar) -> Numbers:
    """With the d_target and the ratio_limit of this part of the run  (D35)."""
    limits = numbers.ratio_limit_start, numbers.ratio_limit
    shares = numbers.dpg_share_start, numbers.dpg_share
    return numbers._replace(
        dpg_share=annealed_by_half(*shares, progress),
        d_target=annealed_by_half(numbers.d_target_start, numbers.d_target, progress),
        ratio_limit=annealed_by_half(*limits, progress),
    )


def begun(
    actor: Actor, opt: optax.OptState, beta: Scalar, batch_stats: BatchStats
) -> ActorFit:
    """Before the first pass."""
    zero, no = jnp.int32(0), jnp.bool_(False)
    return ActorFit(zero, no, actor, opt, beta, jnp.zeros(()), batch_stats)


def pull_of(
    batch: Transitions,
    mu_old: Float[Array, "N m"],
    advantage: Float[Array, " N"],
    numbers: Numbers,
    rho: Float[Array, " N"] | None = None,
    steep: Float[Array, "N m"] | None = None,
) -> Pull:
    """What the advantages ask of the actor: of old steps as far as `rho` trusts them, and
    with DPG's share along the slopes of Q  (Sec. 5.2, D36)."""
    mask = batch.mask
    weight = pulling_weight(advantage, mask, numbers)
    if rho is None:
        centre = numbers.centred * jnp.mean(weight, where=mask)
    else:
        weight, total = rho * weight, jnp.maximum(jnp.sum(rho), 1)
        centre = rho * numbers.centred * jnp.sum(weight) / total
    failed = jnp.where(mask, numbers.nonpositive.hold * (advantage <= 0), 0)
    pull = Pull(
        batch.obs, batch.action, mask, mu_old,
        weight=weight, centre=jnp.where(mask, centre, 0), failed=failed,
    )  # fmt: skip
    if steep is None:
        return pull
    net = (pull.weight - pull.centre)[:, None] * (batch.action - mu_old)
    rest = 1 - numbers.dpg_share
    return pull._replace(
        weight=rest * pull.weight,
        centre=rest * pull.centre,
        slope=numbers.dpg_share * sized_as(steep, net, mask),
    )


def fit_actor(
    start: ActorFit, pull: Pull, key: PRNGKeyArray, around: Around
) -> tuple[ActorFit, Scalar]:
    """Passes toward the good actions, held near the policy that played  (Sec. 5.2);
    and the share of samples that were at their limit in the end."""
    plan, numbers = around.plan, around.numbers
    # with nothing to move toward the actor rests
    drawn = jnp.any(pull.weight != 0) | plan.slopes
    passes = jnp.where(drawn, numbers.actor_steps, 0)
    fit = jax.lax.while_loop(
        lambda fit: (fit.k < passes) & ~fit.stopped,
        lambda fit: improve(fit, pull, jax.random.fold_in(key, fit.k), around),
        start,
    )
    if plan.batch_norm:  # ... but batch norm still sees the batch
        seen = batch_stats_update(fit.batch_stats, pull.obs, pull.mask)
        rested = passes == 0
        stats = jax.tree.map(
            lambda new, old: jnp.where(rested, new, old), seen, fit.batch_stats
        )
        fit = fit._replace(batch_stats=stats)
    means, _ = forward(fit.actor, fit.batch_stats, pull, around)
    limited = jnp.mean(at_limit(means, pull, around), where=pull.mask)
    return fit._replace(distance=distance_to(pull, means, around)), limited


def improve(fit: ActorFit, pull: Pull, key: PRNGKeyArray, around: Around) -> ActorFit:
    """Adapt beta to how far the actor is, where it adapts within an update; then one
    pass over the batch  (Sec. 5.2)."""
    plan, numbers = around.plan, around.numbers

    def look() -> tuple[Scalar, Bool[Array, ""]]:
        means, _ = forward(fit.actor, fit.batch_stats, pull, around)
        distance = distance_to(pull, means, around)
        adapted = adapted_beta(fit.beta, distance, numbers)
        beta = jnp.where(numbers.beta_rule.step, adapted, fit.beta)
        settled = on_target(distance, numbers.d_target, numbers.beta_band)
        return beta, numbers.early_stop & settled

    # else a tenth of an update would go into distances that nobody asks for
    asked = (fit.k > 0) & (numbers.beta_rule.step | numbers.early_stop)
    beta, stop = jax.lax.cond(asked, look, lambda: (fit.beta, jnp.bool_(False)))
    start = (fit.actor, fit.opt, fit.batch_stats)

    def step(carry, pull):
        actor, opt, stats = carry
        return step_actor(actor, opt, stats, pull, beta, around)

    actor, opt, stats = passed(step, start, pull, pull.mask, key, plan.minibatches)
    stepped = fit._replace(
        k=fit.k + 1, actor=actor, opt=opt, beta=beta, batch_stats=stats
    )
    kept = fit._replace(stopped=stop, beta=beta)
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
        total = centre + toward_good + toward_loss(means, pull.mu_old, hold)
        return total + along(means, pull.slope) if plan.slopes else total

    (grad,) = pullback(jax.grad(loss)(means))
    if plan.batch_norm:
        grad = only_with_batch_norm(grad, numbers.normalise_actor.batch_norm)
        stats = batch_stats_update(stats, pull.obs, pull.mask)
    rate = around.rates * numbers.actor_lr
    change, opt = adam(rate, numbers.adam_b1, numbers.adam_b2).update(grad, opt)
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
        numbers.distance.printed,
        printed_distance(pull.mu_old, means, pull.mask),
        action_distance(pull.mu_old, means, pull.mask),
    )
    return distance / jnp.where(numbers.distance.sigma, around.sigma, 1.0)


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
    beta = jnp.where(numbers.beta_rule.step | (fit.k == 0), fit.beta, ended)
    return jnp.where(numbers.beta_keep, beta, numbers.beta_start)


def pulling_weight(
    advantage: Float[Array, " N"], mask: Bool[Array, " N"], numbers: Numbers
) -> Float[Array, " N"]:
    """How hard each action pulls mu(s): 0 on padding  (Eq. 6, 7, 8)."""
    scaled = scale_by_rms(advantage, mask)
    scaled = jnp.where(numbers.advantage_scale.rms, scaled, advantage)
    rule = rule_of(numbers.actor_update)
    return jnp.where(mask, actor_weight(scaled, rule, numbers.softness), 0)


def jacobian_inputs(pull: Pull, inputs: Inputs, plan: Plan, numbers: Numbers) -> Inputs:
    """Inputs of the pass that is differentiated: batch statistics under batch norm."""
    if not plan.batch_norm:
        return inputs
    moments = batch_moments(pull.obs, pull.mask)
    return batch_norm_inputs(moments, inputs, numbers.normalise_actor.batch_norm)
