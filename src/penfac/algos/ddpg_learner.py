"""One gradient step of DDPG and TD3: the critics, and the actor when it is due."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Float, Int, PRNGKeyArray

from penfac.algos.nets import mlp
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_inputs,
    actor_mean,
    adam,
    batch_norm_inputs,
    only_with_batch_norm,
    running_inputs,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import Replay, sample, state_behind
from penfac.core.actor import dpg_loss
from penfac.core.critic import q_loss, q_target, soft_update
from penfac.core.normalise import (
    BatchStats,
    Running,
    batch_moments,
    batch_stats_update,
    normalise,
)
from penfac.core.returns import ddrl_n_step_returns, n_step_returns

Scalar = Float[Array, ""]
Critics = list[tuple[Float[Array, "K _ _"], Float[Array, "K _"]]]  # K networks at once


class Networks(NamedTuple):
    """An actor and its critics; the targets are another one of these."""

    actor: Actor
    batch_stats: BatchStats
    critics: Critics


class Learner(NamedTuple):
    """What gradient steps change."""

    online: Networks
    target: Networks
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    steps: Int[Array, ""]  # gradient steps taken


class Sampled(NamedTuple):
    """A minibatch, the target's ingredients worked out."""

    obs: Float[Array, "B n"]
    action: Float[Array, "B m"]
    reward: Float[Array, " B"]
    discount: Float[Array, " B"]
    next_obs: Float[Array, "B n"]


def optimiser(lr: Scalar, numbers: Numbers) -> optax.GradientTransformation:
    return adam(lr, numbers.adam_b1, numbers.adam_b2, numbers.adam_eps)


def gradient_steps(
    learn: Callable[[Any, PRNGKeyArray], tuple[Any, Array]],
    start: tuple[Any, Array],
    replay: Replay,
    key: PRNGKeyArray,
    numbers: Numbers,
) -> tuple[Any, Array, Int[Array, ""]]:
    """The steps of an update once the replay holds enough: the learner after them, the
    sums of what each reports, and their number."""
    ready = replay.total >= numbers.learning_starts
    steps = jnp.where(ready, numbers.gradient_steps, 0)

    def step(k, carry):
        learner, sums = carry
        learner, losses = learn(learner, jax.random.fold_in(key, k))
        return learner, sums + losses

    learner, sums = jax.lax.fori_loop(0, steps, step, start)
    return learner, sums, steps


def descend(
    loss: Callable[[Any], tuple[Scalar, Any]],
    parameters: Any,
    opt: optax.OptState,
    lr: Scalar,
    numbers: Numbers,
) -> tuple[Any, optax.OptState, tuple[Scalar, Any]]:
    """One step of Adam: the new parameters, its state, and the loss with what it adds."""
    value, grad = jax.value_and_grad(loss, has_aux=True)(parameters)
    change, opt = optimiser(lr, numbers).update(grad, opt)
    return optax.apply_updates(parameters, change), opt, value


def q_values(
    critics: Critics,
    obs: Float[Array, "*b n"],
    action: Float[Array, "*b m"],
    inputs: Inputs,
    plan: Plan,
) -> Float[Array, "K *b"]:
    """Q_k(s, a) of every critic."""
    x = jnp.concatenate([normalise(obs, *inputs), action], axis=-1)
    return jax.vmap(lambda c: mlp(c, x, plan.activation)[..., 0])(critics)


def learn(
    learner: Learner,
    replay: Replay,
    observed: Running,
    key: PRNGKeyArray,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Float[Array, "4"]]:
    """One gradient step on a fresh sample."""
    sample_key, smooth_key = jax.random.split(key)
    rows = minibatch(replay, sample_key, plan, numbers)
    normal = jax.random.normal(smooth_key, rows.action.shape)
    return learn_from(learner, rows, normal, observed, plan, numbers)


def learn_from(
    learner: Learner,
    rows: Sampled,
    normal: Float[Array, "B m"],
    observed: Running,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Float[Array, "4"]]:
    """One gradient step of the critics and, when it is due, of the actor; the critics'
    loss, the mean of Q, the actor's loss, and whether it was due. `normal` is N(0, 1),
    which smooths the target."""
    inputs = running_inputs(
        observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    target = critic_target(
        learner.target, rows, observed, inputs, normal, plan, numbers
    )

    l2_rest = jnp.where(numbers.critic_l2_on.all, numbers.critic_l2, 0)

    def critic_loss(critics):
        q = q_values(critics, rows.obs, rows.action, inputs, plan)
        error = 2 * numbers.critic_error * q_loss(q, target)
        return error + decay(critics, numbers.critic_l2, l2_rest), q

    critics, critic_opt, (loss, q) = descend(
        critic_loss,
        learner.online.critics,
        learner.critic_opt,
        numbers.critic_lr,
        numbers,
    )
    learner = learner._replace(
        online=learner.online._replace(critics=critics),
        critic_opt=critic_opt,
        steps=learner.steps + 1,
    )
    due = learner.steps % numbers.actor_delay == 0
    learner, actor_loss = jax.lax.cond(
        due,
        lambda: improve_actor(learner, rows.obs, observed, inputs, plan, numbers),
        lambda: (learner, jnp.zeros(())),
    )
    return learner, jnp.stack([loss, jnp.mean(q), actor_loss, due.astype(q.dtype)])


def minibatch(
    replay: Replay, key: PRNGKeyArray, plan: Plan, numbers: Numbers
) -> Sampled:
    """Steps from the replay with their n-step returns."""
    rows = sample(
        replay,
        key,
        plan.batch_size,
        plan.n_step,
        numbers.gamma,
        jnp.float32(numbers.time_limit.bootstrap),
    )
    steps = (rows.reward, rows.discount, rows.follows)
    total, discount, last = n_step_returns(*steps)
    if plan.n_step > 1:  # with one step the authors' program was right
        theirs = ddrl_n_step_returns(*steps, numbers.gamma)
        total, discount, last = (
            jnp.where(numbers.n_step_target.ddrl, wrong, right)
            for wrong, right in zip(theirs, (total, discount, last), strict=True)
        )
    behind = state_behind(replay, rows, last)
    return Sampled(
        rows.obs, rows.action, numbers.reward_scale * total, discount, behind
    )


def critic_target(
    target: Networks,
    rows: Sampled,
    observed: Running,
    inputs: Inputs,
    normal: Float[Array, "B m"],
    plan: Plan,
    numbers: Numbers,
) -> Float[Array, " B"]:
    """What the target networks expect of s', its action smoothed on request."""
    seen = actor_inputs(observed, target.batch_stats, plan, numbers)
    action = actor_mean(target.actor, rows.next_obs, seen, plan)
    if plan.smoothed:
        noise = numbers.target_noise * normal
        limit = numbers.target_noise_clip
        action = jnp.clip(action + jnp.clip(noise, -limit, limit), -1, 1)
    q_next = q_values(target.critics, rows.next_obs, action, inputs, plan)
    return q_target(rows.reward, rows.discount, q_next)


def improve_actor(
    learner: Learner,
    obs: Float[Array, "B n"],
    observed: Running,
    inputs: Inputs,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Scalar]:
    """The actor up the first critic (Eq. 3), the targets after both."""
    online, everyone = learner.online, jnp.ones(len(obs), bool)
    seen = actor_inputs(observed, online.batch_stats, plan, numbers)
    stats = online.batch_stats
    if plan.batch_norm:  # learning sees the minibatch's own statistics
        moments = batch_moments(obs, everyone)
        seen = batch_norm_inputs(moments, seen, numbers.normalise_actor.batch_norm)
        stats = batch_stats_update(stats, obs, everyone)
    first = jax.tree.map(lambda x: x[:1], online.critics)

    def loss(actor):
        action = actor_mean(actor, obs, seen, plan)
        return dpg_loss(q_values(first, obs, action, inputs, plan)[0])

    value, grad = jax.value_and_grad(loss)(online.actor)
    grad = only_with_batch_norm(grad, numbers.normalise_actor.batch_norm)
    step_actor = optimiser(numbers.actor_lr, numbers)
    change, actor_opt = step_actor.update(grad, learner.actor_opt)
    actor: Any = optax.apply_updates(online.actor, change)
    online = online._replace(actor=actor, batch_stats=stats)
    target = soft_update(learner.target, online, numbers.tau)
    return learner._replace(online=online, target=target, actor_opt=actor_opt), value


def decay(critics: Critics, hidden: Scalar, rest: Scalar) -> Scalar:
    """L2: half the squares of hidden weights, and those of biases and output  (D33)."""
    *hiddens, output = critics
    weights, biases = [w for w, _ in hiddens], [b for _, b in hiddens]
    return hidden * half_squares(weights) + rest * half_squares([*biases, *output])


def half_squares(arrays: list[Array]) -> Scalar:
    return 0.5 * sum((jnp.sum(x**2) for x in arrays), jnp.zeros(()))
