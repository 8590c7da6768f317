"""SAC: a gradient step against float64 by hand, and what its policy is."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import oracles
from penfac.algos import ddpg_learner, sac
from penfac.algos.base import Moment, plan_of_centre
from penfac.algos.replay import append
from penfac.core.noise import Exploration
from penfac.policy import ActionScale, Policy, PolicyFileError, mean_action
from penfac.rollout.evaluate import action_chooser
from penfac.rollout.explorer import Explorer, gaussian_of
from penfac.settings.sac import Config

N, M, B = 3, 2, 8
SMALL = {
    "gamma": 0.9, "critic_lr": 1e-2, "actor_lr": 1e-2, "temperature_lr": 1e-2,
    "tau": 0.1, "random_steps": 0, "replay": 64, "learning_starts": 1,
    "batch_size": B, "gradient_steps": 2, "actor_hidden": (6,), "critic_hidden": (7,),
    "activation": "tanh", "steps_per_world": 5, "temperature_start": 0.5,
}  # fmt: skip

learn = jax.jit(sac.learn, static_argnums=4)
update = jax.jit(sac.update, static_argnums=2)


@pytest.fixture
def make(spec):
    def build(seed=0, **settings):
        cfg = Config(**(SMALL | settings))
        plan, numbers = sac.SAC.plan(cfg, spec), sac.SAC.numbers(cfg)
        state = sac.init(jax.random.key(seed), plan, numbers)
        return SimpleNamespace(cfg=cfg, plan=plan, numbers=numbers, state=state)

    return build


def moment(seed=0):
    return Moment(jax.random.key(seed), jnp.float32(0.0), jnp.float32(1.0))


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def doubles(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


class ByHand:
    """Losses in float64, the mathematics written out."""

    def __init__(self, made, learner):
        self.cfg, self.alpha = made.cfg, float(np.exp(learner.log_temperature))
        if made.cfg.temperature is not None:
            self.alpha = made.cfg.temperature
        self.hidden = doubles(learner.actor.layers[:-1])
        self.last = doubles([learner.actor.layers[-1], *learner.actor.spread])
        each = range(made.cfg.critics)
        self.critics, self.target = (
            [doubles([(w[k], b[k]) for w, b in critics]) for k in each]
            for critics in (learner.critics, learner.target)
        )

    def drawn(self, obs, noise, last=None):
        """a and log pi(a|s), each factor of the density by its definition."""
        mean, log_sigma = (
            oracles.mlp([*self.hidden, out], obs, "tanh")[0]
            for out in (last or self.last)
        )
        sigma = np.exp(log_sigma)
        action = np.tanh(mean + sigma * noise)
        density = stats.norm(mean, sigma).pdf(mean + sigma * noise) / (1 - action**2)
        return action, np.sum(np.log(density), axis=1)

    def q(self, critics, obs, action):
        x = np.concatenate([obs, action], axis=1)
        return np.stack([oracles.mlp(c, x, "tanh")[0][:, 0] for c in critics])

    def target_of(self, rows, noise):
        action, log_pi = self.drawn(rows.next_obs, noise)
        q = self.q(self.target, rows.next_obs, action)
        return rows.reward + rows.discount * (q.min(axis=0) - self.alpha * log_pi)

    def critic_loss(self, rows, noise):
        error = self.q(self.critics, rows.obs, rows.action) - self.target_of(
            rows, noise
        )
        return np.sum(np.mean(error**2, axis=1)) / 2

    def actor_loss(self, critics, obs, noise, last=None):
        action, log_pi = self.drawn(obs, noise, last)
        q = self.q(critics, obs, action).min(axis=0)
        return np.mean(self.alpha * log_pi - q), log_pi


def sampled(made, batch, key):
    """What one gradient step sees: its replay, sample, and noise of actor and target."""
    replay = append(made.state.replay, batch, made.plan.one_world)
    sample_key, *keys = jax.random.split(key, 3)
    rows = ddpg_learner.minibatch(replay, sample_key, made.plan, made.numbers)
    rows = jax.tree.map(lambda x: np.asarray(x, float), rows)
    return replay, rows, [np.asarray(jax.random.normal(k, (B, M)), float) for k in keys]


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.2}, {"critics": 3, "reward_scale": 5.0}, {"sigma": 0.3}],
    ids=str,
)
def test_losses_and_the_actors_gradient_equal_those_by_hand(settings, make, batch):
    """The critics' loss, the actor's under the critics as they are then, its gradient in
    both last layers by differences, log alpha and the target critics."""
    made, key = make(**settings), jax.random.key(5)
    # targets and critics that differ
    other = make(seed=9, **settings).state.learner.critics
    before = made.state.learner._replace(target=other)
    replay, rows, (actor_noise, target_noise) = sampled(made, batch, key)
    inputs = sac.inputs_of(made.state.observed, made.numbers)
    after, losses = learn(before, replay, inputs, key, made.plan, made.numbers)
    by_hand = ByHand(made, before)
    np.testing.assert_allclose(
        losses[0], by_hand.critic_loss(rows, target_noise), rtol=1e-4
    )
    critics = ByHand(made, after).critics  # the actor climbs what was just fitted
    value, log_pi = by_hand.actor_loss(critics, rows.obs, actor_noise)
    np.testing.assert_allclose(losses[2], value, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(losses[3], -np.mean(log_pi), rtol=1e-4, atol=1e-6)

    # Adam's first step is its rate times the sign of the gradient
    layers = [(after.actor.layers[-1], before.actor.layers[-1])]
    layers += [(after.actor.spread[0], before.actor.spread[0])]
    for which, (new, old) in enumerate(layers):
        moved = np.asarray(new[1]) - np.asarray(old[1])
        for i in range(M):
            slope = []
            for side in (-1e-6, 1e-6):
                last = [(w, b.copy()) for w, b in by_hand.last]
                last[which][1][i] += side
                slope.append(
                    by_hand.actor_loss(critics, rows.obs, actor_noise, last)[0]
                )
            expected = -made.cfg.actor_lr * np.sign(slope[1] - slope[0])
            np.testing.assert_allclose(moved[i], expected, rtol=1e-3)

    aim = M * made.cfg.target_entropy
    step = -made.cfg.temperature_lr * np.sign(-np.mean(log_pi) - aim)
    change = after.log_temperature - before.log_temperature
    np.testing.assert_allclose(change, step, rtol=1e-3)
    jax.tree.map(
        lambda t, c, new: np.testing.assert_allclose(
            new, 0.9 * t + 0.1 * c, rtol=1e-4, atol=1e-6
        ),
        before.target, after.critics, after.target,
    )  # fmt: skip


def test_an_update_is_so_many_gradient_steps(make, batch):
    made, now = make(gradient_steps=3), moment()
    new, metrics = update(made.state, batch, made.plan, made.numbers, now)
    replay = append(made.state.replay, batch, made.plan.one_world)
    inputs = sac.inputs_of(made.state.observed, made.numbers)
    learner, sums = made.state.learner, np.zeros(4)
    for k in range(3):
        key = jax.random.fold_in(now.key, k)
        learner, losses = learn(learner, replay, inputs, key, made.plan, made.numbers)
        sums += np.asarray(losses)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        new.learner, learner,
    )  # fmt: skip
    told = (metrics.critic_loss, metrics.q_mean, metrics.actor_loss, metrics.entropy)
    np.testing.assert_allclose(told, sums / 3, rtol=1e-3, atol=1e-5)
    assert metrics.temperature == pytest.approx(float(np.exp(learner.log_temperature)))
    assert metrics.gradient_steps == new.learner.steps == 3
    assert metrics.replayed == np.sum(np.asarray(batch.mask))
    assert metrics.finite


def test_nothing_is_learned_before_enough_is_stored(make, batch):
    real = int(np.sum(np.asarray(batch.mask)))
    made = make(learning_starts=real + 1)
    new, metrics = update(made.state, batch, made.plan, made.numbers, moment())
    assert bits(new.learner) == bits(made.state.learner)
    assert (metrics.gradient_steps, metrics.replayed) == (0, real)
    assert metrics.temperature == pytest.approx(0.5)


@pytest.mark.parametrize("target", [-20.0, 20.0])
def test_the_temperature_follows_the_entropy(target, make, batch):
    """It falls while there is more entropy than asked for, and rises while there is less;
    one that is fixed stays."""
    made = make(target_entropy=target, gradient_steps=20)
    _, metrics = update(made.state, batch, made.plan, made.numbers, moment())
    assert (metrics.temperature > 0.5) == (target > 0)
    assert abs(float(metrics.temperature) - 0.5) > 0.05
    fixed = make(target_entropy=target, gradient_steps=20, temperature=0.1)
    _, metrics = update(fixed.state, batch, fixed.plan, fixed.numbers, moment())
    assert metrics.temperature == pytest.approx(0.1)


def test_a_number_that_is_not_finite_is_seen(make, batch):
    made = make()
    broken = batch._replace(reward=batch.reward.at[0].set(jnp.inf))
    _, metrics = update(made.state, broken, made.plan, made.numbers, moment())
    assert not metrics.finite


# --- the policy -----------------------------------------------------------------------


@pytest.fixture
def learned(make, batch):
    """A learner whose sigma depends on the state."""
    made = make(normalise_obs=True, obs_clip=2.0, sigma=0.5)
    made.state, _ = update(made.state, batch, made.plan, made.numbers, moment())
    actor = made.state.learner.actor
    [(w, b)] = actor.spread
    learner = made.state.learner._replace(actor=actor._replace(spread=[(3 * w, b)]))
    made.state = made.state._replace(learner=learner)
    made.weights = sac.SAC.policy(made.state, made.plan, made.numbers)
    return made


def test_the_deployed_policy_is_tanh_of_the_mean_and_knows_sigma(learned, batch):
    """In numpy as in the program: mu, m before tanh, and sigma at each observation."""
    args, obs = (learned.plan, learned.numbers), np.asarray(batch.obs)
    mu = sac.mu(learned.state, batch.obs, *args)
    centre = plan_of_centre(learned.plan, Exploration("squashed"))
    mean = sac.mu(learned.state, batch.obs, centre, learned.numbers)
    sigma = sac.sigma(learned.state, batch.obs, jnp.float32(9), *args)
    ours = gaussian_of(learned.weights, obs)
    np.testing.assert_allclose(mean_action(learned.weights, obs), mu, atol=1e-5)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours[1], sigma, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mu, np.tanh(mean), atol=1e-6)
    assert np.std(np.asarray(sigma)[np.asarray(batch.mask)], axis=0).min() > 0.05


def test_initially_sigma_is_about_what_the_config_says(make, batch):
    made = make(sigma=0.05, init="small")
    sigma = sac.sigma(made.state, batch.obs, 1.0, made.plan, made.numbers)
    np.testing.assert_allclose(sigma, 0.05, rtol=0.1)


@pytest.mark.parametrize("mode", ["sampled", "mean-of-15"])
def test_samples_of_the_numpy_policy_have_the_law_of_their_state(learned, mode):
    """At two states: artanh of the samples is N(m, sigma^2), by Kolmogorov and Smirnov."""
    obs = np.float32([[1.0, -0.5, 0.2], [-2.0, 1.0, 0.7]])
    act = Explorer(learned.weights, Exploration("squashed"), 0.0)
    choose = action_chooser(mode, act, np.random.default_rng(0))
    drawn = np.stack([choose(obs, t) for t in range(1000)])
    mean, sigma = gaussian_of(learned.weights, obs)
    assert np.all(np.abs(drawn) <= 1)
    for i in np.ndindex(mean.shape):
        samples, law = drawn[:, *i], stats.norm(mean[i], sigma[i])
        if mode == "sampled":
            assert stats.kstest(np.arctanh(samples), law.cdf).pvalue > 1e-3
        else:
            levels = law.ppf((np.arange(4000) + 0.5) / 4000)
            np.testing.assert_allclose(
                samples.mean(), np.tanh(levels).mean(), atol=0.02
            )


def test_a_policy_file_keeps_sigma(learned, batch, tmp_path):
    """Read again it samples with the same bits; a last layer of another size is refused,
    and policies without one have the file that they had."""
    box = ActionScale(-np.ones(M, np.float32), np.ones(M, np.float32), (M,))
    policy = Policy(learned.weights, box, {})
    file = tmp_path / "policy.safetensors"
    file.write_bytes(policy.to_bytes())
    again = Policy.load(tmp_path)
    obs = np.asarray(batch.obs)
    for ours, theirs in zip(
        gaussian_of(policy.weights, obs), gaussian_of(again.weights, obs), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()
    assert policy.description()["spread"] == 1
    [(w, b)] = learned.weights.spread
    for wrong in ([(w[:-1], b)], [(w[:, :1], b[:1])]):
        bad = Policy(learned.weights._replace(spread=wrong), box, {})
        file.write_bytes(bad.to_bytes())
        with pytest.raises(PolicyFileError, match="sizes of the layers"):
            Policy.load(tmp_path)
    plain = Policy(learned.weights._replace(spread=()), box, {})
    assert "spread" not in plain.description()
