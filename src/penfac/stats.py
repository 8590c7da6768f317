"""How sure one is of a difference. Never imports jax; the unit is a seed.

Every function takes numbers of training runs, one a seed; all but `welch` refuse what
is not finite: a run that diverged must be counted by the caller, not lost in a mean.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from penfac.scores import last_tenth

FEWEST_TO_RESAMPLE = 20  # seeds: below, a percentile bootstrap covers too little
ROUNDING = 1e-12  # relative: a sum of means this small is zero


class Difference(NamedTuple):
    """Of two means, with its 95 % interval, and the pooled standard deviation."""

    difference: float
    low: float
    high: float
    pooled: float


class Summary(NamedTuple):
    """Of one score a seed; the 95 % interval is of the mean, by Student's t."""

    n: int
    mean: float
    std: float | None
    stderr: float | None
    iqm: float
    low: float | None
    high: float | None
    worst: float
    best: float


class Contrast(NamedTuple):
    """A weighted sum of means, its 95 % interval, and p of its being zero."""

    value: float
    low: float
    high: float
    p: float
    error: float = 0.0  # standard error
    freedom: float = float("inf")  # degrees of it

    def p_above(self, bound: float) -> float:
        """One-sided p of being at most `bound`: small if clearly above it."""
        if self.error == 0:
            return float(self.value <= bound)
        return float(stats.t.sf((self.value - bound) / self.error, self.freedom))

    def p_below(self, bound: float) -> float:
        """One-sided p of being at least `bound`: small if clearly below it."""
        if self.error == 0:
            return float(self.value >= bound)
        return float(stats.t.cdf((self.value - bound) / self.error, self.freedom))


class Probability(NamedTuple):
    """That one is above another, with its 95 % interval."""

    p: float
    low: float
    high: float


class Equivalence(NamedTuple):
    """p of a difference as large as the margin; and the 90 % interval of it."""

    p: float
    low: float
    high: float
    margin: float


class Aggregate(NamedTuple):
    """IQM over environments; no interval where one has fewer than 20 seeds."""

    iqm: float
    interval: tuple[float, float] | None


def _finite(numbers: ArrayLike, least: int = 1) -> np.ndarray:
    """As an array of floats; ValueError for too few, or any that is not finite."""
    x = np.asarray(numbers, float)
    if x.ndim != 1:
        raise ValueError(f"a list of numbers is needed, not an array {x.shape}")
    if len(x) < least:
        raise ValueError(f"{len(x)} given, at least {least} needed")
    if not np.isfinite(x).all():
        raise ValueError("not all numbers are finite")
    return x


def _curve(steps: Sequence[int], returns: Sequence[float]):
    """Both as arrays; ValueError unless as many of each and the steps rise."""
    s, r = _finite(steps), _finite(returns)
    if len(s) != len(r):
        raise ValueError(f"{len(s)} steps but {len(r)} returns")
    if (np.diff(s) <= 0).any():
        raise ValueError("steps do not rise")
    return s, r


# Curves and the scores made of them


def align(
    curves: Sequence[tuple[Sequence[int], Sequence[float]]], points: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """A grid [P] and returns [seeds, P], between what all seeds have reached.

    The grid is of one point where they share one only; ValueError where none.
    """
    if not curves:
        raise ValueError("no curve given")
    known = [_curve(steps, returns) for steps, returns in curves]
    first = max(steps[0] for steps, _ in known)
    last = min(steps[-1] for steps, _ in known)
    if first > last:
        raise ValueError("there is no step that all seeds have reached")
    grid = np.linspace(first, last, points if first < last else 1)
    return grid, np.array([np.interp(grid, *curve) for curve in known])


def final_score(returns: Sequence[float]) -> float:
    """Mean over the last tenth of the evaluations (`penfac.scores.last_tenth`)."""
    x = _finite(returns)
    return float(x[-last_tenth(len(x)) :].mean())


def early_area(
    steps: Sequence[int], returns: Sequence[float], share: float = 0.25
) -> float:
    """Area under the first quarter of the curve over its width: a mean return.

    Of the steps between the first and the last evaluation; trapezoids, with the
    return at the cut interpolated.
    """
    s, r = _curve(steps, returns)
    if not 0 < share <= 1:
        raise ValueError(f"share is {share}, not above 0 and at most 1")
    cut = s[0] + share * (s[-1] - s[0])
    if cut == s[0]:
        return float(r[0])
    x = np.append(s[s < cut], cut)
    return float(np.trapezoid(np.interp(x, s, r), x) / (cut - s[0]))


def iqm(x: ArrayLike) -> float:
    """Interquartile mean: floor(n/4) dropped at each end, as rliable does.

    No fractional weights: `scipy.stats.trim_mean(x, 0.25)`; below four, the mean.
    """
    return float(stats.trim_mean(_finite(x), 0.25))


def iqm_band(
    returns: np.ndarray, resamples: int = 2000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The percentile bootstrap's 95 % interval of the IQM at each point of a grid.

    Takes [seeds, P] and returns two [P]. The IQM of a resample is a weighted sum of
    the order statistics, and the weights do not depend on the point: they are drawn
    once, and all points are one product of matrices.
    """
    n = len(returns)
    _resamplable(n)
    if not np.isfinite(returns).all():
        raise ValueError("not all numbers are finite")
    drawn = np.random.default_rng(seed).integers(n, size=(resamples, n))
    kept = np.sort(drawn, axis=1)[:, n // 4 : n - n // 4]
    places = (kept + n * np.arange(resamples)[:, None]).ravel()
    counts = np.bincount(places, minlength=resamples * n).reshape(resamples, n)
    weights = counts / kept.shape[1]
    low, high = np.percentile(weights @ np.sort(returns, axis=0), [2.5, 97.5], axis=0)
    return low, high


def profile(scores: Sequence[float], thresholds: Sequence[float]) -> np.ndarray:
    """The share of runs above each threshold."""
    runs, levels = _finite(scores), _finite(thresholds)
    return (runs[None, :] > levels[:, None]).mean(axis=1)


def summary(scores: Sequence[float]) -> Summary:
    """Of one score a seed; of a single one, what can be said of it."""
    x = _finite(scores)
    n, mean, variance = _moments(x)
    ends = (float(x.min()), float(x.max()))
    if n == 1:
        return Summary(1, mean, None, None, mean, None, None, *ends)
    std = variance**0.5
    found = contrast([x], [1.0])
    return Summary(n, mean, std, std / n**0.5, iqm(x), found.low, found.high, *ends)


# Differences of means


def _moments(x: np.ndarray) -> tuple[int, float, float]:
    """How many, mean and variance; exact where all are the same number."""
    if x.min() == x.max():  # else rounding makes a variance of 1e-34, and p of it
        return len(x), float(x[0]), 0.0
    return len(x), float(x.mean()), float(x.var(ddof=1))


def _weighted(
    groups: Sequence[ArrayLike], weights: Sequence[float]
) -> tuple[float, float, float]:
    """Sum of w_k mean_k, its standard error, Welch and Satterthwaite's freedom."""
    w = _finite(weights)
    if len(groups) != len(w):
        raise ValueError(f"{len(groups)} groups but {len(w)} weights")
    n, mean, variance = np.array([_moments(_finite(g, least=2)) for g in groups]).T
    value = float((w * mean).sum())
    if abs(value) <= ROUNDING * np.abs(w * mean).sum():
        value = 0.0
    parts = w**2 * variance / n
    total = parts.sum()
    if total == 0:
        return value, 0.0, float("inf")
    # shares of the total: squares of tiny variances would vanish
    return (
        value,
        float(np.sqrt(total)),
        float(1 / ((parts / total) ** 2 / (n - 1)).sum()),
    )


def welch(a: Sequence[float], b: Sequence[float]) -> Difference:
    """mean(a) - mean(b) for samples whose variances may differ; two of each at least.

    What is printed at the end of hours: NaN of one run or of NaN, never an error.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    interval = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    pooled = float(np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2))
    mean = float(x.mean() - y.mean())
    return Difference(mean, float(interval.low), float(interval.high), pooled)


def welch_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the means being the same, the variances free."""
    return contrast([a, b], [1.0, -1.0]).p


def contrast(
    groups: Sequence[Sequence[float] | np.ndarray], weights: Sequence[float]
) -> Contrast:
    """Sum of w_k mean_k over groups whose variances may differ; two of each at least.

    The degrees of freedom are Welch and Satterthwaite's. Where no group varies there
    is nothing to be unsure of: the interval is the value, and p is 0, or 1 at zero.
    """
    value, error, freedom = _weighted(groups, weights)
    if error == 0:
        return Contrast(value, value, value, float(value == 0))
    half = float(stats.t.ppf(0.975, freedom)) * error
    p = 2 * float(stats.t.sf(abs(value) / error, freedom))
    return Contrast(value, value - half, value + half, p, error, freedom)


def paired(a: Sequence[float], b: Sequence[float]) -> Contrast:
    """The mean of a - b, pairs by position: the same seed in two arms."""
    x, y = _finite(a), _finite(b)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} are not pairs")
    return contrast([x - y], [1.0])


def tost(a: Sequence[float], b: Sequence[float], margin: float) -> Equivalence:
    """Are the means within a margin of each other? Two one-sided Welch tests.

    p is the larger; below 0.05 just where the 90 % interval lies inside the margin.
    """
    if not (np.isfinite(margin) and margin > 0):
        raise ValueError(f"the margin is {margin}, not a number above 0")
    value, error, freedom = _weighted([a, b], [1.0, -1.0])
    if error == 0:
        return Equivalence(float(abs(value) >= margin), value, value, margin)
    half = float(stats.t.ppf(0.95, freedom)) * error
    p = float(stats.t.sf((margin - abs(value)) / error, freedom))
    return Equivalence(p, value - half, value + half, margin)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values adjusted for how many there are (Holm 1979), in the given order."""
    p = _finite(ps, least=0)
    if ((p < 0) | (p > 1)).any():
        raise ValueError("a p-value is between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted.tolist()


# Without means


def improvement(a: Sequence[float], b: Sequence[float]) -> Probability:
    """P(A > B) + P(A = B) / 2, of a run of each; two of each at least.

    The interval is method 5 of Newcombe (Statistics in Medicine 25, 2006): all t with
    |t - p| <= 1.96 sd(t), where sd is Hanley and McNeil's with both sample sizes of
    its numerator replaced by their mean. It is never empty, also at p = 0 or 1; it
    holds the truth 91 to 97 % of the time from five seeds on, 85 to 100 % with two.
    """
    x, y = _finite(a, least=2), _finite(b, least=2)
    m, n = len(x), len(y)
    above = (x[:, None] > y).mean() + (x[:, None] == y).mean() / 2
    p, others, z = float(above), (m + n) / 2 - 1, float(stats.norm.ppf(0.975))

    def beyond(t: float) -> float:
        """Above zero where t is too far from p."""
        spread = 1 + others * ((1 - t) / (2 - t) + t / (1 + t))
        return (t - p) ** 2 * m * n - z**2 * t * (1 - t) * spread

    tiny = 1e-9  # off p itself, where both sides are zero if p is 0 or 1
    low = 0.0 if p == 0 else optimize.brentq(beyond, 0, min(p, 1 - tiny))
    high = 1.0 if p == 1 else optimize.brentq(beyond, max(p, tiny), 1)
    return Probability(p, float(low), float(high))  # pyright: ignore[reportArgumentType]


def _resamplable(n: int) -> None:
    if n < FEWEST_TO_RESAMPLE:
        raise ValueError(
            f"{n} seeds: below 20 seeds a percentile bootstrap is too narrow"
        )


def bootstrap(
    strata: Sequence[np.ndarray],
    statistic: Callable[[list[np.ndarray]], float],
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile 95 % interval, runs drawn again inside each stratum.

    A stratum is an environment or an arm: what was chosen, not drawn. Rows of an
    array stay whole.
    """
    if not strata:
        raise ValueError("no stratum given")
    known = [np.asarray(s, float) for s in strata]
    for stratum in known:
        _resamplable(len(stratum))
        if not np.isfinite(stratum).all():
            raise ValueError("not all numbers are finite")
    rng = np.random.default_rng(seed)
    found = [
        statistic([s[rng.integers(len(s), size=len(s))] for s in known])
        for _ in range(resamples)
    ]
    low, high = np.percentile(_finite(found), [2.5, 97.5])
    return float(low), float(high)


def aggregate(
    scores: Mapping[str, Sequence[float]],
    low: Mapping[str, float],
    high: Mapping[str, float],
) -> Aggregate:
    """IQM of the runs of all environments, each scored from 0 at low to 1 at high.

    low and high are fixed beforehand: taken from the runs themselves they would make
    the scale a result. As in rliable all runs are one sample, so an environment with
    more seeds weighs more.
    """
    if not scores:
        raise ValueError("no environment given")
    strata = []
    for env, of_seeds in scores.items():
        ends = _finite([low[env], high[env]])
        if ends[0] >= ends[1]:
            raise ValueError(f"{env}: low {ends[0]:g} is not below high {ends[1]:g}")
        strata.append((_finite(of_seeds) - ends[0]) / (ends[1] - ends[0]))

    def pooled(parts: list[np.ndarray]) -> float:
        return float(stats.trim_mean(np.concatenate(parts), 0.25))

    enough = min(map(len, strata)) >= FEWEST_TO_RESAMPLE
    return Aggregate(pooled(strata), bootstrap(strata, pooled) if enough else None)


# How many seeds


def _power(n: int, d: float, alpha: float) -> float:
    """Of a two-sided Welch test of two arms with n seeds and d deviations between.

    The noncentral t as what it is, a normal over a chi: scipy's own is NaN for few
    seeds and large d.
    """
    freedom, shift = 2 * n - 2, d * (n / 2) ** 0.5
    edge = stats.t.isf(alpha / 2, freedom)
    share = (np.arange(4000) + 0.5) / 4000
    beyond = edge * np.sqrt(stats.chi2.ppf(share, freedom) / freedom)
    seen = stats.norm.sf(beyond - shift) + stats.norm.sf(beyond + shift)
    return float(seen.mean())


def _check_power(power: float) -> None:
    if not 0.05 < power < 1:
        raise ValueError(f"a power of {power} is not between 0.05 and 1")


def detectable(n: int, power: float = 0.8, comparisons: int = 1) -> float:
    """The difference, in standard deviations, that n seeds an arm see that often.

    By the noncentral t, at 0.05 over the number of comparisons.
    """
    _check_power(power)
    if n < 2 or comparisons < 1:
        raise ValueError("two seeds an arm and one comparison at least")
    alpha = 0.05 / comparisons
    top = 1.0
    while _power(n, top, alpha) < power:
        top *= 2
    root = optimize.brentq(lambda d: _power(n, d, alpha) - power, 0, top)
    return float(root)  # pyright: ignore[reportArgumentType]


def seeds_needed(d: float, power: float = 0.8) -> int:
    """The fewest seeds an arm that see d standard deviations that often."""
    _check_power(power)
    if not np.isfinite(d) or d == 0:
        raise ValueError(f"{d} standard deviations: no number of seeds sees that")
    enough = 2
    while _power(enough, abs(d), 0.05) < power:
        enough *= 2
    few = enough // 2  # too few, or 1
    while enough - few > 1:
        middle = (few + enough) // 2
        if _power(middle, abs(d), 0.05) < power:
            few = middle
        else:
            enough = middle
    return enough
