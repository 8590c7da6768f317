"""DDPG in both published flavours, and TD3: one algorithm, one config  (Tables 4 and 5).

One update, after some steps of the environments:

    remember         store the steps
    gradient steps   each on a fresh sample: fit the critics to the target networks' word,
                     move the actor up the first critic (Eq. 3), pull the targets along
    perturb          with noise on parameters: draw the actor that plays next
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.nets import init_layers, mlp
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
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import Replay, append, replay_init, sample, state_behind
from penfac.core.actor import dpg_loss
from penfac.core.critic import q_loss, q_target, soft_update
from penfac.core.noise import Exploration, adapt_parameter_noise, perturbed
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
from penfac.core.returns import ddrl_n_step_returns, n_step_returns
from penfac.core.trust_region import action_distance
from penfac.settings.ddpg import Config
from penfac.types import Transitions

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


class State(NamedTuple):
    """Everything learning carries from one update to the next."""

    learner: Learner
    replay: Replay
    observed: Running
    explorer: Actor  # who plays: the actor, or the actor with noise on its parameters
    parameter_sigma: Scalar


class Metrics(NamedTuple):
    """One row of progress.csv."""

    critic_loss: Scalar
    actor_loss: Scalar
    q_mean: Scalar
    replayed: Int[Array, ""]  # steps in the replay
    gradient_steps: Int[Array, ""]  # of this update
    parameter_sigma: Scalar
    distance: Scalar  # of the perturbed actor's actions from the actor's
    finite: Bool[Array, ""]


class Sampled(NamedTuple):
    """A minibatch, the target's ingredients worked out."""

    obs: Float[Array, "B n"]
    action: Float[Array, "B m"]
    reward: Float[Array, " B"]
    discount: Float[Array, " B"]
    next_obs: Float[Array, "B n"]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key, noise_key = jax.random.split(key, 3)
    sizes = (plan.obs_dim + plan.action_dim, *plan.critic_hidden, 1)
    make = lambda key: init_layers(key, sizes, plan.init, 1.0)  # noqa: E731
    critics = jax.vmap(make)(jax.random.split(critic_key, plan.critics))
    actor = init_actor(actor_key, plan)
    networks = Networks(actor, batch_stats_init(plan.obs_dim), critics)
    learner = Learner(
        online=networks,
        target=jax.tree.map(jnp.copy, networks),
        actor_opt=optimiser(numbers.actor_lr, numbers).init(actor),
        critic_opt=optimiser(numbers.critic_lr, numbers).init(critics),
        steps=jnp.int32(0),
    )
    sigma = numbers.sigma
    return State(
        learner=learner,
        replay=replay_init(plan.replay, plan.obs_dim, plan.action_dim),
        observed=running_init(plan.obs_dim),
        explorer=moved_actor(actor, sigma, noise_key, plan),
        parameter_sigma=sigma,
    )


def optimiser(lr: Scalar, numbers: Numbers) -> optax.GradientTransformation:
    return adam(lr, numbers.adam_b1, numbers.adam_b2, numbers.adam_eps)


def moved_actor(actor: Actor, sigma: Scalar, key: PRNGKeyArray, plan: Plan) -> Actor:
    """Who plays next."""
    if not plan.parameter_noise:
        return actor
    return actor._replace(layers=perturbed(actor.layers, sigma, key))


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    online = state.learner.online
    inputs = actor_inputs(state.observed, online.batch_stats, plan, numbers)
    return inputs, online.actor


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """mu(s) of the learner as it stands."""
    inputs, actor = acting(state, plan, numbers)
    return actor_mean(actor, obs, inputs, plan)


def behaviour(state: State) -> State:
    """The learner with the actor that explores."""
    online = state.learner.online._replace(actor=state.explorer)
    return state._replace(learner=state.learner._replace(online=online))


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


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> tuple[State, Metrics]:
    """Store a batch, then learn from the replay."""
    replay = append(state.replay, batch, plan.one_world)
    learn_key, noise_key = jax.random.split(now.key)
    ready = replay.total >= numbers.learning_starts
    steps = jnp.where(ready, numbers.gradient_steps, 0)

    def step(k, carry):
        learner, sums = carry
        key = jax.random.fold_in(learn_key, k)
        learner, losses = learn(learner, replay, state.observed, key, plan, numbers)
        return learner, sums + losses

    start = (state.learner, jnp.zeros(4))
    learner, sums = jax.lax.fori_loop(0, steps, step, start)
    critic_loss, q_mean = sums[:2] / jnp.maximum(steps, 1)
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(learner, replay, observed, learner.online.actor, state.parameter_sigma)
    distance = jnp.zeros(())
    if plan.parameter_noise:
        new, distance = perturb(new, noise_key, plan, numbers)
    metrics = Metrics(
        critic_loss=critic_loss,
        actor_loss=sums[2] / jnp.maximum(sums[3], 1),
        q_mean=q_mean,
        replayed=jnp.minimum(replay.total, plan.replay),
        gradient_steps=steps,
        parameter_sigma=new.parameter_sigma,
        distance=distance,
        finite=jnp.bool_(True),
    )
    rest = new._replace(replay=replay.total)  # collectors let no other number in
    finite = all_finite((rest, metrics, batch.reward))
    return new, metrics._replace(finite=finite)


def learn(
    learner: Learner,
    replay: Replay,
    observed: Running,
    key: PRNGKeyArray,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Float[Array, "4"]]:
    """One gradient step of the critics and, when it is due, of the actor; the critics'
    loss, the mean of Q, the actor's loss, and whether it was due."""
    sample_key, smooth_key = jax.random.split(key)
    rows = minibatch(replay, sample_key, plan, numbers)
    inputs = running_inputs(
        observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    target = critic_target(
        learner.target, rows, observed, inputs, smooth_key, plan, numbers
    )

    l2_rest = jnp.where(numbers.critic_l2_on.all, numbers.critic_l2, 0)

    def critic_loss(critics):
        q = q_values(critics, rows.obs, rows.action, inputs, plan)
        error = 2 * numbers.critic_error * q_loss(q, target)
        return error + decay(critics, numbers.critic_l2, l2_rest), q

    (loss, q), grad = jax.value_and_grad(critic_loss, has_aux=True)(
        learner.online.critics
    )
    step_critic = optimiser(numbers.critic_lr, numbers)
    change, critic_opt = step_critic.update(grad, learner.critic_opt)
    critics: Any = optax.apply_updates(learner.online.critics, change)
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
    key: PRNGKeyArray,
    plan: Plan,
    numbers: Numbers,
) -> Float[Array, " B"]:
    """What the target networks expect of s', its action smoothed on request."""
    seen = actor_inputs(observed, target.batch_stats, plan, numbers)
    action = actor_mean(target.actor, rows.next_obs, seen, plan)
    if plan.smoothed:
        noise = numbers.target_noise * jax.random.normal(key, action.shape)
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


def perturb(
    state: State, key: PRNGKeyArray, plan: Plan, numbers: Numbers
) -> tuple[State, Scalar]:
    """Draw the actor that plays next, its noise as wide as actions should differ."""
    sample_key, trial_key, explorer_key = jax.random.split(key, 3)
    rows = minibatch(state.replay, sample_key, plan, numbers)
    own = mu(state, rows.obs, plan, numbers)
    actor = state.learner.online.actor
    trial = moved_actor(actor, state.parameter_sigma, trial_key, plan)
    theirs = mu(behaviour(state._replace(explorer=trial)), rows.obs, plan, numbers)
    distance = action_distance(own, theirs, jnp.ones(len(rows.obs), bool))
    sigma = adapt_parameter_noise(state.parameter_sigma, distance, numbers.sigma)
    explorer = moved_actor(actor, sigma, explorer_key, plan)
    return state._replace(explorer=explorer, parameter_sigma=sigma), distance


def exploration(cfg: Config) -> Exploration:
    """The law of the noise; noise on the parameters is played as it is."""
    if cfg.exploration == "ou":
        return Exploration("ou", theta=cfg.ou_theta, dt=cfg.ou_dt)
    return Exploration("none" if cfg.exploration == "parameters" else cfg.exploration)


DDPG = Algorithm(
    name="ddpg",
    summary="a deterministic actor up the gradient of a replayed Q",
    section="Sec. 2, 6.1",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
    behaviour=behaviour,
    exploration=exploration,
)

TD3 = DDPG._replace(
    name="td3",
    summary="DDPG with two critics, a delayed actor and a smoothed target",
    section="not in the paper",
)
