"""Off-policy PeNFAC: toward actions that a replayed Q finds better than mu, with a share
of DPG's step  (Sec. 7, D36).

One update, after some steps of the environments:

    remember         store the steps
    gradient steps   each on a fresh sample: fit the critics to the target networks' word;
                     propose actions around mu(s), weigh them by the advantage over mu,
                     move the actor along CAC's step and DPG's; pull the targets along

The replay, its samples and the critics are DDPG's, the target is TD3's.
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
from penfac.algos.nets import init_layers
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
from penfac.algos.replay import Replay, append, replay_init
from penfac.core.actor import actor_weight
from penfac.core.critic import q_loss, q_target, soft_update
from penfac.core.normalise import Running, running_init, running_update
from penfac.core.offpolicy import (
    advantage_over_mu,
    agreement,
    along,
    blended,
    mirrored,
    pull,
)
from penfac.types import Transitions

Scalar = Float[Array, ""]


class Networks(NamedTuple):
    """An actor and its critics; the targets are another one of these."""

    actor: Actor
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


class Metrics(NamedTuple):
    """One row of progress.csv."""

    critic_loss: Scalar
    q_mean: Scalar
    positive_fraction: Scalar  # of proposals that are better than mu
    agreement: Scalar  # of CAC's step with DPG's: the cosine
    replayed: Int[Array, ""]  # steps in the replay
    gradient_steps: Int[Array, ""]  # of this update
    finite: Bool[Array, ""]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    sizes = (plan.obs_dim + plan.action_dim, *plan.critic_hidden, 1)
    make = lambda key: init_layers(key, sizes, plan.init, 1.0)  # noqa: E731
    critics = jax.vmap(make)(jax.random.split(critic_key, plan.critics))
    networks = Networks(init_actor(actor_key, plan), critics)
    learner = Learner(
        online=networks,
        target=jax.tree.map(jnp.copy, networks),
        actor_opt=optimiser(numbers.actor_lr, numbers).init(networks.actor),
        critic_opt=optimiser(numbers.critic_lr, numbers).init(critics),
        steps=jnp.int32(0),
    )
    replay = replay_init(plan.replay, plan.obs_dim, plan.action_dim)
    return State(learner, replay, running_init(plan.obs_dim))


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    return inputs_of(state.observed, numbers), state.learner.online.actor


def inputs_of(observed: Running, numbers: Numbers) -> Inputs:
    return running_inputs(observed, numbers.normalise_obs, numbers.obs_clip)


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """mu(s) of the learner as it stands."""
    inputs, actor = acting(state, plan, numbers)
    return actor_mean(actor, obs, inputs, plan)


# --- one gradient step ----------------------------------------------------------------


def learn(
    learner: Learner,
    replay: Replay,
    inputs: Inputs,
    key: PRNGKeyArray,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Learner, Float[Array, "4"]]:
    """One step of the critics and the actor; the critics' loss, the mean of Q, the share
    of better proposals, and the cosine of both parts of the actor's step."""
    sample_key, smooth_key, propose_key = jax.random.split(key, 3)
    rows = minibatch(replay, sample_key, plan, numbers)
    target = critic_target(learner.target, rows, smooth_key, inputs, plan, numbers)

    def critic_loss(critics):
        q = q_values(critics, rows.obs, rows.action, inputs, plan)
        return q_loss(q, target), q

    critics, critic_opt, (loss, q) = descend(
        critic_loss,
        learner.online.critics,
        learner.critic_opt,
        numbers.critic_lr,
        numbers,
    )

    def actor_loss(actor):
        mean = actor_mean(actor, rows.obs, inputs, plan)
        step, told = actor_step(
            critics, jax.lax.stop_gradient(mean), rows.obs, propose_key, inputs, plan,
            numbers,
        )  # fmt: skip
        return along(mean, step), told

    actor, actor_opt, (_, told) = descend(
        actor_loss, learner.online.actor, learner.actor_opt, numbers.actor_lr, numbers
    )
    online = Networks(actor, critics)
    learner = Learner(
        online=online,
        target=soft_update(learner.target, online, numbers.tau),
        actor_opt=actor_opt,
        critic_opt=critic_opt,
        steps=learner.steps + 1,
    )
    return learner, jnp.stack([loss, jnp.mean(q), *told])


def critic_target(
    target: Networks,
    rows: Sampled,
    key: PRNGKeyArray,
    inputs: Inputs,
    plan: Plan,
    numbers: Numbers,
) -> Float[Array, " B"]:
    """What the target networks expect of s', its action smoothed."""
    noise = numbers.target_noise * jax.random.normal(key, rows.action.shape)
    limit = numbers.target_noise_clip
    action = actor_mean(target.actor, rows.next_obs, inputs, plan)
    action = jnp.clip(action + jnp.clip(noise, -limit, limit), -1, 1)
    q_next = q_values(target.critics, rows.next_obs, action, inputs, plan)
    return q_target(rows.reward, rows.discount, q_next)


def actor_step(
    critics: Critics,
    mean: Float[Array, "B m"],
    obs: Float[Array, "B n"],
    key: PRNGKeyArray,
    inputs: Inputs,
    plan: Plan,
    numbers: Numbers,
) -> tuple[Float[Array, "B m"], tuple[Scalar, Scalar]]:
    """Where mu should go at each state: CAC's step over the proposals and DPG's; the
    share of better proposals, and the cosine of the two."""

    def q(action):
        seen = jnp.broadcast_to(obs, (*action.shape[:-1], obs.shape[-1]))
        return q_values(critics, seen, action, inputs, plan)

    noise = mirrored(jax.random.normal(key, (plan.pairs, *mean.shape)))
    proposed = jnp.clip(mean + numbers.proposal_sigma * noise, -1, 1)
    least = lambda mean: jnp.sum(jnp.min(q(mean), axis=0))  # noqa: E731
    slope: Any = jax.grad(least)(mean)
    advantage = advantage_over_mu(q(proposed), q(mean)[:, None])
    weight = actor_weight(advantage, rule_of(numbers.actor_update))
    pulled = pull(weight, proposed, mean)
    told = jnp.mean(advantage > 0), agreement(pulled, slope)
    return blended(pulled, slope, numbers.dpg_share), told


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
    critic_loss, q_mean, positive, cosine = sums / jnp.maximum(steps, 1)
    observed = running_update(state.observed, batch.obs, batch.mask)
    new = State(learner, replay, observed)
    metrics = Metrics(
        critic_loss=critic_loss,
        q_mean=q_mean,
        positive_fraction=positive,
        agreement=cosine,
        replayed=jnp.minimum(replay.total, plan.replay),
        gradient_steps=steps,
        finite=jnp.bool_(True),
    )
    rest = new._replace(replay=replay.total)  # collectors let no other number in
    finite = all_finite((rest, metrics, batch.reward))
    return new, metrics._replace(finite=finite)


OFFPENFAC = Algorithm(
    name="offpenfac",
    summary="toward actions that a replayed Q finds better, with a share of DPG",
    section="Sec. 7, future work",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
)
