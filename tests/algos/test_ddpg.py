"""DDPG and TD3: each gradient step against back-propagation by hand in float64."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracles
from penfac.algos import ddpg, ddpg_learner
from penfac.algos.base import Moment
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.replay import append
from penfac.core.normalise import BATCH_NORM_EPS
from penfac.settings import presets
from penfac.settings.ddpg import Config

N, M, B = 3, 2, 8
SMALL = {
    "gamma": 0.9,
    "critic_lr": 1e-2,
    "actor_lr": 1e-2,
    "tau": 0.1,
    "random_steps": 0,
    "replay": 64,
    "learning_starts": 1,
    "batch_size": B,
    "gradient_steps": 2,
    "actor_hidden": (6,),
    "critic_hidden": (7,),
    "activation": "tanh",
    "steps_per_world": 5,
    "sigma": 0.1,
}
TWO = {"critics": 2, "target_noise": 0.5, "target_noise_clip": 0.3}

learn = jax.jit(ddpg_learner.learn, static_argnums=4)
update = jax.jit(ddpg.update, static_argnums=2)
mu = jax.jit(ddpg.mu, static_argnums=2)
minibatch = jax.jit(ddpg_learner.minibatch, static_argnums=2)


class Made(NamedTuple):
    cfg: Config
    plan: Plan
    numbers: Numbers
    state: ddpg.State


@pytest.fixture
def make(spec):
    def build(seed=0, **settings) -> Made:
        cfg = Config(**(SMALL | settings))
        plan, numbers = ddpg.DDPG.plan(cfg, spec), ddpg.DDPG.numbers(cfg)
        return Made(cfg, plan, numbers, ddpg.init(jax.random.key(seed), plan, numbers))

    return build


def moment(seed=0):
    return Moment(jax.random.key(seed), jnp.float32(0.0), jnp.float32(0.1))


def stored(made, batch):
    """A replay that holds the batch, and its statistics, nothing learned yet."""
    replay = append(made.state.replay, batch, made.plan.one_world)
    observed = ddpg.running_update(made.state.observed, batch.obs, batch.mask)
    return replay, observed


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def close(a, b, **how):
    how = {"rtol": 1e-3, "atol": 2e-6} | how
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **how), a, b)


def doubles(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


def apart(critics):
    """The critics one by one."""
    count = len(critics[0][1])
    return [doubles([(w[k], b[k]) for w, b in critics]) for k in range(count)]


def unpaired(layers):
    return [x for pair in layers for x in pair]


def paired(arrays):
    return list(zip(arrays[::2], arrays[1::2], strict=True))


class ByHand:
    """The learner as lists of float64 arrays; `step` is Algorithm 1 of DDPG / TD3."""

    def __init__(self, made, normalised):
        cfg, self.normalised = made.cfg, normalised
        self.cfg, online = cfg, made.state.learner.online
        self.actor, self.critics = doubles(online.actor.layers), apart(online.critics)
        self.target_actor, self.target_critics = self.actor, self.critics
        rest = (cfg.adam_b1, cfg.adam_b2)
        self.actor_adam = oracles.Adam(
            cfg.actor_lr, *rest, unpaired(self.actor), cfg.adam_eps
        )
        self.critic_adams = [
            oracles.Adam(cfg.critic_lr, *rest, unpaired(c), cfg.adam_eps)
            for c in self.critics
        ]
        self.steps = 0

    def mean(self, actor, obs):
        out, seen = oracles.mlp(actor, self.normalised(obs), self.cfg.activation)
        return np.tanh(out), seen

    def q(self, critic, obs, action):
        x = np.concatenate([self.normalised(obs), action], axis=1)
        out, seen = oracles.mlp(critic, x, self.cfg.activation)
        return out[:, 0], seen

    def target(self, rows, noise):
        cfg = self.cfg
        action, _ = self.mean(self.target_actor, rows.next_obs)
        limit = cfg.target_noise_clip
        action = np.clip(
            action + np.clip(cfg.target_noise * noise, -limit, limit), -1, 1
        )
        ahead = [self.q(c, rows.next_obs, action)[0] for c in self.target_critics]
        return rows.reward + rows.discount * np.minimum.reduce(ahead)

    def step(self, rows, noise):
        cfg = self.cfg
        rows = jax.tree.map(lambda x: np.asarray(x, float), rows)
        target = self.target(rows, np.asarray(noise, float))
        moved, loss = [], 0.0
        for critic, adam in zip(self.critics, self.critic_adams, strict=True):
            q, seen = self.q(critic, rows.obs, rows.action)
            g = (2 * cfg.critic_error * (q - target) / B)[:, None]
            gradient, _ = oracles.mlp_gradient(critic, seen, cfg.activation, g)
            flat = unpaired(critic)
            # weights and biases in turn, the last two are the output's
            everything = cfg.critic_l2_on == "all"
            held = [
                everything or k in range(0, len(flat) - 2, 2) for k in range(len(flat))
            ]
            decayed = [
                g + cfg.critic_l2 * p * h
                for g, p, h in zip(unpaired(gradient), flat, held, strict=True)
            ]
            moved.append(paired(adam.step(flat, decayed)))
            loss += cfg.critic_error * np.mean((q - target) ** 2)
            squares = sum(np.sum(p**2) * h for p, h in zip(flat, held, strict=True))
            loss += 0.5 * cfg.critic_l2 * squares
        self.critics, self.loss, self.steps = moved, loss, self.steps + 1
        if self.steps % cfg.actor_delay == 0:
            self.improve(rows.obs)

    def improve(self, obs):
        cfg = self.cfg
        action, seen = self.mean(self.actor, obs)
        _, above = self.q(self.critics[0], obs, action)
        _, slope = oracles.mlp_gradient(
            self.critics[0], above, cfg.activation, np.full((B, 1), -1 / B)
        )
        g = slope[:, N:] * (1 - action**2)
        gradient, _ = oracles.mlp_gradient(self.actor, seen, cfg.activation, g)
        moved = self.actor_adam.step(unpaired(self.actor), unpaired(gradient))
        self.actor = paired(moved)

        def nearer(target, source):
            pairs = zip(unpaired(target), unpaired(source), strict=True)
            return paired([(1 - cfg.tau) * t + cfg.tau * s for t, s in pairs])

        self.target_actor = nearer(self.target_actor, self.actor)
        both = zip(self.target_critics, self.critics, strict=True)
        self.target_critics = [nearer(t, s) for t, s in both]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        TWO,
        TWO | {"actor_delay": 2},
        {"critic_l2": 0.3, "reward_scale": 10.0},
        {"critic_l2": 0.3, "critic_l2_on": "hidden-weights", "critic_error": 1.0},
        {"normalise_actor": "running", "normalise_critic": "running", "obs_clip": 1.5},
        {"n_step": 3, "time_limit": "terminal"},
        {"n_step": 3, "n_step_target": "ddrl", "adam_b1": 0.5, "adam_eps": 1e-3},
    ],
    ids=str,
)
def test_gradient_steps_equal_those_by_hand(settings, make, batch):
    """Three steps: target, critics, actor, target networks and their Adams."""
    made = make(**settings)
    replay, observed = stored(made, batch)
    mean, variance = oracles.two_pass(np.asarray(batch.obs)[np.asarray(batch.mask)])
    on = "normalise_actor" in settings

    def normalised(obs):
        clip = made.cfg.obs_clip
        return np.clip((obs - mean) / np.sqrt(variance), -clip, clip) if on else obs

    by_hand, learner = ByHand(made, normalised), made.state.learner
    for k in range(3):
        key = jax.random.key(10 + k)
        sample_key, smooth_key = jax.random.split(key)
        rows = minibatch(replay, sample_key, made.plan, made.numbers)
        by_hand.step(rows, jax.random.normal(smooth_key, (B, M)))
        learner, losses = learn(learner, replay, observed, key, made.plan, made.numbers)
        np.testing.assert_allclose(losses[0], by_hand.loss, rtol=1e-4)
    assert learner.steps == 3
    for networks, actor, critics in (
        (learner.online, by_hand.actor, by_hand.critics),
        (learner.target, by_hand.target_actor, by_hand.target_critics),
    ):
        close(doubles(networks.actor.layers), actor)
        close(apart(networks.critics), critics)


@pytest.mark.parametrize("name", ["ddrl", "baselines"])
def test_the_critics_loss_of_a_preset_is_its_programs(name, make, batch):
    """Caffe halves the squared error and decays everything; OpenAI's baselines halve
    nothing and decay hidden weights, by TensorFlow's half of the squares."""
    kept = presets.preset("ddpg", name, "RoboschoolHalfCheetah-v2")
    asked = ("critic_error", "critic_l2", "critic_l2_on", "reward_scale")
    made = make(critic_hidden=(5, 4), **{k: kept[k] for k in asked})
    replay, observed = stored(made, batch)
    key = jax.random.key(3)
    rows = minibatch(replay, jax.random.split(key)[0], made.plan, made.numbers)
    rows = jax.tree.map(lambda x: np.asarray(x, float), rows)
    by_hand = ByHand(made, lambda obs: obs)
    target, [critic] = by_hand.target(rows, np.zeros((B, M))), by_hand.critics
    squared = np.mean((by_hand.q(critic, rows.obs, rows.action)[0] - target) ** 2)
    (w1, b1), (w2, b2), (w3, b3) = critic
    if name == "ddrl":
        held = sum(np.sum(x**2) for x in (w1, b1, w2, b2, w3, b3))
        loss = squared / 2 + 0.01 * held / 2
    else:
        loss = squared + 0.01 * (np.sum(w1**2) + np.sum(w2**2)) / 2
    _, losses = learn(
        made.state.learner, replay, observed, key, made.plan, made.numbers
    )
    np.testing.assert_allclose(losses[0], loss, rtol=1e-5)


def test_minibatches_are_steps_of_the_batch_with_their_targets(make, batch):
    """n = 1: reward times its scale, gamma or 0, s' as it was stored, row by row."""
    made = make(reward_scale=10.0, time_limit="bootstrap")
    replay, _ = stored(made, batch)
    rows = minibatch(replay, jax.random.key(3), made.plan, made.numbers)
    real = np.flatnonzero(np.asarray(batch.mask))
    by_obs = {np.asarray(batch.obs)[i].tobytes(): i for i in real}
    for k in range(B):
        i = by_obs[np.asarray(rows.obs)[k].tobytes()]
        assert np.all(rows.action[k] == batch.action[i])
        assert np.all(rows.next_obs[k] == batch.next_obs[i])
        np.testing.assert_allclose(rows.reward[k], 10 * batch.reward[i], rtol=1e-6)
        expected = 0 if batch.terminated[i] else made.cfg.gamma
        np.testing.assert_allclose(rows.discount[k], expected, rtol=1e-6)


def test_the_smoothed_action_stays_within_its_limit_and_the_box(make, batch, key):
    """The target under a huge noise lies among those of actions +-clip away, in [-1, 1]."""
    made = make(**(TWO | {"target_noise": 10.0}))
    replay, observed = stored(made, batch)
    rows = minibatch(replay, key, made.plan, made.numbers)
    state = made.state._replace(observed=observed)
    action = np.asarray(mu(state, rows.next_obs, made.plan, made.numbers), float)
    normal = jax.random.normal(key, (B, M))
    noise = np.asarray(normal)
    # ten times a normal is beyond 0.3 but for one draw in forty: the sign alone decides
    pushed = np.clip(action + np.clip(10 * noise, -0.3, 0.3), -1, 1)
    by_hand = ByHand(made, lambda obs: obs)
    rows64 = jax.tree.map(lambda x: np.asarray(x, float), rows)
    ahead = [by_hand.q(c, rows64.next_obs, pushed)[0] for c in by_hand.critics]
    expected = rows64.reward + rows64.discount * np.minimum(*ahead)
    inputs = ddpg_learner.running_inputs(
        observed, made.numbers.normalise_critic.running, jnp.float32(5)
    )
    target = ddpg_learner.critic_target(
        made.state.learner.target,
        rows,
        observed,
        inputs,
        normal,
        made.plan,
        made.numbers,
    )
    np.testing.assert_allclose(target, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(ahead[0] - ahead[1]).max() > 1e-3


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_actor_and_targets_move_only_when_due(delay, make, batch):
    """Every `delay` gradient steps, counted over the run; the critics in every one."""
    made = make(**(TWO | {"actor_delay": delay}))
    replay, observed = stored(made, batch)
    learner = made.state.learner
    for k in range(1, 7):
        before = learner
        learner, losses = learn(
            learner, replay, observed, jax.random.key(k), made.plan, made.numbers
        )
        assert bits(learner.online.critics) != bits(before.online.critics)
        moved = [
            bits(learner.online.actor) != bits(before.online.actor),
            bits(learner.target) != bits(before.target),
            bits(learner.actor_opt) != bits(before.actor_opt),
            float(losses[2]) != 0,
            float(losses[3]) == 1,
        ]
        assert moved == [k % delay == 0] * 5


def test_the_actor_climbs_the_first_critic_alone(make, batch):
    """Another second critic: the same actor, bit for bit; another first one: not."""
    made = make(**TWO)
    _, observed = stored(made, batch)
    off = ddpg_learner.running_inputs(
        observed, made.numbers.normalise_critic.running, jnp.float32(5)
    )
    improve = jax.jit(partial(ddpg_learner.improve_actor, plan=made.plan))
    learner, obs = made.state.learner, batch.obs[:B]

    def actor_with(shift):
        critics = jax.tree.map(
            lambda x: x + jnp.array(shift).reshape(2, *[1] * (x.ndim - 1)),
            learner.online.critics,
        )
        changed = learner._replace(online=learner.online._replace(critics=critics))
        new, _ = improve(changed, obs, observed, off, numbers=made.numbers)
        return bits(new.online.actor)

    plain = actor_with([0.0, 0.0])
    assert actor_with([0.0, 0.7]) == plain
    assert actor_with([0.7, 0.0]) != plain


def test_an_update_is_so_many_gradient_steps(make, batch):
    """gradient_steps of `learn`, each with its own key, on what was just stored."""
    made = make(gradient_steps=3)
    now = moment()
    new, metrics = update(made.state, batch, made.plan, made.numbers, now)
    replay, _ = stored(made, batch)
    learner, sums = made.state.learner, np.zeros(4)
    learn_key, _ = jax.random.split(now.key)
    for k in range(3):
        learner, losses = learn(
            learner, replay, made.state.observed, jax.random.fold_in(learn_key, k),
            made.plan, made.numbers,
        )  # fmt: skip
        sums += np.asarray(losses)
    close(new.learner, learner, rtol=1e-4)
    said = (metrics.critic_loss, metrics.q_mean, metrics.actor_loss)
    assert sums[3] == 3  # the actor was due in each
    np.testing.assert_allclose(said, sums[:3] / 3, rtol=1e-4, atol=1e-6)
    assert metrics.gradient_steps == new.learner.steps == 3
    assert metrics.replayed == np.sum(np.asarray(batch.mask))
    assert metrics.finite


def test_nothing_is_learned_before_enough_is_stored(make, batch):
    """One step short: networks and Adam keep every bit; the replay grows."""
    real = int(np.sum(np.asarray(batch.mask)))
    made = make(learning_starts=real + 1)
    new, metrics = update(made.state, batch, made.plan, made.numbers, moment())
    assert bits(new.learner) == bits(made.state.learner)
    assert metrics.gradient_steps == 0
    assert (metrics.critic_loss, metrics.actor_loss, metrics.q_mean) == (0, 0, 0)
    assert new.replay.total == real
    assert new.observed.seen == real
    exact = made.numbers._replace(learning_starts=jnp.int32(real))
    new, metrics = update(made.state, batch, made.plan, exact, moment())
    assert metrics.gradient_steps == 2
    assert bits(new.learner) != bits(made.state.learner)


def test_the_authors_target_differs_with_several_steps_only(make, batch, key):
    """n = 1: the same rows; n = 3: another reward, discount gamma everywhere."""
    for n, same in ((1, True), (3, False)):
        found = []
        for kind in ("right", "ddrl"):
            made = make(n_step=n, n_step_target=kind)
            replay, _ = stored(made, batch)
            found.append(minibatch(replay, key, made.plan, made.numbers))
        right, wrong = found
        assert (bits(right) == bits(wrong)) is same
        if not same:
            assert bits((right.obs, right.action)) == bits((wrong.obs, wrong.action))
            np.testing.assert_allclose(wrong.discount, np.full(B, 0.9), rtol=1e-6)
            assert np.any(np.asarray(right.discount) < 0.89)


def test_the_targets_are_a_copy_to_begin_with(make):
    """Equal numbers, and init is a function of its key."""
    first, again, other = make(3), make(3), make(4)
    learner = first.state.learner
    assert bits(learner.online) == bits(learner.target)
    assert bits(first.state) == bits(again.state)
    assert bits(learner.online.actor) != bits(other.state.learner.online.actor)


def test_two_critics_start_apart(make):
    """Their own keys: equal critics would make the lesser of two pointless."""
    critics = make(critics=2).state.learner.online.critics
    for w, _ in critics:
        assert np.abs(w[0] - w[1]).min() > 0


def test_an_update_is_a_function_of_its_key(make, batch):
    """The same key, the same bits; another key draws other minibatches."""
    made = make()
    args = (made.state, batch, made.plan, made.numbers)
    assert bits(update(*args, moment(1))) == bits(update(*args, moment(1)))
    assert bits(update(*args, moment(1))) != bits(update(*args, moment(2)))


# --- who plays ------------------------------------------------------------------------


def test_without_noise_on_parameters_the_actor_plays(make, batch):
    """The explorer is the actor, before and after an update."""
    made = make()
    new, metrics = update(made.state, batch, made.plan, made.numbers, moment())
    for state in (made.state, new):
        assert bits(state.explorer) == bits(state.learner.online.actor)
        assert bits(ddpg.behaviour(state)) == bits(state)
    assert metrics.distance == 0


def test_noise_on_parameters_is_played_and_not_judged(make, batch):
    """The explorer's answer differs from mu; mu is the learner's own, as without it."""
    noisy, plain = make(exploration="parameters", sigma=0.3), make(sigma=0.3)
    obs = batch.obs
    after, metrics = update(noisy.state, batch, noisy.plan, noisy.numbers, moment())
    other, _ = update(plain.state, batch, plain.plan, plain.numbers, moment())
    for state, without in ((noisy.state, plain.state), (after, other)):
        own = mu(state, obs, noisy.plan, noisy.numbers)
        played = mu(ddpg.behaviour(state), obs, noisy.plan, noisy.numbers)
        assert np.abs(own - played).max() > 1e-3
        close(own, mu(without, obs, plain.plan, plain.numbers), rtol=1e-5)
    assert bits(after.explorer) != bits(noisy.state.explorer)
    assert metrics.distance > 0


def test_noise_on_parameters_adapts_to_the_distance(make, batch):
    """By 1 % an update, narrower where actions differ more than meant, else wider."""
    for sigma, scale in ((0.3, 1e-3), (1e-3, 1e3)):
        made = make(exploration="parameters", sigma=sigma, learning_starts=64)
        state = made.state._replace(parameter_sigma=jnp.float32(sigma * scale))
        new, metrics = update(state, batch, made.plan, made.numbers, moment())
        wider = metrics.distance <= sigma
        assert wider == (scale < 1)
        factor = 1.01 if wider else 1 / 1.01
        expected = sigma * scale * factor
        np.testing.assert_allclose(new.parameter_sigma, expected, rtol=1e-5)
        assert metrics.parameter_sigma == new.parameter_sigma


# --- batch norm -----------------------------------------------------------------------


def test_batch_norm_statistics_advance_and_enter_mu(make, batch):
    """After one gradient step they are the minibatch's own; mu divides by them."""
    made = make(normalise_actor="batch-norm", gradient_steps=1)
    now = moment()
    new, _ = update(made.state, batch, made.plan, made.numbers, now)
    replay, _ = stored(made, batch)
    key = jax.random.fold_in(jax.random.split(now.key)[0], 0)
    sample_key, _ = jax.random.split(key)
    rows = minibatch(replay, sample_key, made.plan, made.numbers)
    mean, variance = oracles.decayed_batch_stats([np.asarray(rows.obs)], 0.999)
    stats = new.learner.online.batch_stats
    assert stats.weight == B
    np.testing.assert_allclose(stats.mean_sum / B, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(stats.variance_sum / B, variance, rtol=1e-4)
    actor = new.learner.online.actor
    x = (np.asarray(batch.obs, float) - mean) / np.sqrt(variance + BATCH_NORM_EPS)
    x = x * np.asarray(actor.scale) + np.asarray(actor.shift)
    expected = np.tanh(oracles.mlp(doubles(actor.layers), x, "tanh")[0])
    ours = mu(new, batch.obs, made.plan, made.numbers)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_scale_and_shift_are_learned_with_batch_norm_alone(make, batch):
    """They move with it, and keep 1 and 0 without; the targets' follow."""
    with_it, without = make(normalise_actor="batch-norm"), make()
    new, _ = update(with_it.state, batch, with_it.plan, with_it.numbers, moment())
    assert np.all(np.asarray(new.learner.online.actor.scale) != 1)
    assert np.all(np.asarray(new.learner.target.actor.scale) != 1)
    assert new.learner.target.batch_stats.weight > 0
    new, _ = update(without.state, batch, without.plan, without.numbers, moment())
    assert np.all(np.asarray(new.learner.online.actor.scale) == 1)
    assert np.all(np.asarray(new.learner.online.actor.shift) == 0)


def test_learning_with_batch_norm_sees_the_minibatch(make, batch):
    """The actor's gradient flows through inputs normalised by the minibatch itself:
    moving all of its states by a constant changes nothing for the actor."""
    made = make(normalise_actor="batch-norm", critic_hidden=(7,))
    _, observed = stored(made, batch)
    off = ddpg_learner.running_inputs(
        observed, made.numbers.normalise_critic.running, jnp.float32(5)
    )
    learner, obs = made.state.learner, batch.obs[:B]
    # a critic that does not look at the state
    critics = jax.tree.map(lambda x: x, learner.online.critics)
    w, b = critics[0]
    critics = [(w.at[:, :N].set(0.0), b), *critics[1:]]
    learner = learner._replace(online=learner.online._replace(critics=critics))
    improve = jax.jit(partial(ddpg_learner.improve_actor, plan=made.plan))
    here, _ = improve(learner, obs, observed, off, numbers=made.numbers)
    there, _ = improve(learner, obs + 4.0, observed, off, numbers=made.numbers)
    close(here.online.actor, there.online.actor, atol=1e-4)
    apart = here.online.batch_stats.mean_sum - there.online.batch_stats.mean_sum
    np.testing.assert_allclose(apart, np.full(N, -4.0 * B), rtol=1e-4)


def test_the_deployed_policy_is_mu(make, batch):
    """Numpy weights answer as mu does, batch norm included."""
    from penfac.policy import mean_action

    made = make(normalise_actor="batch-norm")
    new, _ = update(made.state, batch, made.plan, made.numbers, moment())
    weights = ddpg.DDPG.policy(new, made.plan, made.numbers)
    ours = mu(new, batch.obs, made.plan, made.numbers)
    np.testing.assert_allclose(
        mean_action(weights, np.asarray(batch.obs)), ours, atol=1e-5
    )
