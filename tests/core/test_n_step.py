"""Returns over windows of n steps against loops that walk them step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.core.returns import ddrl_n_step_returns, n_step_returns

GAMMA = 0.9
right = jax.jit(n_step_returns)
ddrl = jax.jit(ddrl_n_step_returns)


def walk(reward, discount, follows):
    """One window: rewards as long as steps follow, each behind the discounts before it."""
    total, product = 0.0, 1.0
    for i in range(len(reward)):
        total += product * reward[i]
        product *= discount[i]
        if not follows[i]:
            break
    return total, product, i


def walk_like_ddrl(reward, discount, follows, gamma):
    """Steps are appended while they follow and do not terminate; the last is not paid."""
    taken = [0]
    for i in range(1, len(reward)):
        if not follows[i - 1] or discount[i] == 0:
            break
        taken.append(i)
    total = sum(gamma**k * reward[k] for k in taken[:-1])
    return total, gamma, taken[-1]


def window_of(steps):
    """(reward, how it ends) of each step to (reward, discount, follows)."""
    steps = list(steps)
    reward = np.array([r for r, _ in steps], np.float32)
    terminated = np.array([end == "terminated" for _, end in steps])
    follows = np.array([end == "goes on" for _, end in steps])
    return reward, np.where(terminated, 0, GAMMA).astype(np.float32), follows


def stacked(windows):
    return tuple(jnp.asarray(np.stack(x)) for x in zip(*windows, strict=True))


def random_windows(seed, count=300, n=5):
    """Windows with every mix of ends and cuts."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(["goes on", "terminated", "cut"], (count, n), p=[0.7, 0.15, 0.15])
    rewards = rng.normal(size=(count, n))
    return [window_of(zip(*w, strict=True)) for w in zip(rewards, ends, strict=True)]


def equal(found, expected):
    total, discount, last = map(np.array, zip(*expected, strict=True))
    np.testing.assert_allclose(found[0], total, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], discount, rtol=1e-6)
    assert np.all(found[2] == last)


@pytest.mark.parametrize("seed", range(3))
def test_windows_equal_a_walk_along_them(seed):
    """Sum, discount behind it and its last step, across every mix of ends and cuts."""
    windows = random_windows(seed)
    equal(right(*stacked(windows)), [walk(*w) for w in windows])


@pytest.mark.parametrize("seed", range(3))
def test_the_authors_windows_equal_a_walk_along_them(seed):
    """The same for what their program computed."""
    windows = random_windows(seed)
    expected = [walk_like_ddrl(*w, GAMMA) for w in windows]
    equal(ddrl(*stacked(windows), GAMMA), expected)


def rows(ends, reward=None):
    steps = [(1.0 if reward is None else reward[i], e) for i, e in enumerate(ends)]
    return stacked([window_of(steps)])


def test_a_termination_inside_a_window_leaves_nothing_behind():
    """Its own reward counts; the discount of what comes behind is exactly 0."""
    window = rows(["goes on", "terminated", "goes on"], [1.0, 2.0, 100.0])
    total, discount, last = right(*window)
    np.testing.assert_allclose(total, [1 + GAMMA * 2], rtol=1e-6)
    assert discount[0] == 0
    assert last[0] == 1


def test_a_cut_bootstraps_with_the_discounts_really_taken():
    """Two steps taken of four: gamma^2 and the second state's successor."""
    window = rows(["goes on", "cut", "goes on", "goes on"], [1.0, 2.0, 100.0, 100.0])
    total, discount, last = right(*window)
    np.testing.assert_allclose(total, [1 + GAMMA * 2], rtol=1e-6)
    np.testing.assert_allclose(discount, [GAMMA**2], rtol=1e-6)
    assert last[0] == 1


@pytest.mark.parametrize("end", ["goes on", "cut", "terminated"])
def test_one_step_is_the_ordinary_target(end):
    """(r, d, 0), bit for bit, however the step ends."""
    reward, discount, follows = rows([end], [-0.7])
    total, behind, last = right(reward, discount, follows)
    assert total[0] == reward[0, 0]
    assert behind[0] == discount[0, 0]
    assert last[0] == 0


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_a_constant_reward_is_a_geometric_sum(n):
    """(1 - gamma^n) / (1 - gamma), and gamma^n behind it."""
    total, discount, last = right(*rows(["goes on"] * n))
    np.testing.assert_allclose(total, [(1 - GAMMA**n) / (1 - GAMMA)], rtol=1e-5)
    np.testing.assert_allclose(discount, [GAMMA**n], rtol=1e-5)
    assert last[0] == n - 1


def test_windows_do_not_see_each_other():
    """A row alone and the same row among others: the same bits."""
    rng = np.random.default_rng(0)
    ends = ["goes on", "goes on", "terminated", "cut"]
    windows = [
        window_of([(rng.normal(), rng.choice(ends)) for _ in range(4)])
        for _ in range(6)
    ]
    together = right(*stacked(windows))
    for k, window in enumerate(windows):
        alone = right(*stacked([window]))
        assert all(a[0] == b[k] for a, b in zip(alone, together, strict=True))


def test_the_authors_miss_the_last_reward_and_discount_once():
    """Three steps: r0 + gamma r1 + gamma Q(s3), not r0 + g r1 + g^2 r2 + g^3 Q(s3)."""
    total, discount, last = ddrl(*rows(["goes on"] * 3, [1.0, 2.0, 100.0]), GAMMA)
    np.testing.assert_allclose(total, [1 + GAMMA * 2], rtol=1e-6)
    np.testing.assert_allclose(discount, [GAMMA], rtol=1e-6)
    assert last[0] == 2


@pytest.mark.parametrize(("at", "last"), [(0, 0), (1, 0), (2, 1), (3, 2)])
def test_the_authors_never_see_a_termination(at, last):
    """Wherever it is, gamma stays behind the window, which stops before it; a window
    that begins with it keeps just that step."""
    ends = ["terminated" if i == at else "goes on" for i in range(4)]
    _, discount, reached = ddrl(*rows(ends), GAMMA)
    np.testing.assert_allclose(discount, [GAMMA], rtol=1e-6)
    assert reached[0] == last
