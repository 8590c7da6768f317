"""SAC: a squashed Gaussian that earns reward and entropy  (Haarnoja et al. 2018).

One update, after some steps of the environments:

    remember         store the steps
    gradient steps   each on a fresh sample: fit the critics to the soft target, move the
                     actor up the least critic and its own entropy, move the temperature
                     toward the target entropy, pull the target critics along

The replay, its samples and the critics are DDPG's. The policy that is judged and
deployed is mu(s) = tanh(m(s)).
"""

from typing import Any, NamedTuple

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
    minibatch,
    optimiser,
    q_values,
)
from penfac.algos.nets import init_layers, mlp
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_mean,
    all_finite,
    init_actor,
    running_inputs,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import Replay, append, replay_init
from penfac.core.critic import q_loss, soft_update
from penfac.core.noise import Exploration
from penfac.core.normalise import Running, normalise, running_init, running_update
from penfac.core.sac import (
    bounded_sigma,
    soft_actor_loss,
    soft_target,
    soft_value,
    squashed_log_likelihood,
    temperature_loss,
)
from penfac.settings.sac import Config
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Learner(NamedTuple):
    """What gradient steps change."""

    actor: Actor
    critics: Critics
    target: Critics
    log_temperature: Scalar
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    temperature_opt: optax.OptState
    steps: Int[Array, ""]  # gradient steps taken


class State(NamedTuple):
    """Everything learning carries from one update to the next."""

    learner: Learner
    replay: Replay
    observed: Running


class Metrics(NamedTuple):
    """One row of progress.csv."""

    critic_loss: Scalar
    actor_loss: Scalar
    q_mean: Scalar
    entropy: Scalar  # of the policy, at the sampled states
    temperature: Scalar
    replayed: Int[Array, ""]  # steps in the replay
    gradient_steps: Int[Array, ""]  # of this update
    finite: Bool[Array, ""]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, spread_key, critic_key = jax.random.split(key, 3)
    actor = init_actor(actor_key, plan)
    last = (actor.layers[-1][0].shape[0], plan.action_dim)
    [(w, b)] = init_layers(spread_key, last, plan.init, 0.01)
    actor = actor._replace(spread=[(w, b + jnp.log(numbers.sigma))])
    sizes = (plan.obs_dim + plan.action_dim, *plan.critic_hidden, 1)
    make = lambda key: init_layers(key, sizes, plan.init, 1.0)  # noqa: E731
    critics = jax.vmap(make)(jax.random.split(critic_key, plan.critics))
    log_temperature = jnp.log(numbers.temperature_start)
    learner = Learner(
        actor=actor,
        critics=critics,
        target=jax.tree.map(jnp.copy, critics),
        log_temperature=log_temperature,
        actor_opt=optimiser(numbers.actor_lr, numbers).init(actor),
        critic_opt=optimiser(numbers.critic_lr, numbers).init(critics),
        temperature_opt=optimiser(numbers.temperature_lr, numbers).init(
            log_temperature
        ),
        steps=jnp.int32(0),
    )
    replay = replay_init(plan.replay, plan.obs_dim, plan.action_dim)
    return State(learner, replay, running_init(plan.obs_dim))


def inputs_of(observed: Running, numbers: Numbers) -> Inputs:
    return running_inputs(observed, numbers.normalise_obs, numbers.obs_clip)


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    return inputs_of(state.observed, numbers), state.learner.actor


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """The deterministic policy tanh(m(s))."""
    inputs, actor = acting(state, plan, numbers)
    return actor_mean(actor, obs, inputs, plan)


def sigma(
    state: State,
    obs: Float[Array, "*b n"],
    configured: Any,
    plan: Plan,
    numbers: Numbers,
) -> Float[Array, "*b m"]:
    """sigma(s) of the sample before tanh."""
    inputs, actor = acting(state, plan, numbers)
    return gaussian_of(actor, obs, inputs, plan)[1]


def gaussian_of(
    actor: Actor, obs: Float[Array, "*b n"], inputs: Inputs, plan: Plan
) -> tuple[Float[Array, "*b m"], Float[Array, "*b m"]]:
    """m(s) and sigma(s): both last layers in one product."""
    *hidden, last = actor.layers
    [spread] = actor.spread
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=-1), last, spread)
    out = mlp([*hidden, both], normalise(obs, *inputs), plan.activation)
    mean, log_sigma = jnp.split(out, 2, axis=-1)
    return mean, bounded_sigma(log_sigma)


def draw(
    actor: Actor,
    obs: Float[Array, "B n"],
    key: PRNGKeyArray,
    inputs: Inputs,
    plan: Plan,
) -> tuple[Float[Array, "B m"], Float[Array, " B"]]:
    """An action a = tanh(m + sigma eps) at each state, and log pi(a|s)."""
    mean, sigma = gaussian_of(actor, obs, inputs, plan)
    u = mean + sigma * jax.random.normal(key, mean.shape)
    return jnp.tanh(u), squashed_log_likelihood(u, mean, sigma)


# --- one gradient step ----------------------------------------------------------------


def learn(
    learner: Learner,
    replay: Replay,
    inputs: Inputs,
    key: PRNGKeyArray,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Float[Array, "4"]]:
    """One step of the critics, the actor and the temperature; the critics' loss, the mean
    of Q, the actor's loss, and its entropy."""
    sample_key, actor_key, target_key = jax.random.split(key, 3)
    rows = minibatch(replay, sample_key, plan, numbers)
    alpha = temperature_of(learner, numbers)
    target = critic_target(learner, rows, alpha, target_key, inputs, plan)

    def critic_loss(critics):
        q = q_values(critics, rows.obs, rows.action, inputs, plan)
        return q_loss(q, target), q

    critics, critic_opt, (loss, q) = descend(
        critic_loss, learner.critics, learner.critic_opt, numbers.critic_lr, numbers
    )

    def actor_loss(actor):
        action, log_pi = draw(actor, rows.obs, actor_key, inputs, plan)
        q = q_values(critics, rows.obs, action, inputs, plan)
        return soft_actor_loss(q, log_pi, alpha), log_pi

    actor, actor_opt, (value, log_pi) = descend(
        actor_loss, learner.actor, learner.actor_opt, numbers.actor_lr, numbers
    )
    entropy = plan.action_dim * numbers.target_entropy
    log_temperature, temperature_opt, _ = descend(
        lambda log_alpha: (temperature_loss(log_alpha, log_pi, entropy), ()),
        learner.log_temperature,
        learner.temperature_opt,
        numbers.temperature_lr,
        numbers,
    )
    learner = Learner(
        actor=actor,
        critics=critics,
        target=soft_update(learner.target, critics, numbers.tau),
        log_temperature=log_temperature,
        actor_opt=actor_opt,
        critic_opt=critic_opt,
        temperature_opt=temperature_opt,
        steps=learner.steps + 1,
    )
    return learner, jnp.stack([loss, jnp.mean(q), value, -jnp.mean(log_pi)])


def temperature_of(learner: Learner, numbers: Numbers) -> Scalar:
    """alpha: the one that the config fixes, or the learned one."""
    learned = jnp.exp(learner.log_temperature)
    return jnp.where(jnp.isinf(numbers.temperature), learned, numbers.temperature)


def critic_target(
    learner: Learner,
    rows: Sampled,
    alpha: Scalar,
    key: PRNGKeyArray,
    inputs: Inputs,
    plan: Plan,
) -> Float[Array, " B"]:
    """What the target critics expect of s' and of an action drawn there."""
    action, log_pi = draw(learner.actor, rows.next_obs, key, inputs, plan)
    q = q_values(learner.target, rows.next_obs, action, inputs, plan)
    return soft_target(rows.reward, rows.discount, soft_value(q, log_pi, alpha))


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> tuple[State, Metrics]:
    """Store a batch, then learn from the replay."""
    replay = append(state.replay, batch, plan.one_world)
    inputs = inputs_of(state.observed, numbers)

    def step(learner, key):
        return learn(learner, replay, inputs, key, plan, numbers)

    learner, sums, steps = gradient_steps(
        step, (state.learner, jnp.zeros(4)), replay, now.key, numbers
    )
    critic_loss, q_mean, actor_loss, entropy = sums / jnp.maximum(steps, 1)
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(learner, replay, observed)
    metrics = Metrics(
        critic_loss=critic_loss,
        actor_loss=actor_loss,
        q_mean=q_mean,
        entropy=entropy,
        temperature=temperature_of(learner, numbers),
        replayed=jnp.minimum(replay.total, plan.replay),
        gradient_steps=steps,
        finite=jnp.bool_(True),
    )
    rest = new._replace(replay=replay.total)  # collectors let no other number in
    finite = all_finite((rest, metrics, batch.reward))
    return new, metrics._replace(finite=finite)


def exploration(cfg: Config) -> Exploration:
    return Exploration("squashed")


SAC = Algorithm(
    name="sac",
    summary="a squashed Gaussian that earns reward and entropy, its mean judged",
    section="not in the paper",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
    sigma=sigma,
    exploration=exploration,
)
