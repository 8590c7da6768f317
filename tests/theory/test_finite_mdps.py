"""Random finite MDPs: two routes to everything, and the exact statements on top."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penfac.theory import mdp as problem
from penfac.theory import theorem52


@st.composite
def mdps(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gamma = draw(st.sampled_from([0.0, 0.3, 0.7, 0.95]))
    states, actions = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return problem.random_mdp(rng, states, actions, gamma), rng


@given(mdps())
def test_what_is_seen_and_paid_is_what_the_values_say(given_):
    """sum_s d(s) R(s) = start' V, the first summed over time, the other solved."""
    mdp, rng = given_
    pi = problem.random_policy(rng, mdp)
    seen = problem.visits_over_time(mdp, pi)
    np.testing.assert_allclose(seen.sum(), 1 / (1 - mdp.gamma), rtol=1e-12)
    paid = float(seen @ problem.chain(mdp, pi)[1])
    np.testing.assert_allclose(paid, problem.performance(mdp, pi), atol=1e-10)


@given(mdps())
def test_an_advantage_averages_to_zero_under_its_policy(given_):
    mdp, rng = given_
    pi = problem.random_policy(rng, mdp)
    mean = (pi * problem.advantage_over_time(mdp, pi)).sum(axis=1)
    np.testing.assert_allclose(mean, 0, atol=1e-10)


@given(mdps())
def test_eq_4_and_lemma_5_1_on_any_mdp(given_):
    mdp, rng = given_
    mu, new = problem.deterministic(rng, mdp), problem.deterministic(rng, mdp)
    pi = problem.explored(mu, rng.uniform(0, 1))
    noise = problem.gain_over_time(mdp, pi, mu, seen_by=pi)
    change = problem.gain_over_time(mdp, new, pi, seen_by=new)
    start, between, end = (problem.performance(mdp, p) for p in (mu, pi, new))
    np.testing.assert_allclose(start + noise, between, atol=1e-9)  # Eq. 4
    np.testing.assert_allclose(start + noise + change, end, atol=1e-9)  # Lemma 5.1


@given(mdps())
def test_the_bound_before_l_enters_on_any_mdp(given_):
    """|sum (d~ - d) A(s, mu~(s))| <= epsilon gamma / (1 - gamma)^2 max |P~ - P|_1."""
    mdp, rng = given_
    pi, new = problem.random_policy(rng, mdp), problem.deterministic(rng, mdp)
    advantage = problem.advantage_over_time(mdp, pi)
    seen = [problem.visits_over_time(mdp, p) for p in (new, pi)]
    found = abs((seen[0] - seen[1]) @ (new * advantage).sum(axis=1))
    swing = np.abs(problem.chain(mdp, new)[0] - problem.chain(mdp, pi)[0]).sum(axis=1)
    bound = theorem52.total_variation_bound(
        np.abs(advantage).max(), mdp.gamma, swing.max()
    )
    assert found <= bound + 1e-9


def test_the_surrogate_is_exact_to_first_order_only():
    """Its error falls with the square of the distance, and is not 0."""
    for seed in range(4):
        example = problem.surrogate_example(seed)
        coarse, fine = (problem.surrogate_error(*example, t) for t in (2e-3, 1e-3))
        assert abs(coarse) > 1e-9
        np.testing.assert_allclose(coarse / fine, 4, rtol=0.05)
