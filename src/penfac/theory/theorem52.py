"""Theorem 5.2: the printed bound, a world that breaks it, and a bound that is true.

The world: S = [0, 1] is two halves, A and B; it starts anywhere in A. From A an action a
leads into B with probability min(1, k |a|), else back into A, everywhere alike; B is
never left. So the density T is L-Lipschitz in a with L = 2 k, and I(S) = 1. The reward is
clip(a / delta, -1, 1) in A and its opposite in B. mu = 0, pi = N(0, sigma^2), mu~ = delta.
By symmetry V^pi = 0, so that A^pi = R and epsilon = 1.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import integrate
from scipy.special import gammaln, ndtr

from penfac.theory import waves
from penfac.theory.finding import Finding, at_most
from penfac.theory.gaussian import phi


class World(NamedTuple):
    gamma: float
    k: float = 1.0
    delta: float = 1e-3
    sigma: float = 1e-5


def mean_norm(dimension: int, sigma):
    """E|b| = sigma sqrt 2 Gamma((m + 1) / 2) / Gamma(m / 2), b ~ N(0, sigma^2 I)."""
    half = dimension / 2
    return sigma * np.sqrt(2) * np.exp(gammaln(half + 0.5) - gammaln(half))


def printed_bound(epsilon, lipschitz, gamma, distance, dimension: int, sigma):
    """epsilon L / (1 - gamma) max_t (|mu~ - mu| + 2 m sigma / sqrt(2 pi))^t.

    Below 1 the largest power is the first; above 1 there is none.
    """
    reach = distance + 2 * dimension * sigma / np.sqrt(2 * np.pi)
    return epsilon * lipschitz / (1 - gamma) * np.where(reach <= 1, reach, np.inf)


def corrected_bound(epsilon, lipschitz, gamma, distance, dimension: int, sigma):
    """epsilon L I(S) gamma / (1 - gamma)^2 (|mu~ - mu| + E|b|), with I(S) = 1.

    From d~ - d = gamma d (P~ - P) (I - gamma P~)^-1, whose factors have the norms
    1 / (1 - gamma), L I(S) (|mu~ - mu| + E|b|) and 1 / (1 - gamma).
    """
    reach = distance + mean_norm(dimension, sigma)
    return epsilon * lipschitz * gamma / (1 - gamma) ** 2 * reach


def total_variation_bound(epsilon, gamma, swing):
    """epsilon gamma / (1 - gamma)^2 max_s |P~(s) - P(s)|_1: the same before L enters."""
    return epsilon * gamma / (1 - gamma) ** 2 * swing


# The world that breaks the printed bound


def leaving(world: World) -> float:
    """E min(1, k |b|) = 2 k sigma (phi(0) - phi(t)) + 2 Phi(-t), t = 1 / (k sigma)."""
    t = 1 / (world.k * world.sigma)
    inside = 2 * world.k * world.sigma * (phi(0) - phi(t))
    return float(inside + 2 * ndtr(-t))


def quantity(world: World) -> float:
    """2 |1 / (1 - gamma + gamma k delta) - 1 / (1 - gamma + gamma q)|, q = `leaving`."""
    stay = 1 - world.gamma
    moved = min(1.0, world.k * world.delta)
    return 2 * abs(
        1 / (stay + world.gamma * moved) - 1 / (stay + world.gamma * leaving(world))
    )


def quantity_by_solve(world: World) -> float:
    """|sum_s (d^mu~ - d^pi)(s) A^pi(s, mu~(s))| from the definitions: q by quadrature,
    V and d by linear solves."""
    g, k, delta, sigma = world.gamma, world.k, world.delta, world.sigma

    def moves(p: float) -> np.ndarray:
        return np.array([[1 - p, p], [0.0, 1.0]])

    def mean(of) -> float:
        edges = sorted(
            {-12.0, 0.0, 12.0, *np.clip([-delta / sigma, delta / sigma], -12, 12)}
        )
        cells = pairwise(edges)
        return sum(
            integrate.quad(lambda z: of(sigma * z) * phi(z), *c)[0] for c in cells
        )

    def paid(a: float) -> np.ndarray:
        return np.clip(a / delta, -1, 1) * np.array([1.0, -1.0])

    under_pi = moves(mean(lambda a: min(1.0, k * abs(a))))
    reward = mean(lambda a: np.clip(a / delta, -1, 1)) * np.array([1.0, -1.0])
    v = np.linalg.solve(np.eye(2) - g * under_pi, reward)
    now = moves(min(1.0, k * delta))
    advantage = paid(delta) + g * now @ v - v
    seen = [np.linalg.solve(np.eye(2) - g * p.T, [1.0, 0.0]) for p in (now, under_pi)]
    return float(abs((seen[0] - seen[1]) @ advantage))


def bounds(world: World) -> tuple[float, float]:
    """(printed, corrected) of the world: epsilon = 1, L = 2 k, m = 1."""
    terms = (1.0, 2 * world.k, world.gamma, world.delta, 1, world.sigma)
    return float(printed_bound(*terms)), float(corrected_bound(*terms))


def smooth_share(gamma: float, delta: float = 1e-3, sigma: float = 1e-5) -> float:
    """The quantity over the printed bound, in a world with nothing sharp in it.

    |a| becomes sqrt(a^2 + w^2) - w, the reward tanh(3 a / delta), and the halves smooth
    densities of height at most 5/2 that lie apart, so that L = 5/2.
    """
    width = delta / 100

    def leaves(a):
        return np.sqrt(a**2 + width**2) - width

    q = integrate.quad(lambda z: leaves(sigma * z) * phi(z), -12, 12)[0]
    seen = [1 / (1 - gamma + gamma * p) for p in (leaves(delta), q)]
    found = 2 * np.tanh(3.0) * abs(seen[0] - seen[1])
    return float(found / printed_bound(1.0, 2.5, gamma, delta, 1, sigma))


GAMMAS = (0.4, 0.5, 0.6, 0.9, 0.99)


def printed() -> Finding:
    """The quantity of the world against the printed bound, gamma = 0.99."""
    numbers = {}
    for gamma in GAMMAS:
        numbers[f"quantity at gamma {gamma:g}"] = quantity(World(gamma))
        numbers[f"printed bound at gamma {gamma:g}"] = bounds(World(gamma))[0]
    world = World(0.99)
    numbers["quantity by linear solves"] = quantity_by_solve(world)
    numbers["times the bound in a smooth world, gamma 0.9"] = smooth_share(0.9)
    return at_most(quantity(world), bounds(world)[0], numbers)


def attained() -> Finding:
    """The corrected bound is nearly reached by the same world: at least 0.85 of it."""
    reached = {g: quantity_by_solve(World(g)) / bounds(World(g))[1] for g in GAMMAS}
    numbers = {f"share at gamma {g:g}": share for g, share in reached.items()}
    finer = World(0.99, delta=1e-5, sigma=1e-7)
    numbers["share at gamma 0.99, a hundredth of delta and sigma"] = (
        quantity(finer) / bounds(finer)[1]
    )
    return at_most(0.85, reached[0.99], numbers, also=max(reached.values()) <= 1)


# Random worlds


class Sample(NamedTuple):
    """Of many random MDPs: the quantity of Theorem 5.2, the bounds, gamma."""

    quantity: np.ndarray
    printed: np.ndarray
    corrected: np.ndarray
    without_lipschitz: np.ndarray  # the corrected one before L enters
    gamma: np.ndarray


def random_worlds(
    many: int, seed: int, low: float = 0.0, high: float = 0.999
) -> Sample:
    """`many` MDPs of each of several sizes, 1 - gamma spread evenly by its logarithm."""
    rng = np.random.default_rng(seed)
    parts = []
    for states, m in ((2, 1), (3, 1), (5, 2), (8, 3)):
        gamma = 1 - np.exp(rng.uniform(np.log(1 - high), np.log(1 - low), size=many))
        problem = waves.random_waves(rng, (many,), states, m, gamma)
        sigma = 10 ** rng.uniform(-4, 0, size=many)
        reach = 10 ** rng.uniform(-4, 0, size=(many, 1, 1))
        mu = rng.normal(size=(many, states, m))
        new = mu + reach * rng.normal(size=(many, states, m))
        parts.append(measured(problem, mu, new, sigma))
    return Sample(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def measured(problem: waves.Waves, mu: np.ndarray, new: np.ndarray, sigma) -> Sample:
    """Both bounds and what they bound, of a batch of MDPs and pairs of policies."""
    v, zero = waves.value(problem, mu, sigma), np.zeros_like(sigma)
    apart = waves.visits(problem, new, zero) - waves.visits(problem, mu, sigma)
    found = np.abs((apart * waves.advantage(problem, v, new)).sum(axis=-1))
    largest = waves.largest_advantage(problem, v)
    turned = waves.transitions(problem, new, zero) - waves.transitions(
        problem, mu, sigma
    )
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


def small_gamma(many: int = 1000, seed: int = 0) -> Finding:
    """For gamma <= 1/2 the printed bound is true: there the corrected one is below it."""
    sample = random_worlds(many, seed, high=0.5)
    world = World(0.5)
    numbers = {
        "random MDPs": len(sample.gamma),
        "largest share on them": (sample.quantity / sample.printed).max(),
        "share on the counter-example, gamma 0.5": quantity(world) / bounds(world)[0],
    }
    below_printed = bool((sample.corrected <= sample.printed * (1 + 1e-12)).all())
    worst = max(list(numbers.values())[1:])
    return at_most(worst, 1.0, numbers, also=below_printed)


def normalised() -> Finding:
    """With d scaled to sum to 1 the printed bound is true for every gamma."""
    shares = {
        g: quantity_by_solve(World(g)) * (1 - g) / bounds(World(g))[0] for g in GAMMAS
    }
    numbers = {f"share at gamma {g:g}": share for g, share in shares.items()}
    return at_most(max(shares.values()), 1.0, numbers)


def corrected(many: int = 2500, seed: int = 1) -> Finding:
    """The corrected bound on thousands of random MDPs: never exceeded."""
    sample = random_worlds(many, seed)
    share = sample.quantity / sample.corrected
    sharper = sample.quantity / sample.without_lipschitz
    numbers = {
        "random MDPs": len(share),
        "median share": np.median(share),
        "largest share before L enters": sharper.max(),
        "above the printed bound": (sample.quantity > sample.printed).sum(),
    }
    return at_most(share.max(), 1.0, numbers, also=bool(sharper.max() <= 1))
