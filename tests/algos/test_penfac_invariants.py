"""What must not matter to an update, must not; what must not break it, does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_learners import NOW

from penfac.algos import networks
from penfac.algos import penfac as algorithm
from penfac.types import Transitions

VARIANTS = {
    "penfac": {},
    "nfac": {"actor_update": "cacla", "trust_region": False},
    "spg, one-step": {"actor_update": "spg", "lam": 0.0},
    "rms, held, printed": {
        "advantage_scale": "rms",
        "nonpositive": "hold",
        "distance": "printed",
    },
    "batch norm": {"normalise_actor": "batch-norm", "normalise_critic": "none"},
}
variants = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


def same_bits(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def near(a, b, atol=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=atol), a, b)


def soil(batch: Transitions, value=7.0) -> Transitions:
    """The padding filled with a value, and its flags turned over."""
    mask = batch.mask

    def fill(x):
        rows = mask.reshape(mask.shape + (1,) * (x.ndim - 1))
        return jnp.where(rows, x, ~x if x.dtype == bool else value)

    return jax.tree.map(fill, batch)._replace(mask=mask)


def seasoned(learner, update, make_batch):
    """The state after one update: no statistic is empty, no moment is 0."""
    return update(learner.state, make_batch(9), learner.plan, learner.numbers)[0]


# --- padding --------------------------------------------------------------------------


@variants
def test_padding_is_inert(settings, make_learner, make_batch, batch, update):
    """What lies behind the mask cannot reach one bit of the state or the metrics."""
    learner = make_learner(**settings)
    state = seasoned(learner, update, make_batch)
    clean = update(state, batch, learner.plan, learner.numbers)
    dirty = update(state, soil(batch), learner.plan, learner.numbers)
    same_bits(clean, dirty)
    assert not np.array_equal(clean[0].critic[0][0], state.critic[0][0])


def test_more_padding_changes_nothing_but_rounding(make_learner, batch, update):
    """Two lengths of one batch: sums may run in another order, no more."""
    learner = make_learner(adam_b1=0.9)
    pad = lambda x: jnp.pad(x, [(0, 16)] + [(0, 0)] * (x.ndim - 1))  # noqa: E731
    longer = jax.tree.map(pad, batch)
    short = update(learner.state, batch, learner.plan, learner.numbers)
    long = update(learner.state, longer, learner.plan, learner.numbers)
    near(short, long)


def test_advantages_are_0_where_nothing_was_played(make_learner, batch):
    """And elsewhere what they are without any padding, bit for bit."""
    learner, real = make_learner(), np.asarray(batch.mask)
    for padded in (batch, soil(batch)):
        v, v_next = (1 + jnp.sin(x[:, 0]) for x in (padded.obs, padded.next_obs))
        ours = algorithm.advantages(v, v_next, padded, learner.numbers)
        np.testing.assert_array_equal(ours[~real], 0)
        played = jax.tree.map(lambda x: x[real], padded)
        alone = algorithm.advantages(v[real], v_next[real], played, learner.numbers)
        np.testing.assert_array_equal(ours[real], alone)


# --- order and weight of episodes -----------------------------------------------------


def episodes_of(batch: Transitions) -> list[Transitions]:
    """The rows up to each `last` step, without padding."""
    real = jax.tree.map(lambda x: np.asarray(x)[np.asarray(batch.mask)], batch)
    ends = np.flatnonzero(real.last) + 1
    starts = [0, *ends[:-1]]
    return [
        jax.tree.map(lambda x, i=i, j=j: x[i:j], real)
        for i, j in zip(starts, ends, strict=True)
    ]


def joined(episodes, length) -> Transitions:
    """Episodes one after another, padded with zeros to `length`."""
    together = jax.tree.map(lambda *x: np.concatenate(x), *episodes)
    missing = length - len(together.mask)
    pad = lambda x: np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1))  # noqa: E731
    return jax.tree.map(lambda x: jnp.asarray(pad(x)), together)


@variants
def test_the_order_of_episodes_does_not_matter(settings, make_learner, batch, update):
    """A batch is a set of episodes: permuted, the update is the same to rounding."""
    learner = make_learner(adam_b1=0.9, **settings)
    episodes, length = episodes_of(batch), len(batch.mask)
    other = [episodes[i] for i in (3, 0, 5, 2, 1, 4)]
    args = (learner.plan, learner.numbers)
    first = update(learner.state, joined(episodes, length), *args)
    second = update(learner.state, joined(other, length), *args)
    near(first, second, atol=1e-4)


def first_gradient(learner, batch, update):
    """With b1 = 0 and one step Adam's first moment is the gradient."""
    new, _ = update(learner.state, batch, learner.plan, learner.numbers)
    return new.actor_opt[0].mu.layers


def test_an_episode_twice_pulls_twice(make_learner, batch, update):
    """The actor's gradient is a sum over steps, the critic's advantages given.

    gradient(batch and one of its episodes again) - gradient(batch) = gradient(episode).
    """
    learner = make_learner(
        actor_steps=1, critic_lr=1e-30, normalise_actor="none", normalise_critic="none"
    )
    episodes, length = episodes_of(batch), len(batch.mask)
    again = first_gradient(learner, joined([*episodes, episodes[1]], length), update)
    once = first_gradient(learner, joined(episodes, length), update)
    alone = first_gradient(learner, joined([episodes[1]], length), update)
    near(jax.tree.map(jnp.subtract, again, once), alone, atol=1e-4)
    assert max(np.abs(x).max() for x in jax.tree.leaves(alone)) > 0.1


def test_the_whole_batch_twice_leaves_the_critic_alone(
    make_learner, make_batch, update
):
    """The critic's loss is a mean over steps: twice every step is the same loss."""
    learner = make_learner(adam_b1=0.9)
    rows = [(5, "terminated", 0), (7, "truncated", 0), (6, "cut", 0)]
    episodes = episodes_of(make_batch(rows=rows))
    once = joined(episodes, 48)
    twice = joined(episodes + episodes, 48)
    args = (learner.plan, learner.numbers)
    first, _ = update(learner.state, once, *args)
    second, _ = update(learner.state, twice, *args)
    near(first.critic, second.critic, atol=1e-5)


# --- little and nothing ---------------------------------------------------------------


@variants
def test_rewards_that_are_all_0_give_no_nan(settings, make_learner, batch, update):
    learner = make_learner(**settings)
    quiet = batch._replace(reward=jnp.zeros_like(batch.reward))
    new, metrics = update(learner.state, quiet, learner.plan, learner.numbers)
    assert metrics.finite
    assert networks.all_finite(new)


@pytest.mark.parametrize("end", ["terminated", "truncated", "cut"])
@variants
def test_a_batch_of_one_step_gives_no_nan(
    settings, end, make_learner, make_batch, update
):
    """N = 1: no variance, no spread of advantages, and an update all the same."""
    learner = make_learner(**settings)
    batch = make_batch(rows=[(1, end, 47)])
    new, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.finite
    assert metrics.explained_variance == 0
    assert not np.array_equal(new.critic[0][0], learner.state.critic[0][0])


def test_observations_that_never_change_give_no_nan(make_learner, batch, update):
    """Every component constant: the normaliser and batch norm divide by something."""
    for normalisation in ("running", "batch-norm"):
        learner = make_learner(normalise_actor=normalisation)
        still = batch._replace(
            obs=jnp.full_like(batch.obs, 3.0), next_obs=jnp.full_like(batch.obs, 3.0)
        )
        state = learner.state
        for _ in range(2):
            state, metrics = update(state, still, learner.plan, learner.numbers)
            assert metrics.finite


# --- divergence -----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["actor_lr", "critic_lr"])
def test_divergence_is_seen(key, make_learner, make_batch, update):
    """A learning rate beyond reason is not finite within a few updates, and says so."""
    learner = make_learner(**{key: 1e30}, actor_output="linear")
    state, flags = learner.state, []
    for seed in range(3):
        state, metrics = update(state, make_batch(seed), learner.plan, learner.numbers)
        flags.append(bool(metrics.finite))
    assert not all(flags)


POISONS = [
    ("reward", jnp.nan),
    ("reward", jnp.inf),
    ("obs", jnp.nan),
    ("next_obs", jnp.nan),
    ("action", jnp.nan),
]


@pytest.mark.parametrize(("field", "value"), POISONS)
def test_a_number_that_is_none_is_seen(field, value, make_learner, batch, update):
    """One NaN or infinity in a real step reaches the flag; finite input never does."""
    learner = make_learner(actor_update="spg")  # SPG: every action counts
    poisoned = getattr(batch, field).at[4].set(value)
    args = (learner.plan, learner.numbers)
    _, bad = update(learner.state, batch._replace(**{field: poisoned}), *args)
    _, good = update(learner.state, batch, *args)
    assert not bad.finite
    assert good.finite


def test_statistics_that_overflow_are_seen(make_learner, batch, update):
    """The clip hides 1e20 from the networks; its square in the normaliser is infinite.

    Every metric of this update is finite: the flag must look at the state too.
    """
    learner = make_learner()
    far = batch._replace(obs=batch.obs.at[4].set(1e20))
    new, metrics = update(learner.state, far, learner.plan, learner.numbers)
    assert networks.all_finite(metrics)
    assert networks.all_finite((new.actor, new.critic))
    assert not metrics.finite


# --- learners beside each other -------------------------------------------------------


@pytest.fixture(scope="module")
def update_many():
    """One call for several learners with the same numbers, compiled once a plan."""

    def many(states, batches, plan, numbers):
        one = lambda s, b: algorithm.update(s, b, plan, numbers, NOW)  # noqa: E731
        return jax.vmap(one)(states, batches)

    return jax.jit(many, static_argnums=2)


def stacked(trees):
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


@variants
def test_learners_do_not_see_each_other(
    settings, make_learner, make_batch, update_many
):
    """Spoil learner 0; learner 2 of the same vmapped call keeps every bit."""
    learners = [make_learner(seed, **settings) for seed in range(3)]
    plan, numbers = learners[0].plan, learners[0].numbers
    states = stacked([one.state for one in learners])
    batches = stacked([make_batch(seed) for seed in range(3)])
    spoiled = batches._replace(
        reward=batches.reward.at[0].set(1e6), obs=batches.obs.at[0].set(jnp.nan)
    )
    clean = update_many(states, batches, plan, numbers)
    beside = update_many(states, spoiled, plan, numbers)
    own = lambda tree: jax.tree.map(lambda x: x[2], tree)  # noqa: E731
    same_bits(own(clean), own(beside))
    assert list(clean[1].finite) == [True, True, True]
    assert list(beside[1].finite) == [False, True, True]


def test_vmapped_learners_learn_what_they_would_alone(
    make_learner, make_batch, update, update_many
):
    """Beside others or alone: the same update to rounding."""
    learners = [make_learner(seed, adam_b1=0.9) for seed in range(3)]
    plan, numbers = learners[0].plan, learners[0].numbers
    states = stacked([one.state for one in learners])
    batches = stacked([make_batch(seed) for seed in range(3)])
    many = update_many(states, batches, plan, numbers)
    for i, one in enumerate(learners):
        alone = update(one.state, make_batch(i), plan, numbers)
        near(jax.tree.map(lambda x, i=i: x[i], many), alone, atol=1e-4)
