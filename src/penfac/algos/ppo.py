"""PPO on a Gaussian policy, judged by its mean too  (Sec. 6.1, Table 3).

One update, from a batch that the incoming policy played:

    advantages       lambda-advantages under the critic as it stands (GAE)
    epochs           over the batch in fresh minibatches, one step of Adam each: the
                     clipped surrogate, the squared error of V
    remember         advance the statistics of observations and returns
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Bool, Float, PRNGKeyArray

from penfac.algos.base import Algorithm, Moment
from penfac.algos.batch import discounts_of, padded, returns_seen, scaled_rewards
from penfac.algos.nets import init_layers
from penfac.algos.networks import (
    Actor,
    Inputs,
    actor_mean,
    all_finite,
    init_actor,
    running_inputs,
    value,
)
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.ppo_epochs import (
    Networks,
    Samples,
    fit_networks,
    mean_of,
    optimiser,
    sigma_of,
)
from penfac.core.critic import explained_variance
from penfac.core.noise import Exploration, annealed
from penfac.core.normalise import (
    Running,
    normalise,
    running_init,
    running_update,
)
from penfac.core.ppo import (
    adapt_step_size,
    log_likelihood,
)
from penfac.core.returns import lambda_advantages, td_errors
from penfac.settings.ppo import Config
from penfac.types import Transitions

Scalar = Float[Array, ""]


class State(NamedTuple):
    """Everything learning carries from one update to the next."""

    networks: Networks
    opt: optax.OptState
    step_factor: Scalar  # of the step size, where it follows the policy's movement
    observed: Running
    returned: Running  # of returns, to divide rewards by


class Metrics(NamedTuple):
    """One row of progress.csv; losses are means over all minibatches."""

    policy_loss: Scalar
    value_loss: Scalar
    entropy: Scalar
    approx_kl: Scalar
    clip_fraction: Scalar
    explained_variance: Scalar
    clip_range: Scalar
    learning_rate: Scalar
    finite: Bool[Array, ""]


def init(key: PRNGKeyArray, plan: Plan, numbers: Numbers) -> State:
    actor_key, critic_key = jax.random.split(key)
    sizes = (plan.obs_dim, *plan.critic_hidden, 1)
    networks = Networks(
        init_actor(actor_key, plan),
        jnp.full(plan.action_dim, jnp.log(numbers.sigma)),
        init_layers(critic_key, sizes, plan.init, 1.0),
    )
    return State(
        networks=networks,
        opt=optimiser(numbers).init(networks),
        step_factor=jnp.ones(()),
        observed=running_init(plan.obs_dim),
        returned=running_init(1),
    )


def inputs_of(state: State, numbers: Numbers) -> Inputs:
    return running_inputs(state.observed, numbers.normalise_obs, numbers.obs_clip)


def acting(state: State, plan: Plan, numbers: Numbers) -> tuple[Inputs, Actor]:
    return inputs_of(state, numbers), state.networks.actor


def mu(
    state: State, obs: Float[Array, "*b n"], plan: Plan, numbers: Numbers
) -> Float[Array, "*b m"]:
    """The mean of the policy: deterministic PPO."""
    return actor_mean(state.networks.actor, obs, inputs_of(state, numbers), plan)


def sigma(
    state: State,
    obs: Float[Array, "*b n"],
    configured: Any,
    plan: Plan,
    numbers: Numbers,
) -> Float[Array, " m"]:
    """The standard deviation, the same at every observation."""
    return sigma_of(state.networks.log_sigma, configured, numbers)


# --- one update -----------------------------------------------------------------------


def update(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> tuple[State, Metrics]:
    """Some epochs over one batch that `state` itself played."""
    _, v, v_next = values(state, batch, plan, numbers)
    returned = returns_seen(state.returned, batch, v, v_next, numbers)
    samples = prepare(state._replace(returned=returned), batch, plan, numbers, now)
    samples = padded(samples, plan.minibatches)
    clip = annealed(numbers.clip, numbers.clip_end, now.progress)
    lr = annealed(numbers.lr, numbers.lr_end, now.progress)
    lr = lr * state.step_factor
    clip, lr = jnp.asarray(clip), jnp.asarray(lr)

    networks, opt, reports = fit_networks(
        state.networks, state.opt, samples, now.key, clip, lr, now.sigma, plan, numbers
    )
    final = jnp.mean(reports[-1], axis=0)  # of the last epoch
    adapted = adapt_step_size(state.step_factor, final[3], numbers.kl_target)
    following = jnp.isfinite(numbers.kl_target)
    new = State(
        networks=networks,
        opt=opt,
        step_factor=jnp.where(following, adapted, state.step_factor),
        observed=running_update(state.observed, batch.obs, batch.mask),
        returned=returned,
    )
    policy_loss, value_loss, policy_entropy, _, _ = jnp.mean(reports, axis=(0, 1))
    metrics = Metrics(
        policy_loss=policy_loss,
        value_loss=value_loss,
        entropy=policy_entropy,
        approx_kl=final[3],
        clip_fraction=final[4],
        explained_variance=explained_variance(samples.v, samples.target, samples.mask),
        clip_range=clip,
        learning_rate=lr,
        finite=jnp.bool_(True),
    )
    return new, metrics._replace(finite=all_finite((new, metrics)))


def values(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers
) -> tuple[Float[Array, "N n"], Float[Array, " N"], Float[Array, " N"]]:
    """Normalised observations, V(s) and V(s') of the batch."""
    inputs, critic = inputs_of(state, numbers), state.networks.critic
    x, x_next = normalise(batch.obs, *inputs), normalise(batch.next_obs, *inputs)
    return x, value(critic, x, plan), value(critic, x_next, plan)


def prepare(
    state: State, batch: Transitions, plan: Plan, numbers: Numbers, now: Moment
) -> Samples:
    """Advantages, targets and old likelihoods."""
    x, v, v_next = values(state, batch, plan, numbers)
    reward = scaled_rewards(state.returned, batch, numbers)
    discount = discounts_of(batch, numbers)
    delta = jnp.where(batch.mask, td_errors(reward, discount, v, v_next), 0)
    advantage = lambda_advantages(delta, discount, batch.last, numbers.lam)
    old_sigma = sigma_of(state.networks.log_sigma, now.sigma, numbers)
    mean = mean_of(state.networks.actor, x, plan)
    old = log_likelihood(batch.action, mean, old_sigma)
    return Samples(x, batch.action, advantage, v + advantage, v, old, batch.mask)


def exploration(cfg: Config) -> Exploration:
    return Exploration("gaussian", clip=cfg.clip_action)


PPO = Algorithm(
    name="ppo",
    summary="clipped policy ratios on a Gaussian policy, its mean judged too",
    section="Sec. 6.1",
    init=init,
    mu=mu,
    update=update,
    acting=acting,
    sigma=sigma,
    exploration=exploration,
    modes=("mean", "mean-of-15", "sampled"),
)
