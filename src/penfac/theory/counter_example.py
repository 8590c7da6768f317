"""An MDP that violates the printed bound of Theorem 5.2 for every gamma above 1/2.

S = [0, 1] has two halves, A and B; every episode starts in A, uniformly. From A an action
a leads into B with probability min(1, k |a|), else back into A, uniformly in either; B is
never left. So the density T is L-Lipschitz in a with L = 2 k, and I(S) = 1. The reward is
clip(a / delta, -1, 1) in A and its opposite in B. mu = 0, pi = N(0, sigma^2), mu~ = delta.
By symmetry V^pi = 0, so A^pi = R and epsilon = 1.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import integrate
from scipy.special import ndtr

from penfac.theory.bounds import corrected_bound, printed_bound
from penfac.theory.gaussian import phi

GAMMAS = (0.4, 0.5, 0.6, 0.9, 0.99)


class CounterExample(NamedTuple):
    gamma: float
    k: float = 1.0
    delta: float = 1e-3
    sigma: float = 1e-5


def leaving(mdp: CounterExample) -> float:
    """E min(1, k |b|) = 2 k sigma (phi(0) - phi(t)) + 2 Phi(-t), t = 1 / (k sigma)."""
    t = 1 / (mdp.k * mdp.sigma)
    inside = 2 * mdp.k * mdp.sigma * (phi(0) - phi(t))
    return float(inside + 2 * ndtr(-t))


def quantity(mdp: CounterExample) -> float:
    """2 |1 / (1 - gamma + gamma k delta) - 1 / (1 - gamma + gamma q)|, q = `leaving`."""
    stay = 1 - mdp.gamma
    moved = min(1.0, mdp.k * mdp.delta)
    return 2 * abs(
        1 / (stay + mdp.gamma * moved) - 1 / (stay + mdp.gamma * leaving(mdp))
    )


def quantity_by_solve(mdp: CounterExample) -> float:
    """|sum_s (d^mu~ - d^pi)(s) A^pi(s, mu~(s))| from the definitions: q by quadrature,
    V and d by linear solves."""
    g, k, delta, sigma = mdp.gamma, mdp.k, mdp.delta, mdp.sigma

    def transitions(p: float) -> np.ndarray:
        return np.array([[1 - p, p], [0.0, 1.0]])

    def mean(of) -> float:
        edges = sorted(
            {-12.0, 0.0, 12.0, *np.clip([-delta / sigma, delta / sigma], -12, 12)}
        )
        cells = pairwise(edges)
        return sum(
            integrate.quad(lambda z: of(sigma * z) * phi(z), *c)[0] for c in cells
        )

    signs = np.array([1.0, -1.0])  # of the reward in A and B
    under_pi = transitions(mean(lambda a: min(1.0, k * abs(a))))
    reward = mean(lambda a: np.clip(a / delta, -1, 1)) * signs
    v = np.linalg.solve(np.eye(2) - g * under_pi, reward)
    under_mu = transitions(min(1.0, k * delta))
    advantage = signs + g * under_mu @ v - v  # R(s, delta) = 1 in A, -1 in B
    seen = [
        np.linalg.solve(np.eye(2) - g * p.T, [1.0, 0.0]) for p in (under_mu, under_pi)
    ]
    return float(abs((seen[0] - seen[1]) @ advantage))


def bounds(mdp: CounterExample) -> tuple[float, float]:
    """The printed and the corrected bound: epsilon = 1, L = 2 k, m = 1."""
    terms = (1.0, 2 * mdp.k, mdp.gamma, mdp.delta, 1, mdp.sigma)
    return float(printed_bound(*terms)), float(corrected_bound(*terms))


def smooth_share(gamma: float, delta: float = 1e-3, sigma: float = 1e-5) -> float:
    """The quantity over the printed bound, in a smooth form of the counter-example.

    |a| becomes sqrt(a^2 + w^2) - w, the reward tanh(3 a / delta), and the halves smooth
    densities of height at most 5/2 that do not overlap, so L = 5/2.
    """
    width = delta / 100

    def leaves(a):
        return np.sqrt(a**2 + width**2) - width

    q = integrate.quad(lambda z: leaves(sigma * z) * phi(z), -12, 12)[0]
    seen = [1 / (1 - gamma + gamma * p) for p in (leaves(delta), q)]
    found = 2 * np.tanh(3.0) * abs(seen[0] - seen[1])
    return float(found / printed_bound(1.0, 2.5, gamma, delta, 1, sigma))
