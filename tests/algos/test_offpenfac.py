"""Off-policy PeNFAC: a gradient step against float64 by hand, and where it leads."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from penfac.algos import ddpg_learner, offpenfac
from penfac.algos.base import Moment
from penfac.algos.replay import append
from penfac.policy import mean_action
from penfac.settings.offpenfac import Config

N, M, B = 3, 2, 8
SMALL = {
    "gamma": 0.9, "reward_scale": 0.5, "critic_lr": 1e-2, "actor_lr": 1e-2,
    "target_noise": 0.3, "target_noise_clip": 0.4, "proposal_sigma": 0.2, "tau": 0.1,
    "random_steps": 0, "replay": 64, "learning_starts": 1, "batch_size": B,
    "gradient_steps": 2, "actor_hidden": (6,), "critic_hidden": (7,), "pairs": 3,
    "activation": "tanh", "normalise_obs": False, "worlds": 1, "steps_per_world": 5,
}  # fmt: skip

learn = jax.jit(offpenfac.learn, static_argnums=4)
update = jax.jit(offpenfac.update, static_argnums=2)


@pytest.fixture
def make(spec):
    def build(seed=0, **settings):
        cfg = Config(**(SMALL | settings))
        algo = offpenfac.OFFPENFAC
        plan, numbers = algo.plan(cfg, spec), algo.numbers(cfg)
        state = offpenfac.init(jax.random.key(seed), plan, numbers)
        return SimpleNamespace(cfg=cfg, plan=plan, numbers=numbers, state=state)

    return build


def moment(seed=0):
    return Moment(jax.random.key(seed), jnp.float32(0.0), jnp.float32(1.0))


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def doubles(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


class ByHand:
    """One pair of networks in float64, the mathematics written out."""

    def __init__(self, made, networks):
        self.cfg = made.cfg
        self.actor = doubles(networks.actor.layers)
        self.critics = [
            doubles([(w[k], b[k]) for w, b in networks.critics])
            for k in range(made.cfg.critics)
        ]

    def mu(self, obs):
        return np.tanh(oracles.mlp(self.actor, obs, "tanh")[0])

    def q(self, obs, action):
        x = np.concatenate([obs, action], axis=1)
        return np.stack([oracles.mlp(c, x, "tanh")[0][:, 0] for c in self.critics])

    def least(self, obs, action):
        return self.q(obs, action).min(axis=0)

    def target(self, rows, normal):
        cfg = self.cfg
        noise = np.clip(
            cfg.target_noise * normal, -cfg.target_noise_clip, cfg.target_noise_clip
        )
        action = np.clip(self.mu(rows.next_obs) + noise, -1, 1)
        return rows.reward + rows.discount * self.least(rows.next_obs, action)

    def slope(self, obs, mean):
        found = np.zeros_like(mean)
        for i in range(mean.shape[1]):
            d = np.zeros(mean.shape[1])
            d[i] = 1e-6
            found[:, i] = self.least(obs, mean + d) - self.least(obs, mean - d)
        return found / 2e-6

    def step(self, obs, noise):
        """Proposal by proposal."""
        mean = self.mu(obs)
        pulled, better = np.zeros_like(mean), []
        for b in [*noise, *-noise]:
            action = np.clip(mean + self.cfg.proposal_sigma * b, -1, 1)
            a = self.least(obs, action) - self.least(obs, mean)
            weight = {"cac": a * (a > 0), "cacla": 1.0 * (a > 0), "spg": a}
            pulled += weight[self.cfg.actor_update][:, None] * (action - mean)
            better.append(a > 0)
        parts = pulled, self.slope(obs, mean)
        pull, slope = (x / np.sqrt(np.mean(x**2)) for x in parts)
        share = self.cfg.dpg_share
        cosine = np.sum(pull * slope) / np.size(pull)
        return (1 - share) * pull + share * slope, np.mean(better), cosine


def sampled(made, batch, key):
    """What one gradient step sees: its replay, sample, and both noises."""
    replay = append(made.state.replay, batch, made.plan.one_world)
    sample_key, smooth_key, propose_key = jax.random.split(key, 3)
    rows = ddpg_learner.minibatch(replay, sample_key, made.plan, made.numbers)
    rows = jax.tree.map(lambda x: np.asarray(x, float), rows)
    smooth = jax.random.normal(smooth_key, (B, M))
    propose = jax.random.normal(propose_key, (made.cfg.pairs, B, M))
    return replay, rows, np.asarray(smooth, float), np.asarray(propose, float)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"actor_update": "cacla"}, {"actor_update": "spg", "critics": 3},
        {"dpg_share": 0.3}, {"dpg_share": 1.0, "reward_scale": 5.0},
    ],
    ids=str,
)  # fmt: skip
def test_a_gradient_step_equals_the_one_by_hand(settings, make, batch):
    """The critics' loss, the share of better proposals, the cosine, and the actor's step
    under the critics as they are then; the targets after both."""
    made, key = make(**settings), jax.random.key(5)
    other = make(seed=9, **settings).state.learner.online  # targets that differ
    before = made.state.learner._replace(target=other)
    replay, rows, smooth, propose = sampled(made, batch, key)
    inputs = offpenfac.inputs_of(made.state.observed, made.numbers)
    after, told = learn(before, replay, inputs, key, made.plan, made.numbers)
    target = ByHand(made, other).target(rows, smooth)
    error = ByHand(made, before.online).q(rows.obs, rows.action) - target
    np.testing.assert_allclose(told[0], np.sum(np.mean(error**2, axis=1)) / 2, rtol=1e-4)

    # the actor follows what was just fitted
    then = before.online._replace(critics=after.online.critics)
    by_hand = ByHand(made, then)
    step, better, cosine = by_hand.step(rows.obs, propose)
    np.testing.assert_allclose(told[2:], (better, cosine), rtol=1e-3, atol=1e-5)
    grad = -np.mean(step * (1 - by_hand.mu(rows.obs) ** 2), axis=0)  # in the last bias
    moved = after.online.actor.layers[-1][1] - before.online.actor.layers[-1][1]
    # Adam's first step is its rate times the sign of the gradient
    np.testing.assert_allclose(moved, -made.cfg.actor_lr * np.sign(grad), rtol=1e-3)
    jax.tree.map(
        lambda t, c, new: np.testing.assert_allclose(
            new, 0.9 * t + 0.1 * c, rtol=1e-4, atol=1e-6
        ),
        before.target, after.online, after.target,
    )  # fmt: skip


def test_an_update_is_so_many_gradient_steps(make, batch):
    made, now = make(gradient_steps=3), moment()
    new, metrics = update(made.state, batch, made.plan, made.numbers, now)
    replay = append(made.state.replay, batch, made.plan.one_world)
    inputs = offpenfac.inputs_of(made.state.observed, made.numbers)
    learner, sums = made.state.learner, np.zeros(4)
    for k in range(3):
        key = jax.random.fold_in(now.key, k)
        learner, told = learn(learner, replay, inputs, key, made.plan, made.numbers)
        sums += np.asarray(told)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        new.learner, learner,
    )  # fmt: skip
    told = (metrics.critic_loss, metrics.q_mean, metrics.positive_fraction)
    np.testing.assert_allclose((*told, metrics.agreement), sums / 3, rtol=1e-3, atol=1e-5)
    assert metrics.gradient_steps == new.learner.steps == 3
    assert metrics.replayed == np.sum(np.asarray(batch.mask))
    assert metrics.finite


def test_nothing_is_learned_before_enough_is_stored(make, batch):
    real = int(np.sum(np.asarray(batch.mask)))
    made = make(learning_starts=real + 1)
    new, metrics = update(made.state, batch, made.plan, made.numbers, moment())
    assert bits(new.learner) == bits(made.state.learner)
    assert (metrics.gradient_steps, metrics.replayed) == (0, real)


def test_the_scale_of_rewards_moves_no_step_of_the_actor(make, batch):
    """With critics that are given, all of them times 8: the same step, to rounding."""
    made = make(dpg_share=0.5)
    online = made.state.learner.online
    *hidden, (w, b) = online.critics
    steps = []
    for scale in (1.0, 8.0):
        critics = [*hidden, (scale * w, scale * b)]
        obs = batch.obs[:B]
        mean = offpenfac.mu(made.state, obs, made.plan, made.numbers)
        inputs = offpenfac.inputs_of(made.state.observed, made.numbers)
        args = (jax.random.key(1), inputs, made.plan, made.numbers)
        steps.append(offpenfac.actor_step(critics, mean, obs, *args)[0])
    np.testing.assert_allclose(*steps, rtol=1e-3, atol=1e-5)


def test_a_number_that_is_not_finite_is_seen(make, batch):
    made = make()
    broken = batch._replace(reward=batch.reward.at[0].set(jnp.inf))
    _, metrics = update(made.state, broken, made.plan, made.numbers, moment())
    assert not metrics.finite


def test_the_deployed_policy_is_mu(make, batch):
    """In numpy as in the program, with observations normalised."""
    made = make(normalise_obs=True, obs_clip=2.0)
    state, _ = update(made.state, batch, made.plan, made.numbers, moment())
    weights = offpenfac.OFFPENFAC.policy(state, made.plan, made.numbers)
    ours = mean_action(weights, np.asarray(batch.obs))
    wanted = offpenfac.mu(state, batch.obs, made.plan, made.numbers)
    np.testing.assert_allclose(ours, wanted, atol=1e-5)
