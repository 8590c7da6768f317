"""PPO: whole updates against formulas written out and a loop over optax."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oracles
from penfac.algos import ppo, ppo_epochs
from penfac.algos.base import Moment
from penfac.algos.numbers import Numbers, Plan
from penfac.policy import mean_action
from penfac.settings import presets
from penfac.settings.configs import from_values
from penfac.settings.ppo import Config

N, M = 3, 2
SMALL = {
    "gamma": 0.9,
    "lam": 0.8,
    "clip": 0.2,
    "epochs": 1,
    "minibatches": 1,
    "lr": 1e-2,
    "max_grad_norm": 0.5,
    "sigma": 0.7,
    "actor_hidden": (6,),
    "critic_hidden": (5,),
    "activation": "tanh",
    "normalise_obs": False,
    "normalise_returns": False,
    "normalise_advantage": False,
}
update = jax.jit(ppo.update, static_argnums=2)
mu = jax.jit(ppo.mu, static_argnums=2)


class Made(NamedTuple):
    cfg: Config
    plan: Plan
    numbers: Numbers
    state: ppo.State

    def step(self, batch, state=None, **when):
        given = self.state if state is None else state
        return update(given, batch, self.plan, self.numbers, moment(**when))


@pytest.fixture
def make(spec):
    def build(seed=0, **settings) -> Made:
        cfg = Config(**(SMALL | settings))
        plan, numbers = ppo.PPO.plan(cfg, spec), ppo.PPO.numbers(cfg)
        state = ppo.init(jax.random.key(seed), plan, numbers)
        # an actor that is not nearly 0, so that its movement shows
        actor = jax.tree.map(
            lambda x: x + 0.3 * np.sin(1 + np.arange(x.size)).reshape(x.shape),
            state.networks.actor.layers,
        )
        actor = state.networks.actor._replace(layers=jax.tree.map(jnp.float32, actor))
        return Made(
            cfg, plan, numbers,
            state._replace(networks=state.networks._replace(actor=actor)),
        )  # fmt: skip

    return build


def moment(seed=0, progress=0.0, sigma=0.4):
    return Moment(jax.random.key(seed), jnp.float32(progress), jnp.float32(sigma))


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def close(a, b, **how):
    how = {"rtol": 1e-3, "atol": 1e-5} | how
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **how), a, b)


def doubles(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


# --- an update by hand ----------------------------------------------------------------


def value_of(critic, x):
    return oracles.mlp(doubles(critic), np.asarray(x, float), "tanh")[0][:, 0]


def judged(made, batch):
    """(advantage, target, V) of every row, from loops over lambda-returns."""
    cfg, critic = made.cfg, made.state.networks.critic
    v, v_next = value_of(critic, batch.obs), value_of(critic, batch.next_obs)
    reward = np.asarray(batch.reward, float)
    discount = [
        oracles.discount_of(bool(e), bool(c), cfg.gamma, cfg.time_limit)
        for e, c in zip(batch.terminated, batch.truncated, strict=True)
    ]
    last, real = np.asarray(batch.last), np.asarray(batch.mask)
    if cfg.normalise_returns:
        paid = oracles.lambda_returns(reward, discount, last, v_next, 1.0)
        deviation = np.sqrt(oracles.two_pass(np.array(paid)[real])[1])
        reward = np.clip(reward / deviation, -10, 10)
    target = np.array(oracles.lambda_returns(reward, discount, last, v_next, cfg.lam))
    return target - v, target, v


def network(layers, x):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def by_hand(made, batch, orders, sigma=0.4):
    """The networks after one step of Adam for each list of row numbers."""
    cfg, networks = made.cfg, made.state.networks
    advantage, target, v_old = judged(made, batch)
    obs, action, real = batch.obs, batch.action, np.asarray(batch.mask)
    adam = optax.chain(
        optax.clip_by_global_norm(cfg.max_grad_norm),
        optax.adam(cfg.lr, b1=cfg.adam_b1, b2=cfg.adam_b2, eps=cfg.adam_eps),
    )
    opt = adam.init(networks)

    def density(networks):
        learned = jnp.exp(networks.log_sigma)
        wide = learned if cfg.sigma_end is None else jnp.full(M, sigma)
        z = (action - network(networks.actor.layers, obs)) / wide
        each = jnp.exp(-(z**2) / 2) / (wide * np.sqrt(2 * np.pi))
        return jnp.prod(each, axis=1), wide

    old = density(networks)[0]

    def loss(networks, rows):
        new, wide = density(networks)
        r, a = (new / old)[rows], jnp.float32(advantage)[rows]
        if cfg.normalise_advantage:
            a = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
        low, high = 1 - cfg.clip, 1 + cfg.clip
        gain = jnp.minimum(r * a, jnp.clip(r, low, high) * a).mean()
        v = network(networks.critic, obs)[rows, 0]
        error = (v - jnp.float32(target)[rows]) ** 2
        if cfg.clip_value:
            before = jnp.float32(v_old)[rows]
            near = before + jnp.clip(v - before, -cfg.clip, cfg.clip)
            error = jnp.maximum(error, (near - jnp.float32(target)[rows]) ** 2)
        spread = jnp.sum(jnp.log(wide * np.sqrt(2 * np.pi * np.e)))
        return -gain + cfg.value_weight * error.mean() - cfg.entropy_weight * spread

    gradient = jax.grad(loss)
    gradient = jax.jit(gradient) if len(orders) == 1 else gradient
    for order in orders:
        rows = np.array([i for i in order if i < len(real) and real[i]])
        change, opt = adam.update(gradient(networks, rows), opt)
        networks = optax.apply_updates(networks, change)
    return networks


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"normalise_advantage": True, "entropy_weight": 0.1, "value_weight": 2.0},
        {"max_grad_norm": 1e-3, "time_limit": "terminal", "adam_eps": 1e-8},
        {"sigma_end": 0.2, "normalise_returns": True},
    ],
    ids=str,
)
def test_one_step_is_the_formulas(settings, make, batch):
    """One epoch, one minibatch: actor, sigma and critic after one step of Adam."""
    made = make(**settings)
    new, metrics = made.step(batch)
    close(new.networks, by_hand(made, batch, [range(len(batch.mask))]))
    assert metrics.finite
    advantage, target, v = judged(made, batch)
    real = np.asarray(batch.mask)
    loss = 0.5 * np.mean((v - target)[real] ** 2)
    np.testing.assert_allclose(metrics.value_loss, loss, rtol=1e-4)
    if not made.cfg.normalise_advantage:  # all ratios are 1
        np.testing.assert_allclose(
            metrics.policy_loss, -advantage[real].mean(), rtol=1e-3, atol=1e-5
        )
    explained = 1 - (target - v)[real].var() / target[real].var()
    np.testing.assert_allclose(metrics.explained_variance, explained, rtol=1e-3)


@pytest.mark.parametrize("env", ["RoboschoolHalfCheetah-v2", "RoboschoolHumanoid-v2"])
def test_the_value_term_of_authors_is_that_of_openai(env, make, batch):
    """vf_coef 0.5 times half the mean of the worse of two squared errors."""
    kept = presets.preset("ppo", "authors", env)
    made = make(
        **{k: kept[k] for k in ("value_weight", "clip", "clip_value", "entropy_weight")}
    )
    samples = ppo.prepare(made.state, batch, made.plan, made.numbers, moment())
    moved = made.state.networks._replace(
        critic=jax.tree.map(lambda x: x + 0.2, made.state.networks.critic)
    )
    loss, parts = ppo_epochs.surrogate_loss(
        moved, samples, made.numbers.clip, jnp.float32(0.4), made.plan, made.numbers
    )
    v, v_old, target = value_of(moved.critic, batch.obs), samples.v, samples.target
    near = v_old + np.clip(v - v_old, -kept["clip"], kept["clip"])
    worse = np.maximum((v - target) ** 2, (near - target) ** 2)
    half = 0.5 * np.mean(worse[np.asarray(batch.mask)])
    np.testing.assert_allclose(loss - parts[0], 0.5 * half, rtol=1e-4)


def test_authors_hand_the_sample_to_the_environment_as_it_is():
    """D32: OpenAI's program clips nothing; ours does, unless asked."""
    kept = presets.preset("ppo", "authors", "RoboschoolHalfCheetah-v2")
    cfg = from_values(Config, kept)
    assert not ppo.PPO.collecting(cfg).exploration.clip
    assert ppo.PPO.collecting(Config()).exploration.clip


@pytest.mark.parametrize("settings", [{}, {"clip_value": True}], ids=str)
def test_epochs_and_minibatches_are_a_loop(settings, make, batch):
    """2 epochs of 4 minibatches, clipped where the policy moved far: eight steps."""
    made = make(epochs=2, minibatches=4, lr=0.1, normalise_advantage=True, **settings)
    new, metrics = made.step(batch)
    keys = jax.random.split(moment().key, 2)
    missing = -len(batch.mask) % 4
    orders = [
        rows for key in keys for rows in
        np.asarray(jax.random.permutation(key, len(batch.mask) + missing)).reshape(4, -1)
    ]  # fmt: skip
    close(new.networks, by_hand(made, batch, orders), rtol=5e-3, atol=2e-4)
    assert metrics.clip_fraction > 0
    assert metrics.approx_kl > 0


@pytest.mark.parametrize(("rows", "parts"), [(48, 4), (30, 5), (7, 1), (8, 8)])
def test_every_row_is_used_once_an_epoch(rows, parts, key):
    """Minibatches are a partition, in another order with another key."""
    order = np.asarray(ppo_epochs.shuffled(key, rows, parts))
    assert order.shape == (parts, rows // parts)
    assert sorted(order.ravel().tolist()) == list(range(rows))
    other = np.asarray(ppo_epochs.shuffled(jax.random.key(1), rows, parts))
    assert np.any(order != other)


def test_rows_added_for_the_minibatches_are_no_samples(make, batch):
    """Up to a multiple of their number, masked."""
    made = make()
    samples = ppo.prepare(made.state, batch, made.plan, made.numbers, moment())
    for parts in (1, 4, 5, 49):
        more = ppo.padded(samples, parts)
        assert len(more.mask) % parts == 0
        assert len(more.mask) - len(samples.mask) < parts
        assert np.sum(more.mask) == np.sum(samples.mask)
        cut = jax.tree.map(lambda x: x[: len(samples.mask)], more)
        assert bits(cut) == bits(samples)


def test_before_the_first_step_nothing_has_moved(make, batch):
    """One epoch, one minibatch: no action is clipped, no divergence, to rounding."""
    _, metrics = make().step(batch)
    assert metrics.clip_fraction == 0
    assert abs(metrics.approx_kl) < 1e-6


def test_the_policy_moves_toward_the_good_actions(make, batch):
    """A step raises the mean of advantage times log-likelihood: its sign is right."""
    made = make(value_weight=0.0, lr=1e-3)
    new, _ = made.step(batch)
    advantage, _, _ = judged(made, batch)
    real = np.asarray(batch.mask)

    def gain(state):
        mean = np.asarray(mu(state, batch.obs, made.plan, made.numbers), float)
        sigma = np.exp(np.asarray(state.networks.log_sigma, float))
        z = (np.asarray(batch.action) - mean) / sigma
        likelihood = np.sum(-(z**2) / 2 - np.log(sigma), axis=1)
        return np.mean((advantage * likelihood)[real])

    assert gain(new) > gain(made.state)
    assert bits(new.networks.critic) == bits(made.state.networks.critic)


# --- switches -------------------------------------------------------------------------


def single_steps(make_batch):
    """Episodes of one step that terminate: A = r - V(s)."""
    return make_batch(rows=[(1, "terminated", 0)] * 30 + [(1, "terminated", 5)])


@pytest.mark.parametrize("on", [True, False])
def test_standardised_advantages_have_no_level(on, make, make_batch):
    """Every reward higher by 5: the same actor with it, another without."""
    made, batch = (
        make(normalise_advantage=on, value_weight=0.0),
        single_steps(make_batch),
    )
    lifted = batch._replace(reward=batch.reward + 5.0)
    here, there = (made.step(b)[0].networks.actor for b in (batch, lifted))
    same = jax.tree.all(
        jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-3, atol=1e-5), here, there)
    )
    assert same == on


@pytest.mark.parametrize("on", [True, False])
def test_normalised_returns_have_no_scale(on, make, make_batch):
    """Every reward times 100: the same update with it; what was seen is 100 times."""
    rows = [(4, "terminated", 0), (6, "terminated", 2)] * 4
    made, batch = make(normalise_returns=on), make_batch(rows=rows)
    large = batch._replace(reward=batch.reward * 100)
    (here, first), (there, second) = (made.step(b) for b in (batch, large))
    same = np.allclose(first.value_loss, second.value_loss, rtol=1e-3)
    assert same == on
    if on:
        close(here.networks, there.networks)
    np.testing.assert_allclose(there.returned.m2, 1e4 * here.returned.m2, rtol=1e-4)


def test_returns_seen_are_those_the_environment_paid(make, batch):
    """lambda = 1 returns in its own units, V's share scaled back, of real steps only."""
    made = make(normalise_returns=True)
    state, _ = made.step(batch)
    critic, real = state.networks.critic, np.asarray(batch.mask)
    scale = np.sqrt(float(state.returned.m2[0]) / float(state.returned.seen))
    discount = [
        oracles.discount_of(bool(e), bool(c), made.cfg.gamma, "bootstrap")
        for e, c in zip(batch.terminated, batch.truncated, strict=True)
    ]
    again, _ = made.step(batch, state)
    paid = oracles.lambda_returns(
        np.asarray(batch.reward, float), discount, np.asarray(batch.last),
        scale * value_of(critic, batch.next_obs), 1.0,
    )  # fmt: skip
    seen = int(real.sum())
    assert (state.returned.seen, again.returned.seen) == (seen, 2 * seen)
    mean = (np.mean(np.array(paid)[real]) + float(state.returned.mean[0])) / 2
    np.testing.assert_allclose(again.returned.mean[0], mean, rtol=1e-3, atol=1e-5)


def test_clip_and_step_size_are_annealed(make, batch):
    """On a line over the run; at a step size of 0 nothing moves but Adam's memory."""
    made = make(clip_end=0.1, lr_end=0.0)
    for progress, clip, lr in ((0.0, 0.2, 1e-2), (0.5, 0.15, 5e-3), (1.0, 0.1, 0.0)):
        new, metrics = made.step(batch, progress=progress)
        np.testing.assert_allclose(metrics.clip_range, clip, rtol=1e-6)
        np.testing.assert_allclose(metrics.learning_rate, lr, rtol=1e-6)
        moved = bits(new.networks) != bits(made.state.networks)
        assert moved == (lr > 0)
        assert bits(new.opt) != bits(made.state.opt)
    plain = make(clip_end=None, lr_end=None)
    for progress in (0.0, 1.0):
        _, metrics = plain.step(batch, progress=progress)
        np.testing.assert_allclose(metrics.clip_range, 0.2, rtol=1e-6)
        np.testing.assert_allclose(metrics.learning_rate, 1e-2, rtol=1e-6)


def test_the_step_size_scales_the_whole_step(make, batch):
    """Half way through an annealing to 0 each weight moves half as far."""
    made = make(lr_end=0.0)
    whole, half = (made.step(batch, progress=p)[0].networks for p in (0.0, 0.5))
    change = lambda n: jax.tree.map(lambda a, b: a - b, n, made.state.networks)  # noqa: E731
    close(jax.tree.map(lambda x: x / 2, change(whole)), change(half), atol=1e-6)


def test_the_step_size_follows_the_divergence(make, batch):
    """Far too far: divided by 1.5; hardly at all: times 1.5; no target: as it is."""
    shape = {"epochs": 4, "minibatches": 1}
    for lr, target, factor in (
        (0.1, 1e-4, 1 / 1.5),
        (1e-6, 0.01, 1.5),
        (0.1, None, 1.0),
    ):
        made = make(lr=lr, kl_target=target, **shape)
        state, metrics = made.step(batch)
        np.testing.assert_allclose(state.step_factor, factor, rtol=1e-6)
        np.testing.assert_allclose(metrics.learning_rate, lr, rtol=1e-6)
        _, metrics = made.step(batch, state)
        np.testing.assert_allclose(metrics.learning_rate, lr * factor, rtol=1e-6)


def test_a_sigma_that_is_annealed_is_not_learned(make, batch):
    """log_sigma keeps its bits and the given sigma is the policy's; else it is learned."""
    given = jnp.float32(0.4)
    for end in (0.2, None):
        made = make(sigma_end=end, entropy_weight=0.01)
        start = ppo.sigma(made.state, batch.obs, given, made.plan, made.numbers)
        np.testing.assert_allclose(start, np.full(M, 0.4 if end else 0.7), rtol=1e-6)
        new, metrics = made.step(batch, sigma=0.4)
        learned = bits(new.networks.log_sigma) != bits(made.state.networks.log_sigma)
        assert learned == (end is None)
        sigma = ppo.sigma(new, batch.obs, given, made.plan, made.numbers)
        expected = (
            np.exp(np.asarray(new.networks.log_sigma))
            if end is None
            else np.full(M, 0.4)
        )
        np.testing.assert_allclose(sigma, expected, rtol=1e-6)
        entropy = np.sum(0.5 * np.log(2 * np.pi * np.e * np.asarray(start) ** 2))
        np.testing.assert_allclose(metrics.entropy, entropy, rtol=1e-5)


def test_padding_changes_nothing(make, batch):
    """Garbage in it, and more of it: the same update to rounding."""
    made = make(normalise_obs=True, normalise_returns=True, normalise_advantage=True)
    hidden, rng = ~np.asarray(batch.mask), np.random.default_rng(0)

    def spoiled(x):
        garbage = 3 * rng.normal(size=x.shape)
        where = hidden.reshape(-1, *[1] * (x.ndim - 1))
        return jnp.asarray(np.where(where, garbage, x), jnp.float32)

    names = ("obs", "next_obs", "action", "reward")
    dirty = batch._replace(**{k: spoiled(getattr(batch, k)) for k in names})
    flags = rng.random(len(hidden)) < 0.5
    dirty = dirty._replace(**{
        k: jnp.asarray(np.where(hidden, flags, getattr(batch, k)))
        for k in ("terminated", "truncated", "last")
    })  # fmt: skip
    longer = jax.tree.map(
        lambda x: jnp.concatenate([x, jnp.zeros((9, *x.shape[1:]), x.dtype)]), batch
    )
    state, _ = made.step(batch)
    clean = made.step(batch, state)
    for other in (dirty, longer):
        close(clean, made.step(other, state), rtol=1e-3, atol=2e-5)


def test_the_statistics_used_are_those_before_the_batch(make, batch):
    """The first update sees raw observations, the second normalised ones."""
    made = make(normalise_obs=True, obs_clip=1.0)
    state, _ = made.step(batch)
    raw, _ = make().step(batch)
    clipped = batch._replace(
        obs=batch.obs.clip(-1, 1), next_obs=batch.next_obs.clip(-1, 1)
    )
    same, _ = make().step(clipped)
    close(state.networks, same.networks)
    assert bits(state.networks) != bits(raw.networks)
    real = np.asarray(batch.mask)
    assert state.observed.seen == real.sum()
    mean, variance = oracles.two_pass(np.asarray(batch.obs)[real])

    def enter(x):
        return jnp.float32(np.clip((np.asarray(x) - mean) / np.sqrt(variance), -1, 1))

    entered = batch._replace(obs=enter(batch.obs), next_obs=enter(batch.next_obs))
    plain = make()
    there, _ = plain.step(
        entered, plain.state._replace(networks=state.networks, opt=state.opt)
    )
    again, _ = made.step(batch, state)
    close(again.networks, there.networks)


def test_an_update_is_a_function_of_its_key(make, batch):
    """The same key, the same bits; another key, other minibatches."""
    made = make(epochs=2, minibatches=4, normalise_advantage=True)
    assert bits(made.step(batch, seed=1)) == bits(made.step(batch, seed=1))
    here, there = (made.step(batch, seed=s)[0].networks for s in (1, 2))
    assert bits(here) != bits(there)
    assert bits(make(3).state) == bits(make(3).state)
    assert bits(make(3).state.networks) != bits(make(4).state.networks)


def test_the_deployed_policy_is_the_mean(make, batch):
    """Numpy weights answer as mu does, the normaliser included."""
    made = make(normalise_obs=True, obs_clip=1.0)
    state, _ = made.step(batch)
    weights = ppo.PPO.policy(state, made.plan, made.numbers)
    ours = mu(state, batch.obs, made.plan, made.numbers)
    answer = mean_action(weights, np.asarray(batch.obs))
    np.testing.assert_allclose(answer, ours, rtol=1e-4, atol=1e-5)
