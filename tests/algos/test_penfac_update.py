"""A whole update of PeNFAC equals a slow version of it, for every variant."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_learners import NOW
from tests.tiers import slow_cases

import oracles
from penfac.algos import penfac as algorithm
from penfac.algos.batch import dealt, padded

# short binary fractions: float32 holds them exactly, so the slow version in float64
# computes with the same numbers
EXACT = {
    "gamma": 0.96875,
    "lam": 0.875,
    "actor_lr": 2.0**-7,
    "critic_lr": 2.0**-6,
    "adam_b2": 1 - 2.0**-10,
    "d_target": 2.0**-5,
    "beta_start": 1.0,
    "beta_min": 2.0**-6,
    "beta_max": 16.0,
    "obs_clip": 1.5,
    "actor_steps": 6,
}
VARIANTS = {
    "penfac": {},
    "nfac": {"actor_update": "cacla", "trust_region": False},
    "spg": {"actor_update": "spg"},
    "rms": {"advantage_scale": "rms"},
    "momentum": {"adam_b1": 0.5},
    "held": {"actor_update": "cacla", "nonpositive": "hold", "trust_region": False},
    "printed": {"distance": "printed", "d_target": 0.125},
    "early stop": {"early_stop": True, "actor_lr": 2.0**-9, "actor_steps": 30},
    "beta not kept": {"beta_keep": False},
    "penalty 2": {"penalty": 2.0},
    "beta from the floor": {"beta_start": 2.0**-14},
    "terminal": {"time_limit": "terminal"},
    "one-step": {"lam": 0.0, "fitted_iterations": 1, "critic_steps": 1},
    "monte-carlo": {"lam": 1.0},
    "raw": {"normalise_actor": "none", "normalise_critic": "none"},
    "batch norm": {"normalise_actor": "batch-norm", "normalise_critic": "none"},
    "linear": {"actor_output": "linear", "activation": "tanh"},
    "scaled rewards": {"normalise_returns": True},
    "centred sign": {"actor_update": "cacla", "centred": True},
    "soft sign": {
        "actor_update": "cacla", "centred": True, "softness": 0.5, "advantage_scale": "rms",
    },
    "centred cac": {"centred": True, "advantage_scale": "rms"},
    "centred spg": {"actor_update": "spg", "centred": True},
    "limit": {"ratio_limit": 0.0625, "centred": True, "actor_steps": 12},
    "beta carried": {"beta_rule": "update"},
    "distance in sigmas": {"distance": "sigma", "d_target": 0.125},
    "minibatches": {"minibatches": 5},
    "more minibatches than steps": {"minibatches": 64, "adam_b1": 0.5},
    "minibatches, batch norm": {"minibatches": 3, "normalise_actor": "batch-norm"},
    "all of it": {
        "normalise_returns": True, "actor_update": "cacla", "centred": True,
        "ratio_limit": 0.125, "beta_rule": "update", "minibatches": 4,
        "actor_output": "linear", "activation": "tanh", "adam_b1": 0.5,
    },
}  # fmt: skip


def slow_orders(batch, plan, key, *counters):
    """The real steps of each minibatch of a pass, numbered as if there were no padding."""
    k, mask = plan.minibatches, np.asarray(batch.mask)
    number = np.cumsum(mask) - 1
    if k == 1:
        return [number[mask]]
    for counter in counters:
        key = jax.random.fold_in(key, counter)
    real = np.asarray(padded(batch.mask, k))
    parts = np.asarray(dealt(key, jnp.asarray(real), k))
    return [number[part[real[part]]] for part in parts]


def doubled(tree):
    """The floats of a tree in float64."""
    wide = lambda x: x.astype(float) if jnp.issubdtype(x.dtype, jnp.floating) else x  # noqa: E731
    return jax.tree.map(wide, tree)


def close(ours, slow, rtol=1e-8, atol=1e-9):
    np.testing.assert_allclose(np.asarray(ours), slow, rtol=rtol, atol=atol)


# programs of their own; the others share one
LARGE = ("minibatches", "more minibatches than steps", "minibatches, batch norm")


@pytest.mark.parametrize("name", slow_cases(VARIANTS, *LARGE))
def test_two_updates_equal_the_slow_version(
    name, make_learner, make_batch, update, float64
):
    """Networks, beta, statistics and every metric, from loops in numpy, to 1e-8.

    The slow version drops the padding, takes returns by their definition, gradients by
    hand, statistics in two passes over all that was seen, and Adam from its paper. Two
    updates from different batches, so that all that is carried over is used.
    """
    learner = make_learner(**(EXACT | VARIANTS[name]))
    state, numbers = doubled((learner.state, learner.numbers))
    slow = oracles.SlowLearner(learner.cfg, state.actor.layers, state.critic)
    for seed in (0, 1):
        batch = doubled(make_batch(seed))
        state, metrics = update(state, batch, learner.plan, numbers)
        critic_key, actor_key = jax.random.split(NOW.key)
        expected = slow.update(
            batch,
            functools.partial(slow_orders, batch, learner.plan, critic_key),
            functools.partial(slow_orders, batch, learner.plan, actor_key),
            sigma=float(NOW.sigma),
        )
        positive = expected.pop("positive_fraction")  # a mean of flags is a float32
        close(metrics.positive_fraction, positive, rtol=1e-6)
        for key, value in expected.items():
            close(getattr(metrics, key), value)
        assert metrics.finite
        for ours, theirs in zip(
            jax.tree.leaves(state.actor), slow.actor_parameters(), strict=True
        ):
            close(ours, theirs)
        for ours, theirs in zip(
            jax.tree.leaves(state.critic), oracles.flat(slow.critic), strict=True
        ):
            close(ours, theirs)
        close(state.beta, slow.beta)
        mean, variance = oracles.two_pass(slow.seen)
        close(state.observed.mean, mean)
        close(state.observed.m2 / state.observed.seen, variance)
        close(algorithm.mu(state, batch.obs, learner.plan, numbers), slow.mu(batch.obs))
