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

from penfac.algos.base import Algorithm
from penfac.algos.penfac_config import Config, Numbers, Plan, check, numbers, plan
from penfac.core.actor import actor_weight, scale_by_rms, toward_loss
from penfac.core.critic import explained_variance, value_loss
from penfac.core.normalise import (
    BATCH_NORM_EPS,
    BatchStats,
    Running,
    batch_moments,
    batch_stats_init,
    batch_stats_moments,
    batch_stats_update,
    normalise,
    running_init,
    running_moments,
    running_update,
)
from penfac.core.returns import (
    discounts,
    lambda_advantages,
    lambda_returns,
    td_errors,
)
from penfac.core.trust_region import (
    action_distance,
    adapt_beta,
    on_target,
    printed_distance,
)
from penfac.nets import Layers, init_layers, mlp
from penfac.policy import PolicyWeights
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Actor(NamedTuple):
    """mu_theta. scale and shift belong to batch norm and stay 1 and 0 without it."""

    scale: Float[Array, " n"]
    shift: Float[Array, " n"]
    layers: Layers


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


class Inputs(NamedTuple):
    """How an observation enters a network."""

    mean: Float[Array, " n"]
    std: Float[Array, " n"]
    clip: Scalar


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    n, m = plan.obs_dim, plan.action_dim
    layers = init_layers(actor_key, (n, *plan.actor_hidden, m), plan.init, 0.01)
    actor = Actor(jnp.ones(n), jnp.zeros(n), layers)
    critic = init_layers(critic_key, (n, *plan.critic_hidden, 1), plan.init, 1.0)
    return State(
        actor=actor,
        actor_opt=adam(numbers.actor_lr, numbers).init(actor),
        critic=critic,
        critic_opt=adam(numbers.critic_lr, numbers).init(critic),
        beta=numbers.beta_start,
        observed=running_init(n),
        batch_stats=batch_stats_init(n),
    )


def adam(lr: Scalar, numbers: Numbers) -> optax.GradientTransformation:
    # in float32 throughout (D15)
    return optax.adam(lr, b1=numbers.adam_b1, b2=numbers.adam_b2, eps=1e-8)  # pyright: ignore[reportArgumentType]


# --- networks -------------------------------------------------------------------------


def running_inputs(observed: Running, on: Bool[Array, ""], clip: Scalar) -> Inputs:
    """The running normaliser, or the raw observation where it is off."""
    mean, std = running_moments(observed)
    return Inputs(
        jnp.where(on, mean, 0), jnp.where(on, std, 1), jnp.where(on, clip, jnp.inf)
    )


def batch_norm_inputs(moments, otherwise: Inputs, on: Bool[Array, ""]) -> Inputs:
    """Batch norm with the given (mean, variance), where it is on."""
    mean, variance = moments
    return Inputs(
        jnp.where(on, mean, otherwise.mean),
        jnp.where(on, jnp.sqrt(variance + BATCH_NORM_EPS), otherwise.std),
        jnp.where(on, jnp.inf, otherwise.clip),
    )


def actor_inputs(
    observed: Running, batch_stats: BatchStats, plan: Plan, numbers: Numbers
) -> Inputs:
    """What acting, mu_old and the distance see: running statistics always."""
    inputs = running_inputs(observed, numbers.actor_running, numbers.obs_clip)
    if plan.batch_norm:
        moments = batch_stats_moments(batch_stats)
        inputs = batch_norm_inputs(moments, inputs, numbers.actor_batch_norm)
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
    """V(s), on observations that are normalised already."""
    return mlp(critic, x, plan.activation)[..., 0]


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """mu(s) of the learner as it stands."""
    inputs = actor_inputs(state.observed, state.batch_stats, plan, numbers)
    return actor_mean(state.actor, obs, inputs, plan)


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers
) -> tuple[State, Metrics]:
    """One update from one batch that `state` itself played  (Sec. 5.2)."""
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


def all_finite(tree) -> Bool[Array, ""]:
    """One flag for a whole tree: the divergence guard."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def advantages(
    v: Float[Array, " N"],
    v_next: Float[Array, " N"],
    batch: Transitions,
    numbers: Numbers,
) -> Float[Array, " N"]:
    """lambda-advantages of the batch; 0 on padding  (Sec. 3.3)."""
    discount = discounts(
        batch.terminated, batch.truncated, numbers.gamma, numbers.bootstrap
    )
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
    optimiser = adam(numbers.critic_lr, numbers)
    discount = discounts(
        batch.terminated, batch.truncated, numbers.gamma, numbers.bootstrap
    )

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
            change, opt = optimiser.update(grad, opt)
            return optax.apply_updates(critic, change), opt, loss

        return jax.lax.fori_loop(0, numbers.critic_steps, step, (critic, opt, loss0))

    loss0 = jnp.zeros(())
    start = (state.critic, state.critic_opt, loss0)
    return jax.lax.fori_loop(0, numbers.fitted_iterations, refit, start)


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
    optimiser = adam(numbers.actor_lr, numbers)
    mu_old = mu(state, batch.obs, plan, numbers)  # D14: `state` played this
    weight = pulling_weight(advantage, batch.mask, numbers)
    failed = numbers.hold_nonpositive * (advantage <= 0)

    def moved(actor, stats):
        """mu(s) with running statistics, the way back to theta, and the distance."""
        inputs = actor_inputs(state.observed, stats, plan, numbers)
        means, pullback = jax.vjp(
            lambda a: actor_mean(
                a, batch.obs, jacobian_inputs(batch, inputs, plan, numbers), plan
            ),
            actor,
        )
        if plan.batch_norm:  # batch statistics enter the Jacobian only (deviation D9)
            means = actor_mean(actor, batch.obs, inputs, plan)
        distance = jnp.where(
            numbers.printed,
            printed_distance(mu_old, means, batch.mask),
            action_distance(mu_old, means, batch.mask),
        )
        return means, pullback, distance

    def improve(fit: ActorFit) -> ActorFit:
        means, pullback, distance = moved(fit.actor, fit.batch_stats)
        first = fit.k == 0
        limits = (numbers.beta_min, numbers.beta_max)
        adapted = adapt_beta(fit.beta, distance, numbers.d_target, *limits)
        beta = jnp.where(first, fit.beta, adapted)
        stop = numbers.early_stop & ~first & on_target(distance, numbers.d_target)
        hold = jnp.where(batch.mask, numbers.penalty * beta + failed, 0.0)

        def loss(means):
            toward_good = toward_loss(means, batch.action, weight)
            return toward_good + toward_loss(means, mu_old, hold)

        (grad,) = pullback(jax.grad(loss)(means))
        if plan.batch_norm:
            grad = only_with_batch_norm(grad, numbers.actor_batch_norm)
        change, opt = optimiser.update(grad, fit.opt)
        stats = fit.batch_stats
        if plan.batch_norm:
            stats = batch_stats_update(stats, batch.obs, batch.mask)
        actor: Any = optax.apply_updates(fit.actor, change)
        stepped = ActorFit(fit.k + 1, stop, actor, opt, beta, distance, stats)
        kept = fit._replace(stopped=stop, beta=beta, distance=distance)
        return jax.tree.map(lambda old, new: jnp.where(stop, old, new), kept, stepped)

    # with nothing to move toward the actor rests
    steps = jnp.where(jnp.any(weight != 0), numbers.actor_steps, 0)
    zero = jnp.zeros(())
    start = ActorFit(
        jnp.int32(0), jnp.bool_(False), state.actor, state.actor_opt, state.beta, zero,
        state.batch_stats,
    )  # fmt: skip
    fit = jax.lax.while_loop(lambda f: (f.k < steps) & ~f.stopped, improve, start)
    if plan.batch_norm:  # ... but batch norm still sees the batch
        seen = batch_stats_update(fit.batch_stats, batch.obs, batch.mask)
        rested = steps == 0
        stats = jax.tree.map(
            lambda new, old: jnp.where(rested, new, old), seen, fit.batch_stats
        )
        fit = fit._replace(batch_stats=stats)
    return fit._replace(distance=moved(fit.actor, fit.batch_stats)[2])


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


def only_with_batch_norm(grad: Actor, on: Bool[Array, ""]) -> Actor:
    """scale and shift stay where they are when this learner has no batch norm."""
    return grad._replace(
        scale=jnp.where(on, grad.scale, 0), shift=jnp.where(on, grad.shift, 0)
    )


# --- the policy that leaves -----------------------------------------------------------


def policy(state: State, plan: Plan, numbers: Numbers) -> PolicyWeights:
    """mu as numpy arrays: what the host collector plays and what is deployed."""
    inputs = actor_inputs(state.observed, state.batch_stats, plan, numbers)
    inputs, actor = jax.device_get((inputs, state.actor))
    return PolicyWeights(
        mean=inputs.mean,
        std=inputs.std,
        clip=float(inputs.clip),
        scale=actor.scale,
        shift=actor.shift,
        layers=actor.layers,
        activation=plan.activation,
        output=plan.actor_output,
    )


PENFAC = Algorithm(
    name="penfac",
    summary="fitted actor-critic with the CAC update inside a trust region",
    section="5.2",
    config=Config,
    check=check,
    plan=plan,
    numbers=numbers,
    init=init,
    mu=mu,
    update=update,
    policy=policy,
    overrides={},
)

NFAC = PENFAC._replace(
    name="nfac",
    summary="fitted actor-critic with the CACLA update, no trust region",
    section="3.3",
    overrides={"actor_update": "cacla", "trust_region": False},
)
