"""DDPG in both published flavours, and TD3: one algorithm, one config  (Tables 4 and 5).

One update, after some steps of the environments:

    remember         store the steps
    gradient steps   each on a fresh sample: fit the critics to the target networks' word,
                     move the actor up the first critic (Eq. 3), pull the targets along
    perturb          with noise on parameters: draw the actor that plays next
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.ddpg_learner import (
    Learner,
    Networks,
    gradient_steps,
    learn,
    minibatch,
    optimiser,
)
from penfac.algos.nets import init_layers
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_inputs,
    actor_mean,
    all_finite,
    init_actor,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import Replay, append, replay_init
from penfac.core.noise import Exploration, adapt_parameter_noise, perturbed
from penfac.core.normalise import (
    Running,
    batch_stats_init,
    running_init,
    running_update,
)
from penfac.core.trust_region import action_distance
from penfac.settings.ddpg import Config
from penfac.types import Transitions

Scalar = Float[Array, ""]


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


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> tuple[State, Metrics]:
    """Store a batch, then learn from the replay."""
    replay = append(state.replay, batch, plan.one_world)
    learn_key, noise_key = jax.random.split(now.key)

    def step(learner, key):
        return learn(learner, replay, state.observed, key, plan, numbers)

    learner, sums, steps = gradient_steps(
        step, (state.learner, jnp.zeros(4)), replay, learn_key, numbers
    )
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
