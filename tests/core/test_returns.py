"""TD errors and lambda-returns against their definition  (Sec. 3)."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

import oracles
from penfac.core.returns import (
    backward_by_halves,
    backward_in_turn,
    discounts,
    lambda_advantages,
    lambda_returns,
    td_errors,
)
from penfac.settings.horizon import usual_gamma

ENDS = ("goes on", "terminated", "truncated", "both", "row cut")
GAMMAS = [Fraction(0), Fraction(1, 2), Fraction(3, 4), Fraction(1)]
LAMBDAS = [Fraction(0), Fraction(1, 2), Fraction(1)]
quarters = st.integers(-8, 8).map(lambda k: Fraction(k, 4))


def trajectory(ends):
    """The flags of steps that end as named."""
    terminated = [e in ("terminated", "both") for e in ends]
    truncated = [e in ("truncated", "both") for e in ends]
    return terminated, truncated, [e != "goes on" for e in ends]


def next_values(v, last, v_final):
    """V(s_{t+1}): of the next row inside an episode, of the final state at its end."""
    inside = [*v[1:], None]
    rows = zip(last, inside, v_final, strict=True)
    return [final if ended or after is None else after for ended, after, final in rows]


def floats(x):
    return np.array([float(f) for f in x])


@jax.jit
def double_returns(terminated, truncated, last, reward, v, v_next, lam, gamma, keep):
    """From flags to returns, in float64."""
    discount = discounts(terminated, truncated, gamma, keep).astype(jnp.float64)
    return lambda_returns(reward, discount, last, v, v_next, lam)


@settings(max_examples=200)
@given(
    steps=st.lists(
        st.tuples(quarters, quarters, quarters, st.sampled_from(ENDS)),
        min_size=10,
        max_size=10,
    ),
    gamma=st.sampled_from(GAMMAS),
    lam=st.sampled_from(LAMBDAS),
    time_limit=st.sampled_from(["bootstrap", "terminal"]),
)
def test_lambda_returns_equal_their_definition_exactly(steps, gamma, lam, time_limit):
    """V + the recursion = (1-lam) sum lam^(n-1) G^(n) + lam^(N-1) G^(N), as rationals.

    All numbers are short binary fractions, so float64 rounds nothing and the two sides
    must be the same number, across every mix of episode ends.
    """
    reward, v, v_final, ends = zip(*steps, strict=True)
    terminated, truncated, last = trajectory(ends)
    v_next = next_values(v, last, v_final)
    discount = [
        oracles.discount_of(e, c, gamma, time_limit)
        for e, c in zip(terminated, truncated, strict=True)
    ]
    expected = oracles.lambda_returns(reward, discount, last, v_next, lam)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        switches = map(np.float32, (gamma, time_limit == "bootstrap"))
        returns = double_returns(
            *map(np.array, (terminated, truncated, last)),
            *map(floats, (reward, v, v_next)),
            float(lam),
            *switches,
        )
    assert [Fraction(float(g)) for g in returns] == expected


@pytest.mark.parametrize("seed", range(5))
def test_lambda_returns_equal_their_definition_on_long_random_rows(seed):
    """The same in float64 with gamma = .99 and rows of 60 steps, to 1e-12."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(ENDS, size=60, p=[0.88, 0.03, 0.03, 0.03, 0.03])
    terminated, _, last = trajectory(ends)
    reward, v, final = rng.normal(size=(3, 60))
    v_next = next_values(v, last, final)
    discount = np.where(terminated, 0.0, 0.99)
    expected = oracles.lambda_returns(reward, discount, last, v_next, 0.9)
    with jax.enable_x64(True):
        given = (reward, discount, np.array(last), v, np.array(v_next))
        returns = jax.jit(lambda_returns)(*given, 0.9)
    np.testing.assert_allclose(returns, expected, rtol=1e-12, atol=1e-12)


# rlax 0.1.6, rlax/_src/multistep_test.py, LambdaReturnsTest: r_t, discount_t, v_t and
# the printed lambda-returns for lambda = 0.75
RLAX = [
    (
        [1.0, 0.0, -1.0, 0.0, 1.0],
        [0.5, 0.9, 1.0, 0.5, 0.8],
        [3.0, 1.0, 5.0, -5.0, 3.0],
        [1.6460547, 0.72281253, 0.7375001, 0.6500001, 3.4],
    ),
    (
        [0.5, 0.8, -0.7, 0.0, 2.1],
        [0.9, 0.5, 0.3, 0.8, 0.7],
        [-1.7, 1.2, 2.3, 2.2, 2.7],
        [0.7866317, 0.9913063, 0.1101501, 2.834, 3.99],
    ),
]


@pytest.mark.parametrize(("reward", "discount", "v_next", "published"), RLAX)
def test_published_vectors_of_rlax(
    reward, discount, v_next, published, key, strict_dtypes
):
    """rlax's own vectors, with a discount for each step; V(s_0) is free and cancels."""
    v = jnp.array([float(jax.random.normal(key)), *v_next[:-1]])
    last = jnp.zeros(5, bool).at[-1].set(True)
    given = map(jnp.array, (reward, discount))
    returns = lambda_returns(*given, last, v, jnp.array(v_next), 0.75)
    np.testing.assert_allclose(returns, published, rtol=1e-5)
    by_definition = oracles.lambda_returns(reward, discount, last, v_next, 0.75)
    np.testing.assert_allclose(by_definition, published, rtol=1e-6)


def episode(seed=0, steps=9):
    """Rewards, V(s_t) and V(s_{t+1}) of one episode, float32."""
    rng = np.random.default_rng(seed)
    reward, values = rng.normal(size=steps), rng.normal(size=steps + 1)
    f = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    return f(reward), f(values[:-1]), f(values[1:])


def flags(steps, end):
    """(terminated, truncated, last) of one episode that ends as named."""
    return map(jnp.array, trajectory(["goes on"] * (steps - 1) + [end]))


def advantages(reward, v, v_next, end, gamma, lam, bootstrap=1.0):
    terminated, truncated, last = flags(len(reward), end)
    discount = discounts(terminated, truncated, gamma, bootstrap)
    delta = td_errors(reward, discount, v, v_next)
    return lambda_advantages(delta, discount, last, lam)


def test_lambda_0_gives_the_td_errors(strict_dtypes):
    """A = delta = r + gamma V(s') - V(s) for lambda = 0, bit for bit."""
    reward, v, v_next = episode()
    ours = advantages(reward, v, v_next, "terminated", 0.99, 0.0)
    alive = np.array([1] * 8 + [0], np.float32)
    delta = reward + np.float32(0.99) * alive * v_next - v
    np.testing.assert_allclose(ours, delta, rtol=1e-6)


def test_lambda_1_of_a_terminated_episode_is_monte_carlo_minus_v(strict_dtypes):
    """A_t = sum_i gamma^i r_{t+i} - V(s_t): the critic's later values cancel."""
    reward, v, v_next = episode()
    ours = advantages(reward, v, v_next, "terminated", 0.9, 1.0)
    monte_carlo = [
        sum(0.9**i * float(r) for i, r in enumerate(reward[t:])) for t in range(9)
    ]
    np.testing.assert_allclose(ours, monte_carlo - np.asarray(v), atol=1e-5)


def test_lambda_1_of_a_truncated_episode_bootstraps_from_the_final_state(strict_dtypes):
    """A_t = Monte-Carlo + gamma^(T-t) V(final) - V(s_t)."""
    reward, v, v_next = episode()
    ours = advantages(reward, v, v_next, "truncated", 0.9, 1.0)
    expected = [
        sum(0.9**i * float(r) for i, r in enumerate(reward[t:]))
        + 0.9 ** (9 - t) * float(v_next[-1])
        - float(v[t])
        for t in range(9)
    ]
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_an_exact_critic_leaves_no_advantage_whatever_lambda(strict_dtypes):
    """V = V^pi in a deterministic chain: every delta is 0 and G does not see lambda."""
    reward, gamma = np.array([1.0, -2.0, 0.5, 3.0, -1.0]), 0.5
    value = [sum(gamma**i * r for i, r in enumerate(reward[t:])) for t in range(6)]
    r, v, v_next = (
        jnp.asarray(x, jnp.float32) for x in (reward, value[:-1], value[1:])
    )
    for lam in (0.0, 0.3, 1.0):
        ours = advantages(r, v, v_next, "terminated", gamma, lam)
        np.testing.assert_array_equal(ours, np.zeros(5))


@pytest.mark.parametrize("end", ["truncated", "terminated"])
def test_constant_reward_and_value_in_closed_form(end, strict_dtypes):
    """d = c + gamma v - v, x = gamma lam, n steps left: geometric sums.

    Truncated: A = d (1 - x^n) / (1 - x).
    Terminated: A = d (1 - x^(n-1)) / (1 - x) + x^(n-1) (c - v).
    """
    c, v, gamma, lam, steps = 1.0, 3.0, 0.99, 0.9, 12
    x, d = gamma * lam, c + gamma * v - v
    n = steps - np.arange(steps)
    expected = {
        "truncated": d * (1 - x**n) / (1 - x),
        "terminated": d * (1 - x ** (n - 1)) / (1 - x) + x ** (n - 1) * (c - v),
    }[end]
    constant = jnp.full(steps, v)
    ours = advantages(jnp.full(steps, c), constant, constant, end, gamma, lam)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


@pytest.mark.parametrize("k", [0.5, 4.0])
def test_scaling_reward_and_value_scales_the_advantage(k, strict_dtypes):
    """(r, V) -> (k r, k V) gives k A and the same signs; exact for powers of two."""
    reward, v, v_next = episode()
    plain = advantages(reward, v, v_next, "truncated", 0.99, 0.9)
    scaled = advantages(k * reward, k * v, k * v_next, "truncated", 0.99, 0.9)
    np.testing.assert_array_equal(scaled, k * plain)
    np.testing.assert_array_equal(scaled > 0, plain > 0)


def test_a_shift_of_every_reward_is_absorbed_by_the_value(strict_dtypes):
    """r + b with V + b / (1 - gamma) leaves A alone where the future always counts."""
    reward, v, v_next = episode()
    gamma, b = 0.9, 2.0
    shift = b / (1 - gamma)
    plain = advantages(reward, v, v_next, "truncated", gamma, 0.8)
    shifted = advantages(reward + b, v + shift, v_next + shift, "truncated", gamma, 0.8)
    np.testing.assert_allclose(shifted, plain, atol=2e-5)
    # an absorbing end has no future to carry the shift
    ended = advantages(reward + b, v + shift, v_next + shift, "terminated", gamma, 0.8)
    unshifted = advantages(reward, v, v_next, "terminated", gamma, 0.8)
    assert np.abs(ended - unshifted).max() > 1


def test_episodes_on_one_time_axis_equal_episodes_alone_bit_for_bit(strict_dtypes):
    """Nothing crosses a `last` step, terminated, truncated or cut; order is free."""
    lengths, ends = (5, 1, 7, 3), ("terminated", "truncated", "row cut", "both")
    pieces = [
        (*episode(seed, steps), *flags(steps, end))
        for seed, (steps, end) in enumerate(zip(lengths, ends, strict=True))
    ]

    def run(reward, v, v_next, terminated, truncated, last):
        discount = discounts(terminated, truncated, 0.99)
        delta = td_errors(reward, discount, v, v_next)
        return lambda_advantages(delta, discount, last, 0.95)

    alone = [run(*piece) for piece in pieces]
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        joined = [
            jnp.concatenate(x) for x in zip(*(pieces[i] for i in order), strict=True)
        ]
        expected = np.concatenate([alone[i] for i in order])
        np.testing.assert_array_equal(run(*joined), expected)


def test_discount_tells_an_end_from_a_time_limit(strict_dtypes):
    """0 if terminated, also when both flags are up; a time limit cuts only as a switch."""
    terminated = jnp.array([False, True, False, True])
    truncated = jnp.array([False, False, True, True])
    kept = discounts(terminated, truncated, 0.75)
    np.testing.assert_array_equal(kept, [0.75, 0.0, 0.75, 0.0])
    cut = discounts(terminated, truncated, 0.75, 0.0)
    np.testing.assert_array_equal(cut, [0.75, 0.0, 0.0, 0.0])


def test_terminated_wins_over_truncated(strict_dtypes):
    """Both flags up: the final value, however large, is not bootstrapped."""
    reward, v, v_next = episode()
    both = advantages(reward, v, v_next.at[-1].set(1e6), "both", 0.99, 0.9)
    ended = advantages(reward, v, v_next, "terminated", 0.99, 0.9)
    np.testing.assert_array_equal(both, ended)


def test_time_limit_terminal_makes_a_truncation_an_end(strict_dtypes):
    """`bootstrap` = 0: a truncated episode counts as a terminated one (deviation D8)."""
    reward, v, v_next = episode()
    cut = advantages(reward, v, v_next, "truncated", 0.99, 0.9, bootstrap=0.0)
    ended = advantages(reward, v, v_next, "terminated", 0.99, 0.9)
    kept = advantages(reward, v, v_next, "truncated", 0.99, 0.9)
    np.testing.assert_array_equal(cut, ended)
    assert np.abs(kept - ended).max() > 0.01


def test_a_row_that_was_cut_bootstraps_like_a_time_limit(strict_dtypes):
    """The end of a row is no end of the episode: V(s_{t+1}) stands for the rest."""
    reward, v, v_next = episode()
    row = advantages(reward, v, v_next, "row cut", 0.99, 0.9)
    limit = advantages(reward, v, v_next, "truncated", 0.99, 0.9)
    np.testing.assert_array_equal(row, limit)
    # ... and stays so where time limits are made terminal
    terminal = advantages(reward, v, v_next, "row cut", 0.99, 0.9, bootstrap=0.0)
    np.testing.assert_array_equal(terminal, row)


def test_a_column_does_not_broadcast_against_a_row():
    """(N, 1) - (N,) would silently be an N x N matrix: the shapes are executed."""
    row = jnp.ones(4)
    with pytest.raises(TypeCheckError):
        td_errors(row, row, row[:, None], row)


@pytest.mark.slow
def test_advantages_equal_those_of_stable_baselines3():
    """RolloutBuffer.compute_returns_and_advantage on the same arrays.

    Stable-Baselines3 has no truncation in its buffer: its collector adds
    gamma V(final state) to the reward and cuts there, as is done here.
    """
    reason = "stable_baselines3 is not installed (pip install penfac[peers])"
    buffers = pytest.importorskip("stable_baselines3.common.buffers", reason=reason)
    spaces = pytest.importorskip("gymnasium.spaces")
    torch = pytest.importorskip("torch", reason=reason)
    rng = np.random.default_rng(0)
    steps, gamma, lam = 50, 0.99, 0.95
    p = [0.8, 0.1, 0.1]
    ends = [*rng.choice(["goes on", "terminated", "truncated"], steps - 1, p=p)]
    terminated, truncated, last = map(np.array, trajectory([*ends, "row cut"]))
    reward, v, final = rng.normal(size=(3, steps)).astype(np.float32)
    v_next = np.array(next_values(v, last, final))

    box = spaces.Box(-1, 1, (1,))
    buffer = buffers.RolloutBuffer(
        steps, box, box, device="cpu", gae_lambda=lam, gamma=gamma, n_envs=1
    )
    ended = terminated | truncated
    paid = reward + np.where(truncated, gamma * v_next, 0)
    for t in range(steps):
        zero = np.zeros((1, 1), np.float32)
        starts = np.array([t == 0 or ended[t - 1]])
        value = torch.tensor([v[t]])
        buffer.add(zero, zero, paid[t : t + 1], starts, value, torch.zeros(1))
    buffer.compute_returns_and_advantage(torch.tensor([v_next[-1]]), ended[-1:])

    discount = discounts(jnp.array(terminated), jnp.array(truncated), gamma)
    delta = td_errors(jnp.array(reward), discount, jnp.array(v), jnp.array(v_next))
    ours = lambda_advantages(delta, discount, jnp.array(last), lam)
    np.testing.assert_allclose(ours, buffer.advantages[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        jnp.array(v) + ours, buffer.returns[:, 0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("steps", [1, 2, 7, 64, 1000])
def test_both_ways_backward_are_the_same_sum(steps):
    """In turn and by halves, against the sum in double precision; ends cut both."""
    random = np.random.default_rng(steps)
    x = random.normal(size=steps).astype(np.float32)
    decay = np.where(random.random(steps) < 0.05, 0, random.uniform(0.5, 1, steps))
    expected, y = np.zeros(steps), 0.0
    for t in reversed(range(steps)):
        y = expected[t] = x[t] + np.float32(decay[t]) * y
    for backward in (backward_in_turn, backward_by_halves):
        found = backward(jnp.asarray(x), jnp.asarray(decay, jnp.float32))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


# --- gamma by the clock (D28) ------------------------------------------------------------


def test_the_same_seconds_count_the_same_however_small_a_step():
    """gamma^(t / dt) depends on t alone: the horizon is a time."""
    left = [usual_gamma(dt) ** (1.0 / dt) for dt in (0.001, 0.002, 0.008, 0.016)]
    np.testing.assert_allclose(left, left[0], rtol=1e-9)
    assert 1 / (1 - usual_gamma(0.001)) * 0.001 == pytest.approx(1.09, rel=1e-3)


def test_a_coarse_or_unknown_step_has_the_least_gamma():
    assert usual_gamma(None) == usual_gamma(0.05) == usual_gamma(10.0) == 0.985
    assert usual_gamma(1 / 60.6) == pytest.approx(0.985, abs=1e-4)
