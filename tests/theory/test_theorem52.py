"""Theorem 5.2: what is bounded, by three routes; where the printed bound ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from penfac.theory import theorem52
from penfac.theory.bounds import mean_norm, printed_bound
from penfac.theory.counter_example import (
    GAMMAS,
    CounterExample,
    bounds,
    quantity,
    quantity_by_solve,
    smooth_share,
)

WIDE = CounterExample(gamma=0.8, k=1.5, delta=0.3, sigma=0.2)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_closed_form_is_what_linear_solves_give(gamma):
    np.testing.assert_allclose(
        quantity(CounterExample(gamma)),
        quantity_by_solve(CounterExample(gamma)),
        rtol=1e-6,
    )
    wide = WIDE._replace(gamma=gamma)
    np.testing.assert_allclose(quantity(wide), quantity_by_solve(wide), rtol=1e-6)


def played(mdp: CounterExample, policy, worlds: int, steps: int, rng) -> np.ndarray:
    """sum_t gamma^t A^pi(s_t, mu~(s_t)) along states of [0, 1], one number a mdp."""
    s = rng.uniform(0, 0.5, size=worlds)
    total, weight = np.zeros(worlds), 1.0
    for _ in range(steps):
        total += weight * np.where(s < 0.5, 1.0, -1.0)  # A^pi = R, mu~ = delta
        leaves = rng.uniform(size=worlds) < np.minimum(
            1, mdp.k * np.abs(policy(worlds))
        )
        half = (s >= 0.5) | leaves
        s = rng.uniform(0, 0.5, size=worlds) + 0.5 * half
        weight *= mdp.gamma
    return total


def test_the_closed_form_is_what_playing_the_continuous_world_gives():
    """States are real numbers here, and nothing is said of two halves being a chain."""
    rng = np.random.default_rng(0)
    new = played(WIDE, lambda n: np.full(n, WIDE.delta), 40_000, 80, rng)
    old = played(WIDE, lambda n: WIDE.sigma * rng.normal(size=n), 40_000, 80, rng)
    error = np.hypot(new.std(), old.std()) / np.sqrt(40_000)
    assert abs(abs(new.mean() - old.mean()) - quantity(WIDE)) < 4 * error
    assert error < 0.1 * quantity(WIDE)


@given(st.floats(0.51, 0.999))
def test_the_printed_bound_fails_for_every_gamma_above_a_half(gamma):
    """With delta small enough; the excess tends to gamma / (1 - gamma)."""
    mdp = CounterExample(gamma, delta=1e-4 * (1 - gamma), sigma=1e-7 * (1 - gamma))
    share = quantity(mdp) / bounds(mdp)[0]
    assert share > 1
    np.testing.assert_allclose(share, gamma / (1 - gamma), rtol=1e-2)


@given(
    st.floats(0.0, 0.999),
    st.floats(0.1, 5),
    st.floats(1e-4, 0.5),
    st.floats(1e-4, 0.5),
)
def test_the_corrected_bound_holds_in_every_such_world(gamma, k, delta, sigma):
    mdp = CounterExample(gamma, k, delta, sigma)
    printed, corrected = bounds(mdp)
    assert quantity(mdp) <= corrected * (1 + 1e-9) + 1e-12
    if gamma <= 0.5:
        assert quantity(mdp) <= printed * (1 + 1e-9)
    assert (1 - gamma) * quantity(mdp) <= printed * (1 + 1e-9)  # d that sums to 1


@given(st.integers(0, 2**32 - 1))
def test_the_corrected_bound_holds_on_random_mdps(seed):
    sample = theorem52.random_mdps(25, seed)
    room = 1 + 1e-9
    assert (sample.quantity <= sample.without_lipschitz * room + 1e-12).all()
    assert (sample.without_lipschitz <= sample.corrected * room + 1e-12).all()
    assert ((1 - sample.gamma) * sample.quantity <= sample.printed * room).all()
    low = sample.gamma <= 0.5
    assert (sample.quantity <= sample.printed * room)[low].all()


def test_random_mdps_break_the_printed_bound_too():
    """No construction is needed: some of ten thousand, all with a large gamma."""
    sample = theorem52.random_mdps(2500, seed=1)
    broken = sample.quantity > sample.printed
    assert broken.sum() >= 10
    assert sample.gamma[broken].min() > 0.5


def test_a_smooth_world_breaks_the_printed_bound():
    """The corner of |a| and the clipped reward do not matter."""
    assert smooth_share(0.5) < 1 < smooth_share(0.6)
    assert smooth_share(0.9) > 5


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_the_mean_length_of_noise(dimension):
    """Against scipy's chi distribution; the printed 2 m sigma / sqrt(2 pi) is equal in
    one dimension and longer in more."""
    found = mean_norm(dimension, 0.7)
    np.testing.assert_allclose(found, 0.7 * stats.chi(dimension).mean(), rtol=1e-12)
    printed = 2 * dimension * 0.7 / np.sqrt(2 * np.pi)
    assert printed == pytest.approx(found) if dimension == 1 else printed > 1.1 * found


def test_beyond_a_reach_of_1_the_printed_bound_says_nothing():
    """max over t of x^t has no largest term."""
    assert np.isinf(printed_bound(1.0, 1.0, 0.5, 1.2, 1, 0.1))
