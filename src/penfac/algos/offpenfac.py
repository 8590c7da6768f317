"""Off-policy PeNFAC."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.ddpg_learner import (
    Critics,
    Sampled,
    descend,
    gradient_steps,
    optimiser,
)
from penfac.algos.nets import init_layers, ACTIVATIONS
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_mean,
    all_finite,
    init_actor,
    rule_of,
    running_inputs,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import Replay, append, replay_init, sample, state_behind
from penfac.core.actor import actor_weight
from penfac.core.critic import q_loss, q_target, soft_update
from penfac.core.noise import Exploration
from penfac.core.normalise import Running, running_init, running_update, normalise
from penfac.core.returns import n_step_returns
from penfac.settings.offpenfac import Config
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Learner(NamedTuple):
    actor: Actor
    critics: Critics
    slow_actor: Actor
    slow_critics: Critics
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    steps: Int[Array, ""]


class State(NamedTuple):
    learner: Learner
    replay: Replay
    observed: Running


class Metrics(NamedTuple):
    critic_loss: Scalar
    q_mean: Scalar
    positive_fraction: Scalar
    agreement: Scalar
    replayed: Int[Array, ""]
    gradient_steps: Int[Array, ""]
    finite: Bool[Array, ""]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    actor = init_actor(actor_key, plan)
    sizes = (plan.obs_dim + plan.action_dim, *plan.critic_hidden, 1)
    make = lambda key: init_layers(key, sizes, plan.init, 1.0)  # noqa: E731
    critics = jax.vmap(make)(jax.random.split(critic_key, plan.critics))
    learner = Learner(
        actor, critics, jax.tree.map(jnp.copy, actor), jax.tree.map(jnp.copy, critics),
        optimiser(numbers.actor_lr, numbers).init(actor),
        optimiser(numbers.critic_lr, numbers).init(critics),
        jnp.int32(0),
    )
    return State(learner, replay_init(plan.replay, plan.obs_dim, plan.action_dim), running_init(plan.obs_dim))


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    return running_inputs(state.observed, numbers.normalise_obs, numbers.obs_clip), state.learner.actor


def mu(state, obs, plan, numbers):
    inputs, actor = acting(state, plan, numbers)
    return actor_mean(actor, obs, inputs, plan)


def minibatch(replay, key, plan, numbers) -> Sampled:
    rows = sample(replay, key, plan.batch_size, plan.n_step, numbers.gamma, jnp.float32(numbers.time_limit.bootstrap))
    total, discount, last = n_step_returns(rows.reward, rows.discount, rows.follows)
    return Sampled(rows.obs, rows.action, numbers.reward_scale * total, discount, state_behind(replay, rows, last))


def net(layers, x, plan):
    act = ACTIVATIONS[plan.activation]
    for w, b in layers[:-1]:
        x = x @ w + b
        if plan.layer_norm:
            x = (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)
        x = act(x)
    w, b = layers[-1]
    return (x @ w + b)[..., 0]


def q_values(critics, x, action, plan):
    x = jnp.concatenate([x, action], axis=-1)
    return jax.vmap(lambda c: net(c, x, plan))(critics)


def rms(x):
    return jnp.sqrt(jnp.mean(x**2))


def unit(x):
    r = rms(x)
    return x / jnp.where(r > 0, r, 1.0)


def learn(learner, replay, inputs, key, plan, numbers):
    sample_key, smooth_key, propose_key = jax.random.split(key, 3)
    rows = minibatch(replay, sample_key, plan, numbers)
    x = normalise(rows.obs, *inputs)
    x_next = normalise(rows.next_obs, *inputs)
    noise = numbers.target_noise * jax.random.normal(smooth_key, rows.action.shape)
    limit = numbers.target_noise_clip
    a_next = actor_mean(learner.slow_actor, rows.next_obs, inputs, plan)
    a_next = jnp.clip(a_next + jnp.clip(noise, -limit, limit), -1, 1)
    target = q_target(rows.reward, rows.discount, q_values(learner.slow_critics, x_next, a_next, plan))

    def critic_loss(critics):
        q = q_values(critics, x, rows.action, plan)
        return q_loss(q, target), q

    critics, critic_opt, (loss, q) = descend(critic_loss, learner.critics, learner.critic_opt, numbers.critic_lr, numbers)

    means, pullback = jax.vjp(lambda actor: actor_mean(actor, rows.obs, inputs, plan), learner.actor)

    def least(a):
        return jnp.min(q_values(critics, x, a, plan), axis=0)

    q_mu, back = jax.vjp(least, means)
    (slope,) = back(jnp.ones_like(q_mu))
    # proposals
    eps = jax.random.normal(propose_key, (plan.proposals, *means.shape))
    near = jnp.clip(means + numbers.proposal_sigma * eps, -1, 1)
    q_near = jax.vmap(least)(near)
    rule = rule_of(numbers.actor_update)
    adv_near = q_near - q_mu
    adv_old = least(rows.action) - q_mu
    scaled = lambda a: a / (rms(a) + 1e-8)
    w_near = actor_weight(scaled(adv_near), rule, numbers.softness)
    w_near = w_near - numbers.centred * jnp.mean(w_near)
    pull_near = jnp.mean(w_near[..., None] * (near - means), axis=0)
    far = jnp.sqrt(jnp.mean((rows.action - means) ** 2, -1))
    ok = far <= numbers.limit * numbers.proposal_sigma
    w_old = actor_weight(scaled(adv_old), rule, numbers.softness)
    w_old = (w_old - numbers.centred * jnp.mean(w_old)) * ok
    pull_old = w_old[:, None] * (rows.action - means)
    pull = numbers.replayed * unit(pull_old) + numbers.proposed * unit(pull_near)
    cosine = jnp.sum(pull * slope, -1) / (jnp.linalg.norm(pull, axis=-1) * jnp.linalg.norm(slope, axis=-1) + 1e-8)
    dpg = jnp.where(numbers.per_state, slope / (jnp.linalg.norm(slope, axis=-1, keepdims=True) + 1e-8), slope)
    step = (1 - numbers.dpg_share) * unit(pull) + numbers.dpg_share * unit(dpg)
    step = step * jnp.where(numbers.agreement, jnp.maximum(cosine, 0), 1.0)[:, None]
    slow = actor_mean(learner.slow_actor, rows.obs, inputs, plan)
    step = step - numbers.beta * (means - slow) / numbers.proposal_sigma
    (grad,) = pullback(-step / len(x))
    due = (learner.steps + 1) % numbers.actor_delay == 0
    change, actor_opt = optimiser(numbers.actor_lr, numbers).update(grad, learner.actor_opt)
    actor = optax.apply_updates(learner.actor, change)
    keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(due, a, b), new, old)
    actor, actor_opt = keep(actor, learner.actor), keep(actor_opt, learner.actor_opt)
    new = Learner(
        actor, critics,
        soft_update(learner.slow_actor, actor, numbers.tau),
        soft_update(learner.slow_critics, critics, numbers.tau),
        actor_opt, critic_opt, learner.steps + 1,
    )
    positive = numbers.replayed * jnp.mean(adv_old > 0) + (1 - numbers.replayed) * jnp.mean(adv_near > 0)
    return new, jnp.stack([loss, jnp.mean(q), positive, jnp.mean(cosine)])


def update(state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment):
    replay = append(state.replay, batch, plan.one_world)
    inputs, _ = acting(state, plan, numbers)

    def step(learner, key):
        return learn(learner, replay, inputs, key, plan, numbers)

    learner, sums, steps = gradient_steps(step, (state.learner, jnp.zeros(4)), replay, now.key, numbers)
    loss, q_mean, positive, cosine = sums / jnp.maximum(steps, 1)
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(learner, replay, observed)
    metrics = Metrics(
        loss, q_mean, positive, cosine,
        jnp.minimum(replay.total, plan.replay), steps, jnp.bool_(True),
    )
    rest = new._replace(replay=replay.total)
    return new, metrics._replace(finite=all_finite((rest, metrics, batch.reward)))


OFFPENFAC = Algorithm(
    name="offpenfac",
    summary="PeNFAC from a replay: toward actions that Q finds better, with a share of DPG",
    section="beyond the paper",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
)
