"""Theorem 5.2: the printed bound, its counter-example, and a bound that is true."""

from typing import NamedTuple

import numpy as np

from penfac.theory import waves
from penfac.theory.bounds import corrected_bound, printed_bound, total_variation_bound
from penfac.theory.canvas import BLACK, BLUE, GREY, RED, canvas, png
from penfac.theory.counter_example import (
    GAMMAS,
    CounterExample,
    bounds,
    quantity,
    quantity_by_solve,
    smooth_share,
)
from penfac.theory.statement import CheckResult, Statement, at_most


def check_printed() -> CheckResult:
    """The counter-example against the printed bound, gamma = 0.99."""
    numbers = {}
    for gamma in GAMMAS:
        numbers[f"quantity at gamma {gamma:g}"] = quantity(CounterExample(gamma))
        numbers[f"printed bound at gamma {gamma:g}"] = bounds(CounterExample(gamma))[0]
    mdp = CounterExample(0.99)
    numbers["quantity by linear solves"] = quantity_by_solve(mdp)
    numbers["times the bound in a smooth form, gamma 0.9"] = smooth_share(0.9)
    return at_most(quantity(mdp), bounds(mdp)[0], numbers)


def check_small_gamma(many: int = 1000, seed: int = 0) -> CheckResult:
    """For gamma <= 1/2 the printed bound is true: the corrected one is below it."""
    sample = random_mdps(many, seed, high=0.5)
    mdp = CounterExample(0.5)
    numbers = {
        "random MDPs": len(sample.gamma),
        "largest share on them": (sample.quantity / sample.printed).max(),
        "share on the counter-example, gamma 0.5": quantity(mdp) / bounds(mdp)[0],
    }
    below_printed = bool((sample.corrected <= sample.printed * (1 + 1e-12)).all())
    worst = max(list(numbers.values())[1:])
    return at_most(worst, 1.0, numbers, also=below_printed)


def check_normalised() -> CheckResult:
    """With d scaled to sum to 1 the printed bound is true for every gamma."""
    examples = {g: CounterExample(g) for g in GAMMAS}
    shares = {
        g: quantity_by_solve(mdp) * (1 - g) / bounds(mdp)[0]
        for g, mdp in examples.items()
    }
    numbers = {f"share at gamma {g:g}": share for g, share in shares.items()}
    return at_most(max(shares.values()), 1.0, numbers)


def check_corrected(many: int = 2500, seed: int = 1) -> CheckResult:
    """The corrected bound is never exceeded on thousands of random MDPs."""
    sample = random_mdps(many, seed)
    share = sample.quantity / sample.corrected
    sharper = sample.quantity / sample.without_lipschitz
    numbers = {
        "random MDPs": len(share),
        "median share": np.median(share),
        "largest share before L enters": sharper.max(),
        "above the printed bound": (sample.quantity > sample.printed).sum(),
    }
    return at_most(share.max(), 1.0, numbers, also=bool(sharper.max() <= 1))


def check_attained() -> CheckResult:
    """The counter-example reaches at least 0.85 of the corrected bound."""
    examples = {g: CounterExample(g) for g in GAMMAS}
    reached = {
        g: quantity_by_solve(mdp) / bounds(mdp)[1] for g, mdp in examples.items()
    }
    numbers = {f"share at gamma {g:g}": share for g, share in reached.items()}
    finer = CounterExample(0.99, delta=1e-5, sigma=1e-7)
    numbers["share at gamma 0.99, a hundredth of delta and sigma"] = (
        quantity(finer) / bounds(finer)[1]
    )
    return at_most(0.85, reached[0.99], numbers, also=max(reached.values()) <= 1)


# --- random MDPs -------------------------------------------------------------------------


class Sample(NamedTuple):
    """Random MDPs: the quantity of Theorem 5.2, its bounds, gamma; one entry an MDP."""

    quantity: np.ndarray
    printed: np.ndarray
    corrected: np.ndarray
    without_lipschitz: np.ndarray  # the corrected bound before L enters
    gamma: np.ndarray


def random_mdps(many: int, seed: int, low: float = 0.0, high: float = 0.999) -> Sample:
    """`many` MDPs of each of four sizes, with 1 - gamma log-uniform."""
    rng = np.random.default_rng(seed)
    parts = []
    for states, m in ((2, 1), (3, 1), (5, 2), (8, 3)):
        gamma = 1 - np.exp(rng.uniform(np.log(1 - high), np.log(1 - low), size=many))
        problem = waves.random_waves(rng, (many,), states, m, gamma)
        sigma = 10 ** rng.uniform(-4, 0, size=many)
        reach = 10 ** rng.uniform(-4, 0, size=(many, 1, 1))
        mu = rng.normal(size=(many, states, m))
        new = mu + reach * rng.normal(size=(many, states, m))
        parts.append(sample_of(problem, mu, new, sigma))
    return Sample(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def sample_of(problem: waves.Waves, mu: np.ndarray, new: np.ndarray, sigma) -> Sample:
    """The quantity and its bounds, for a batch of MDPs and pairs of policies."""
    v, zero = waves.value(problem, mu, sigma), np.zeros_like(sigma)
    change = waves.visits(problem, new, zero) - waves.visits(problem, mu, sigma)
    found = np.abs((change * waves.advantage(problem, v, new)).sum(axis=-1))
    largest = waves.largest_advantage(problem, v)
    under_new = waves.transitions(problem, new, zero)
    turned = under_new - waves.transitions(problem, mu, sigma)
    swing = np.abs(turned).sum(axis=-1).max(axis=-1)
    terms = (
        largest,
        waves.lipschitz(problem),
        problem.gamma,
        np.linalg.norm(new - mu, axis=-1).max(axis=-1),
        mu.shape[-1],
        sigma,
    )
    return Sample(
        quantity=found,
        printed=printed_bound(*terms),
        corrected=corrected_bound(*terms),
        without_lipschitz=total_variation_bound(largest, problem.gamma, swing),
        gamma=problem.gamma,
    )


# --- figure and statements ---------------------------------------------------------------


def bounds_figure() -> bytes:
    """Theorem 5.2 over gamma: on the counter-example, and on random MDPs."""
    figure, (left, right) = canvas(2)
    gammas = 1 - np.geomspace(0.9, 1e-3, 80)
    examples = [CounterExample(float(g)) for g in gammas]
    found = [quantity(mdp) for mdp in examples]
    printed, corrected = np.array([bounds(mdp) for mdp in examples]).T
    horizon = 1 / (1 - gammas)
    left.loglog(horizon, found, color=BLACK, linewidth=2.5, label="what is bounded")
    left.loglog(horizon, printed, color=RED, linewidth=2, label="printed bound")
    left.loglog(
        horizon, corrected, "--", color=BLUE, linewidth=2, label="corrected bound"
    )
    left.axvline(2, color=GREY, linewidth=0.8, linestyle=":")
    left.text(2.1, 2e-4, "gamma = 1/2", color=GREY)
    left.set(
        title="The counter-example", xlabel="1 / (1 - gamma)", ylabel="sum over states"
    )
    sample = random_mdps(1500, seed=1)
    reach = 1 / (1 - sample.gamma)
    for bound, ink, name in (
        (sample.printed, RED, "over the printed bound"),
        (sample.corrected, BLUE, "over the corrected bound"),
    ):
        share = sample.quantity / bound
        right.loglog(reach, share, ".", color=ink, markersize=2.5, label=name)
    right.axhline(1, color=BLACK, linewidth=0.8)
    right.set(
        title="6000 random MDPs", xlabel="1 / (1 - gamma)",
        ylabel="share of the bound", ylim=(1e-6, 30),
    )  # fmt: skip
    return png(figure, [left, right])


STATEMENTS = (
    Statement(
        "theorem-5-2", "Theorem 5.2", True,
        "the printed bound, on a counter-example at gamma = 0.99",
        ("what is bounded", "the printed bound"), "<=",
        "The bound fails for every gamma above 1/2: the bounded quantity grows with gamma "
        "/ (1 - gamma)^2 and the bound with 1 / (1 - gamma). The proof bounds the "
        "difference of two products by the product of the differences. That leaves out "
        "that the two policies separate over many steps.",
        check_printed, bounds_figure,
    ),
    Statement(
        "theorem-5-2-half", "Theorem 5.2", False,
        "for gamma up to 1/2 the printed bound is true",
        ("largest share of the bound", "1"), "<=",
        "There gamma / (1 - gamma) is at most 1, so the corrected bound is below the "
        "printed one. Checked on thousands of random MDPs, and on the counter-example at "
        "gamma = 1/2.",
        check_small_gamma, bounds_figure,
    ),
    Statement(
        "theorem-5-2-normalised", "Theorem 5.2", False,
        "if d is scaled to sum to 1, the printed bound is true",
        ("largest share of the bound", "1"), "<=",
        "The theorem writes d without the gamma of the paper's definition. If d means "
        "(1 - gamma) d_gamma, the bound follows from the corrected one. But Lemma 5.1, "
        "which it serves, and the proof itself use the sum of gamma^t, which is "
        "1 / (1 - gamma).",
        check_normalised, bounds_figure,
    ),
    Statement(
        "theorem-5-2-corrected", "Theorem 5.2", False,
        "epsilon L I(S) gamma / (1 - gamma)^2 (|mu~ - mu| + E|b|) is a bound",
        ("largest share on random MDPs", "1"), "<=",
        "Proved with d~ - d = gamma d (P~ - P)(I - gamma P~)^-1. Checked on ten thousand "
        "random MDPs with continuous actions; some of them exceed the printed bound.",
        check_corrected, bounds_figure,
    ),
    Statement(
        "theorem-5-2-attained", "Theorem 5.2", False,
        "the corrected bound is nearly tight: an MDP reaches 0.85 of it",
        ("0.85", "share that the counter-example reaches, gamma 0.99"), "<=",
        "As delta and sigma / delta go to 0, the share goes to 1: the constant is sharp.",
        check_attained, bounds_figure,
    ),
)  # fmt: skip
