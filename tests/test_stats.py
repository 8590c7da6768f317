"""Statistics against scipy, closed forms, brute force and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from penfac import stats
from penfac.stats import welch

NUMBERS = st.floats(-1e4, 1e4, allow_nan=False)
GROUPS = st.lists(st.lists(NUMBERS, min_size=2, max_size=6), min_size=1, max_size=4)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_the_interval_is_welchs():
    """Against the formula, with its degrees of freedom written out."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 2, 30), rng.normal(0, 1, 20)
    va, vb = a.var(ddof=1) / 30, b.var(ddof=1) / 20
    freedom = (va + vb) ** 2 / (va**2 / 29 + vb**2 / 19)
    half = scipy_stats.t.ppf(0.975, freedom) * np.sqrt(va + vb)
    found = welch(a.tolist(), b.tolist())
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert found.low == pytest.approx(found.difference - half)
    assert found.high == pytest.approx(found.difference + half)
    pooled = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    assert found.pooled == pytest.approx(pooled)


# One arm


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 20])
def test_the_iqm_drops_a_quarter_at_each_end(n):
    """As many as fit into a quarter, by sorting."""
    x = normal(n, n)
    assert stats.iqm(x) == pytest.approx(np.mean(sorted(x)[n // 4 : n - n // 4]))


def test_the_profile_is_the_share_of_runs_above():
    """A run at the threshold is not above it."""
    shares = stats.profile([1, 2, 2, 5], [0, 1, 2, 4.9, 5])
    assert shares.tolist() == [1, 0.75, 0.25, 0.25, 0]


def test_the_summary_is_that_of_scipy():
    """Mean, deviation and t interval by scipy's own routes."""
    x = normal(3, 9) * 3 + 5
    found = stats.summary(x)
    t = scipy_stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert found == pytest.approx(
        (9, x.mean(), scipy_stats.tstd(x), scipy_stats.sem(x),
         scipy_stats.trim_mean(x, 0.25), t.low, t.high, min(x), max(x))
    )  # fmt: skip


def test_of_one_seed_nothing_is_said_of_its_spread():
    assert stats.summary([3.0]) == (1, 3, None, None, 3, None, None, 3, 3)


def test_seeds_that_agree_have_an_interval_without_width():
    """0.1 three times sums to a little more than 0.3."""
    assert stats.summary([0.1] * 3) == (3, 0.1, 0, 0, pytest.approx(0.1), *[0.1] * 4)


# Differences of means


def test_a_contrast_of_two_is_welchs_test():
    a, b = normal(1, 7) * 4, normal(2, 12) + 1
    found = stats.contrast([a, b], [1, -1])
    theirs = scipy_stats.ttest_ind(a, b, equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert found[:4] == pytest.approx(
        (a.mean() - b.mean(), interval.low, interval.high, theirs.pvalue)
    )
    ours = welch(a, b)
    assert found[:3] == pytest.approx((ours.difference, ours.low, ours.high))


def test_a_contrast_of_four_follows_satterthwaite():
    """The formula in its usual form, for an interaction of two factors."""
    groups = [normal(k, 5 + k) * (k + 1) for k in range(4)]
    w = np.array([1, -1, -1, 1])
    v = np.array([scipy_stats.tvar(g) / len(g) for g in groups])
    freedom = v.sum() ** 2 / sum(
        x**2 / (len(g) - 1) for x, g in zip(v, groups, strict=True)
    )
    value = sum(k * g.mean() for k, g in zip(w, groups, strict=True))
    low, high = scipy_stats.t.interval(0.95, freedom, value, np.sqrt(v.sum()))
    p = 2 * scipy_stats.t.cdf(-abs(value) / np.sqrt(v.sum()), freedom)
    assert stats.contrast(groups, w)[:4] == pytest.approx((value, low, high, p))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("groups", "weights", "expected"),
    [
        ([[0.1] * 3, [0.1] * 7], [1, -1], (0, 0, 0, 1)),
        ([[2.0] * 3, [1.5] * 2], [1, -1], (0.5, 0.5, 0.5, 0)),
        ([[0.1] * 3, [0.2] * 2, [0.3] * 2], [1, 1, -1], (0, 0, 0, 1)),
    ],
)
def test_groups_that_do_not_vary_leave_nothing_unsure(groups, weights, expected):
    """No NaN, no warning, and rounding alone is no difference."""
    assert stats.contrast(groups, weights)[:4] == expected


@given(GROUPS, st.floats(0.01, 100), NUMBERS)
def test_a_contrast_scales_and_shifts_with_its_groups(groups, scale, shift):
    """A unit is a choice: only the ends of the scale move; p does not."""
    groups = [[*g, g[0] + 1.0] for g in groups]  # none without variance
    weights = [1.0] + [-1.0] * (len(groups) - 1)
    found = stats.contrast(groups, weights)
    moved = stats.contrast([[scale * x + shift for x in g] for g in groups], weights)
    offset = shift * sum(weights)
    size = 1e-6 * (scale * 1e4 + abs(shift) + 1)
    for ours, theirs in zip(found[:3], moved[:3], strict=True):
        assert theirs == pytest.approx(scale * ours + offset, rel=1e-6, abs=size)
    if offset == 0:
        assert moved.p == pytest.approx(found.p, abs=1e-4)


@pytest.mark.parametrize("bound", [-1.0, 0.0, 0.7])
def test_a_contrast_is_above_or_below_a_bound_as_scipy_says(bound):
    """One-sided tests of a shifted sample; certain where nothing varies."""
    a, b = normal(24, 7), normal(25, 9) * 2
    found = stats.contrast([a, b], [1, -1])
    for side, p in (("greater", found.p_above(bound)), ("less", found.p_below(bound))):
        theirs = scipy_stats.ttest_ind(a - bound, b, equal_var=False, alternative=side)
        assert p == pytest.approx(theirs.pvalue)
    certain = stats.contrast([[0.5, 0.5]], [1])
    assert certain.p_above(bound) == float(bound >= 0.5)
    assert certain.p_below(bound) == float(bound <= 0.5)


def test_pairs_are_tested_by_their_differences():
    a, b = normal(4, 8), normal(5, 8) + 0.5
    theirs = scipy_stats.ttest_rel(a, b)
    low, high = theirs.confidence_interval(0.95)
    found = stats.paired(a, b)
    assert found[:4] == pytest.approx((np.mean(a - b), low, high, theirs.pvalue))
    with pytest.raises(ValueError, match="not pairs"):
        stats.paired([1, 2, 3], [1, 2])


def test_welch_errs_as_often_as_it_says_with_five_seeds():
    """Of 4000 pairs of equal arms, 5 % within four standard errors (1.4 %)."""
    x, y = normal(6, 4000, 5), normal(7, 4000, 5)
    wrong = np.mean(
        [stats.contrast([a, b], [1, -1]).p < 0.05 for a, b in zip(x, y, strict=True)]
    )
    assert 0.036 < wrong < 0.064


# Several p-values


def test_holm_is_bonferroni_on_what_is_left():
    """By hand, and ties."""
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert stats.holm([0.6, 0.5]) == [1, 1]
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=9))
def test_holm_keeps_the_order_and_rejects_what_stepping_down_does(ps):
    adjusted = stats.holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    for (p, q), (r, s) in itertools.combinations(zip(ps, adjusted, strict=True), 2):
        assert p == r or (p < r) == (q < s) or q == s
    left, rejected = sorted(ps), 0
    while left and left[0] * len(left) <= 0.05:
        left, rejected = left[1:], rejected + 1
    assert sum(q <= 0.05 for q in adjusted) == rejected


# Probability of improvement


def test_the_probability_of_improvement_is_mann_and_whitneys():
    """With ties; and it is one minus that of the arms exchanged."""
    rng = np.random.default_rng(12)
    a, b = rng.integers(0, 6, 9).astype(float), rng.integers(0, 6, 7).astype(float)
    u = scipy_stats.mannwhitneyu(a, b).statistic
    found, other = stats.improvement(a, b), stats.improvement(b, a)
    assert found.p == pytest.approx(u / 63)
    assert found.low == pytest.approx(1 - other.high)
    assert found.high == pytest.approx(1 - other.low)
    assert 0 < found.low < found.p < found.high < 1


def test_the_interval_of_improvement_holds_what_is_within_196_deviations():
    """Newcombe's inequality at every value of a fine grid, two sizes of sample."""
    a, b = normal(13, 4) + 1, normal(14, 9)
    found = stats.improvement(a, b)
    t = np.linspace(0.0005, 0.9995, 1000)
    mean = (4 + 9) / 2
    variance = t * (1 - t) / 36 * (1 + (mean - 1) * ((1 - t) / (2 - t) + t / (1 + t)))
    inside = np.abs(t - found.p) <= 1.959964 * np.sqrt(variance)
    assert (inside == ((found.low <= t) & (t <= found.high))).all()


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_interval_of_improvement_is_there_when_one_always_wins(n):
    """It ends at 1, is not empty, and shrinks with n."""
    found = stats.improvement(np.arange(n) + 100.0, np.arange(n))
    assert found.p == found.high == 1
    assert 0.3 < found.low < 1
    assert stats.improvement(np.arange(n), np.arange(n) + 100.0)[:2] == (0, 0)
    more = stats.improvement(np.arange(n + 1) + 100.0, np.arange(n + 1))
    assert more.low > found.low


@pytest.mark.parametrize(
    ("n", "least"), [(2, 0.84), (3, 0.84), (5, 0.90), (10, 0.92), (20, 0.92)]
)
def test_the_interval_of_improvement_holds_the_truth_as_often_as_it_should(n, least):
    """Nominally 95 %; so few seeds leave few outcomes, and no interval is exact.

    Over true probabilities and unequal spreads, 1000 studies each; the mean over all
    is near 95 % from five seeds on.
    """
    rng, known, covered = np.random.default_rng(n), {}, []
    for truth, spread in itertools.product((0.5, 0.7, 0.9, 0.97), (1.0, 2.0)):
        shift = scipy_stats.norm.ppf(truth) * np.sqrt(1 + spread**2)
        hits = 0
        for _ in range(1000):
            a, b = rng.normal(shift, spread, n), rng.normal(0, 1, n)
            wins = int((a[:, None] > b).sum())  # all that the interval depends on
            if wins not in known:
                known[wins] = stats.improvement(a, b)
            hits += known[wins].low <= truth <= known[wins].high
        covered.append(hits / 1000)
    assert min(covered) > least
    assert n < 5 or 0.93 < np.mean(covered) < 0.97


# Resampling


def test_few_seeds_are_not_resampled():
    with pytest.raises(ValueError, match="too narrow"):
        stats.iqm_band(np.zeros((19, 3)))


def test_the_band_of_the_iqm_is_the_bootstrap_at_each_point():
    """Weights of order statistics against scipy's bootstrap of each point by itself."""
    returns = normal(16, 23, 3) * [1, 10, 100]
    low, high = stats.iqm_band(returns)
    for k in range(3):
        theirs = scipy_stats.bootstrap(
            (returns[:, k],), lambda x, axis: scipy_stats.trim_mean(x, 0.25, axis),
            n_resamples=2000, method="percentile", rng=5,
        ).confidence_interval  # fmt: skip
        width = high[k] - low[k]
        assert (low[k], high[k]) == pytest.approx(tuple(theirs), abs=0.08 * width)


def test_rliable_finds_the_same():
    """Their interquartile mean and probability of improvement, where it installs."""
    metrics = pytest.importorskip("rliable.metrics")
    scores = normal(19, 11, 3)
    assert stats.iqm(scores.ravel()) == pytest.approx(metrics.aggregate_iqm(scores))
    a, b = normal(20, 9, 1).round(1), normal(21, 6, 1).round(1)
    theirs = metrics.probability_of_improvement(a, b)
    assert stats.improvement(a[:, 0], b[:, 0]).p == pytest.approx(theirs)


# How many seeds


@pytest.mark.parametrize(
    ("n", "comparisons", "d"),
    [(3, 1, 3.07), (5, 1, 2.02), (10, 1, 1.33), (20, 1, 0.91), (60, 1, 0.52), (60, 9, 0.67)],
)  # fmt: skip
def test_the_detectable_difference_is_that_of_the_tables(n, comparisons, d):
    """And scipy's noncentral t gives it the power asked for."""
    found = stats.detectable(n, comparisons=comparisons)
    assert found == pytest.approx(d, abs=0.02)
    freedom, shift = 2 * n - 2, found * np.sqrt(n / 2)
    edge = scipy_stats.t.ppf(1 - 0.025 / comparisons, freedom)
    seen = scipy_stats.nct.sf(edge, freedom, shift) + scipy_stats.nct.cdf(
        -edge, freedom, shift
    )
    assert seen == pytest.approx(0.8, abs=1e-4)


def test_the_detectable_difference_is_known_where_scipys_distribution_is_not():
    """Two seeds and twenty comparisons need a huge one."""
    assert 20 < stats.detectable(2, comparisons=20) < 30


def test_the_detectable_difference_is_detected_by_simulation():
    """80 % of 3000 studies, within four standard errors."""
    x, y = normal(22, 3000, 6) + stats.detectable(6), normal(23, 3000, 6)
    seen = np.mean(
        [stats.contrast([a, b], [1, -1]).p < 0.05 for a, b in zip(x, y, strict=True)]
    )
    assert seen == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("difference", "deviations", "comparisons"),
    [(0.5, (1.0, 1.0), 1), (1.0, (1.0, 1.0), 6), (100.0, (50.0, 180.0), 1), (2.0, (1.5,), 1),
     (3.0, (2.0, 2.0, 1.0, 4.0), 1)],
)  # fmt: skip
def test_the_seeds_that_show_a_difference_are_the_fewest(
    difference, deviations, comparisons
):
    """By scipy's noncentral t: with them the power is there, with one fewer it is not."""
    n = stats.seeds_to_show(difference, deviations, comparisons=comparisons)
    assert n is not None

    def power(n):
        parts = np.square(deviations) / n
        freedom = parts.sum() ** 2 / (parts**2 / (n - 1)).sum()
        shift = difference / np.sqrt(parts.sum())
        edge = scipy_stats.t.isf(0.025 / comparisons, freedom)
        return sum(scipy_stats.nct.sf(edge, freedom, s) for s in (shift, -shift))

    assert power(n) >= 0.7999
    assert power(n - 1) < 0.8001


def test_the_seeds_that_show_a_difference_are_those_of_the_tables():
    """Cohen's: 64 an arm for half a standard deviation, 26 for 0.8."""
    assert [stats.seeds_to_show(d, (1, 1)) for d in (0.5, 0.8)] == [64, 26]


def test_so_many_seeds_show_the_difference_by_simulation():
    """80 % of 3000 studies of unequal spread, within four standard errors."""
    n = stats.seeds_to_show(100, (50, 180)) or 0
    x, y = 100 + 50 * normal(24, 3000, n), 180 * normal(25, 3000, n)
    seen = scipy_stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue < 0.05
    assert seen.mean() == pytest.approx(0.8, abs=0.03)


def test_a_difference_that_no_number_of_seeds_shows():
    assert stats.seeds_to_show(0, (1, 1)) is None
    assert stats.seeds_to_show(1e-4, (1, 1)) is None
    assert stats.seeds_to_show(1, (0, 0)) == 2


# What is refused


CALLS = {
    "iqm": stats.iqm,
    "iqm_band": lambda x: stats.iqm_band(np.array(x * 7)[:, None]),
    "summary": stats.summary,
    "contrast": lambda x: stats.contrast([[1, 2], x], [1, -1]),
    "weights": lambda x: stats.contrast([[1, 2]] * 3, x),
    "paired": lambda x: stats.paired([1, 2, 3], x),
    "improvement": lambda x: stats.improvement(x, [1, 2]),
    "holm": stats.holm,
    "profile": lambda x: stats.profile(x, [1]),
    "seeds_to_show": lambda x: stats.seeds_to_show(1, x),
}  # fmt: skip


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_finite_is_refused(name, bad):
    """A run that diverged must not vanish in a mean."""
    CALLS[name]([0.3, 0.2, 0.1])
    with pytest.raises(ValueError, match=r"finite|number"):
        CALLS[name]([0.3, bad, 0.1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.summary([]),
        lambda: stats.iqm([]),
        lambda: stats.contrast([[1], [1, 2]], [1, -1]),
        lambda: stats.contrast([[1, 2]], [1, -1]),
        lambda: stats.improvement([1], [1, 2]),
        lambda: stats.holm([1.1]),
        lambda: stats.detectable(1),
        lambda: stats.seeds_to_show(1, []),
        lambda: stats.seeds_to_show(1, [1, 1], power=1),
        lambda: stats.seeds_to_show(1, [1, 1], comparisons=0),
    ],
)
def test_too_little_is_refused(call):
    """With words, where numpy would answer NaN and a warning."""
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        call()
