"""The policy that leaves in numpy is the policy that learned in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tiers import slow_except

from penfac.algos import penfac as algorithm
from penfac.policy import mean_action

NORMALISATIONS = ["running", "batch-norm", "none"]


def states(seed=0):
    """Many ordinary observations, and the ends of what an environment may send."""
    rng = np.random.default_rng(seed)
    ordinary = rng.normal(size=(500, 3)) * [1, 3, 0.1] + [0, 1, -2]
    extreme = [[0, 0, 0], [1e3, -1e3, 1e3], [-1e4, 1e-4, 0], [1e-30, 0, -1e-30]]
    return np.concatenate([ordinary, extreme]).astype(np.float32)


def trained(make_learner, make_batch, update, **settings):
    learner = make_learner(actor_lr=0.05, actor_steps=8, **settings)
    state = learner.state
    for seed in range(2):
        state, metrics = update(state, make_batch(seed), learner.plan, learner.numbers)
        assert metrics.finite
    return learner, state


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("output", ["tanh", "linear"])
def test_the_numpy_policy_is_mu(
    normalisation, output, make_learner, make_batch, update
):
    """mean_action(policy(state), s) = mu(state, s) to 1e-6, in batches and one by one."""
    learner, state = trained(
        make_learner, make_batch, update,
        normalise_actor=normalisation, actor_output=output,
    )  # fmt: skip
    obs = states()
    weights = algorithm.PENFAC.policy(state, learner.plan, learner.numbers)
    expected = np.asarray(
        algorithm.mu(state, jnp.asarray(obs), learner.plan, learner.numbers)
    )
    ours = mean_action(weights, obs)
    assert ours.dtype == np.float32
    # a linear policy has no bound: its rounding is relative to what it sums
    scale = np.maximum(1, np.abs(obs).max(axis=-1, keepdims=True))
    if normalisation == "batch-norm":
        scale = scale / np.asarray(weights.std).min()
    atol = 1e-6 * (np.ones_like(scale) if output == "tanh" else scale)
    assert np.all(np.abs(ours - expected) <= atol)
    one_by_one = np.stack([mean_action(weights, row) for row in obs[:20]])
    np.testing.assert_allclose(one_by_one, ours[:20], atol=1e-6)
    assert np.ptp(ours) > 0.1  # so that a constant would not pass


@pytest.mark.parametrize(
    "activation", slow_except(["leaky_relu", "relu", "tanh"], "tanh")
)
def test_every_activation_leaves_as_it_learned(
    activation, make_learner, make_batch, update
):
    learner, state = trained(make_learner, make_batch, update, activation=activation)
    obs = states(1)
    weights = algorithm.PENFAC.policy(state, learner.plan, learner.numbers)
    expected = algorithm.mu(state, jnp.asarray(obs), learner.plan, learner.numbers)
    np.testing.assert_allclose(mean_action(weights, obs), expected, atol=1e-6)


def test_a_tanh_policy_stays_in_the_box(make_learner, make_batch, update):
    learner, state = trained(make_learner, make_batch, update, normalise_actor="none")
    weights = algorithm.PENFAC.policy(state, learner.plan, learner.numbers)
    assert np.all(np.abs(mean_action(weights, 1e6 * states())) <= 1)


def test_the_policy_before_any_update_is_finite(make_learner):
    """Empty statistics leave too: batch norm divides by sqrt(0 + 1e-5), not by 0."""
    for normalisation in NORMALISATIONS:
        learner = make_learner(normalise_actor=normalisation)
        weights = algorithm.PENFAC.policy(learner.state, learner.plan, learner.numbers)
        assert np.all(np.isfinite(mean_action(weights, states())))


def test_the_policy_holds_numpy_arrays_alone(make_learner):
    """Nothing of JAX goes to a robot."""
    learner = make_learner()
    weights = algorithm.PENFAC.policy(learner.state, learner.plan, learner.numbers)
    arrays = [
        x for x in jax.tree.leaves(weights) if not isinstance(x, str | float | bool)
    ]
    assert arrays
    assert all(type(x) is np.ndarray for x in arrays)


def test_a_learner_whose_batch_norm_is_off_leaves_without_it(
    make_learner, make_batch, update
):
    """A plan with batch norm, numbers without it: the policy is the running one."""
    running = make_learner(normalise_actor="running")
    roomy = running.plan._replace(batch_norm=True)
    state, _ = update(running.state, make_batch(0), roomy, running.numbers)
    weights = algorithm.PENFAC.policy(state, roomy, running.numbers)
    obs = states()
    expected = algorithm.mu(state, jnp.asarray(obs), running.plan, running.numbers)
    np.testing.assert_allclose(mean_action(weights, obs), expected, atol=1e-6)
    assert weights.clip == 5.0
