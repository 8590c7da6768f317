"""Finite MDPs by two exact routes: a linear solve, and a sum over time.

d(s) = sum_t gamma^t p(s_t = s) as in the paper; it sums to 1 / (1 - gamma).
"""

from typing import NamedTuple

import numpy as np

from penfac.theory.canvas import BLACK, BLUE, GREEN, ORANGE, RED, canvas, png
from penfac.theory.statement import CheckResult, Statement, equal

NEGLIGIBLE = 1e-17  # a smaller gamma^t does not change a double


class Finite(NamedTuple):
    """n states, k actions."""

    moves: np.ndarray  # [n, k, n]: T(s' | s, a)
    reward: np.ndarray  # [n, k]
    start: np.ndarray  # [n]
    gamma: float


Policy = np.ndarray  # [n, k]: pi(a | s); a deterministic one has a single 1 in each row


def random_mdp(
    rng: np.random.Generator, states: int, actions: int, gamma: float
) -> Finite:
    moves = rng.dirichlet(np.full(states, 0.5), size=(states, actions))
    reward = rng.normal(size=(states, actions))
    return Finite(moves, reward, rng.dirichlet(np.ones(states)), gamma)


def random_policy(rng: np.random.Generator, mdp: Finite) -> Policy:
    states, actions = mdp.reward.shape
    return rng.dirichlet(np.ones(actions), size=states)


def deterministic(rng: np.random.Generator, mdp: Finite) -> Policy:
    states, actions = mdp.reward.shape
    return np.eye(actions)[rng.integers(actions, size=states)]


def explored(mu: Policy, share: float) -> Policy:
    """pi: mu, but with probability `share` any action."""
    return (1 - share) * mu + share / mu.shape[1]


def chain(mdp: Finite, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """(P, R) of the Markov chain of an MDP under a policy."""
    moves = np.einsum("sk,skt->st", policy, mdp.moves)
    return moves, (policy * mdp.reward).sum(axis=1)


# --- by a linear solve -------------------------------------------------------------------


def value(mdp: Finite, policy: Policy) -> np.ndarray:
    """V = (I - gamma P)^-1 R."""
    moves, reward = chain(mdp, policy)
    return np.linalg.solve(np.eye(len(reward)) - mdp.gamma * moves, reward)


def performance(mdp: Finite, policy: Policy) -> float:
    """J = start' V."""
    return float(mdp.start @ value(mdp, policy))


# --- by the definitions, step by step ----------------------------------------------------


def visits_over_time(mdp: Finite, policy: Policy) -> np.ndarray:
    """d(s), the sum over t of gamma^t times the distribution at t."""
    moves, _ = chain(mdp, policy)
    now, total, weight = mdp.start, np.zeros_like(mdp.start), 1.0
    while weight > NEGLIGIBLE:
        total, now, weight = total + weight * now, now @ moves, weight * mdp.gamma
    return total


def advantage_over_time(mdp: Finite, policy: Policy) -> np.ndarray:
    """A(s, a) = R(s, a) + gamma E[V(s')] - V(s), V the sum over t of gamma^t E[R_t]."""
    moves, reward = chain(mdp, policy)
    v, weight = np.zeros_like(reward), 1.0
    while weight > NEGLIGIBLE:
        v, reward, weight = v + weight * reward, moves @ reward, weight * mdp.gamma
    return mdp.reward + mdp.gamma * mdp.moves @ v - v[:, None]


def gain_over_time(mdp: Finite, of: Policy, over: Policy, seen_by: Policy) -> float:
    """sum_s d(s) sum_a of(a | s) A^over(s, a), with d of `seen_by`."""
    seen = visits_over_time(mdp, seen_by)
    return float(seen @ (of * advantage_over_time(mdp, over)).sum(axis=1))


# --- checks ------------------------------------------------------------------------------


def _worst(sides, problems: int, seed: int) -> CheckResult:
    """Compare two sides on random MDPs; return those with the largest gap."""
    rng = np.random.default_rng(seed)
    worst, gap = (0.0, 0.0), -1.0
    for _ in range(problems):
        states, actions = int(rng.integers(2, 7)), int(rng.integers(2, 5))
        mdp = random_mdp(rng, states, actions, rng.choice([0.3, 0.6, 0.9, 0.97]))
        left, right = sides(rng, mdp)
        if abs(left - right) > gap:
            worst, gap = (left, right), abs(left - right)
    return equal(*worst, 1e-10, {"random MDPs": problems})


def check_eq_4(problems: int = 200, seed: int = 0) -> CheckResult:
    """J(pi~) = J(pi) + sum_s d^pi~(s) sum_a pi~(a | s) A^pi(s, a)."""

    def sides(rng, mdp):
        pi, new = random_policy(rng, mdp), random_policy(rng, mdp)
        gained = gain_over_time(mdp, new, pi, seen_by=new)
        return performance(mdp, new), performance(mdp, pi) + gained

    return _worst(sides, problems, seed)


def surrogate_error(mdp: Finite, pi: Policy, new: Policy, share: float) -> float:
    """J of a policy `share` of the way from pi to new, minus Eq. 4 with d^pi."""
    between = (1 - share) * pi + share * new
    surrogate = performance(mdp, pi) + gain_over_time(mdp, between, pi, seen_by=pi)
    return performance(mdp, between) - surrogate


def surrogate_example(seed: int = 1) -> tuple[Finite, Policy, Policy]:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, 5, 3, 0.9)
    return mdp, random_policy(rng, mdp), random_policy(rng, mdp)


def check_eq_4_surrogate() -> CheckResult:
    """With d^pi the error is of second order: half the way gives a quarter of it."""
    example = surrogate_example()
    errors = {t: surrogate_error(*example, t) for t in (0.5, 0.1, 1e-3, 5e-4)}
    order = np.log2(errors[1e-3] / errors[5e-4])
    numbers = {f"error {t:g} of the way": e for t, e in errors.items()}
    return equal(order, 2.0, 0.01, numbers)


def check_lemma_5_1(problems: int = 200, seed: int = 0) -> CheckResult:
    """J(mu~) = J(mu) + sum d^pi sum pi A^mu + sum d^mu~ A^pi(s, mu~(s))  (Eq. 10)."""

    def sides(rng, mdp):
        mu, new = deterministic(rng, mdp), deterministic(rng, mdp)
        pi = explored(mu, rng.uniform(0, 1))
        noise = gain_over_time(mdp, pi, mu, seen_by=pi)
        change = gain_over_time(mdp, new, pi, seen_by=new)
        return performance(mdp, new), performance(mdp, mu) + noise + change

    return _worst(sides, problems, seed)


# --- figure and statements ---------------------------------------------------------------


def surrogate_figure() -> bytes:
    """How wrong Eq. 4 is with d^pi, over the way from pi to pi~."""
    figure, (a,) = canvas()
    shares = np.geomspace(1e-3, 1, 25)
    for seed, ink in zip((1, 2, 3, 4), (BLUE, RED, GREEN, ORANGE), strict=True):
        example = surrogate_example(seed)
        errors = [abs(surrogate_error(*example, t)) for t in shares]
        a.loglog(shares, errors, color=ink, linewidth=2, label=f"random MDP {seed}")
    a.loglog(shares, 0.1 * shares**2, "--", color=BLACK, label="slope 2")
    a.set(
        title="Error of the approximation in Eq. 4",
        xlabel="share of the way from pi to pi~",
        ylabel="|J - approximation|",
    )
    return png(figure, [a])


EQ_4 = (
    Statement(
        "eq-4", "Eq. 4", True,
        "J(pi~) = J(pi) + sum d^pi~ sum pi~ A^pi",
        ("J(pi~) by a linear solve", "the right side, summed over time"), "=",
        "The largest gap on 200 random finite MDPs.",
        check_eq_4, surrogate_figure,
    ),
    Statement(
        "eq-4-surrogate", "Eq. 4", True,
        "with d^pi in place of d^pi~ the error is of second order",
        ("order of the error", "2"), "=",
        "Take a policy a share t of the way from pi to pi~: the error of the approximation "
        "falls with t^2. So both sides have the same gradient at pi.",
        check_eq_4_surrogate, surrogate_figure,
    ),
)  # fmt: skip
LEMMA_5_1 = (
    Statement(
        "lemma-5-1", "Lemma 5.1", True,
        "J(mu~) = J(mu) + sum d^pi sum pi A^mu + sum d^mu~ A^pi(s, mu~(s))",
        ("J(mu~) by a linear solve", "the right side, summed over time"), "=",
        "Exact for every pi: it is Eq. 4 applied twice. The largest gap on 200 random "
        "finite MDPs.",
        check_lemma_5_1, surrogate_figure,
    ),
)  # fmt: skip
