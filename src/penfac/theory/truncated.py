"""Where a policy comes to rest when better actions end at a bound  (Eq. 5, deviation D7).

R(a) = a on [-1, 1]: the best action is the bound itself. pi is N(mu, sigma^2), cut off at
the bounds (truncated) or with what lies beyond moved onto them (clipped). With z =
(a - mu) / sigma, from alpha = (-1 - mu) / sigma to beta = (1 - mu) / sigma, and tau the
mean of z, CACLA rests where E[1{z > tau} z] = 0 and CAC where E[(z - tau)_+ z] = 0.
"""

import numpy as np
from scipy import integrate, special
from scipy.special import ndtr
from scipy.stats import truncnorm

from penfac.theory.finding import Finding, equal
from penfac.theory.gaussian import normal_moments, phi
from penfac.theory.training import midpoints, training_step
from penfac.theory.zeros import zero

SIGMA = 0.2
NEARLY = 1 - 1e-9


def truncated_pull(rule: str, mu: float, sigma: float) -> float:
    """CACLA: I_1, CAC: I_2 - tau I_1, between tau and beta; not divided by the mass."""
    alpha, beta = (-1 - mu) / sigma, (1 - mu) / sigma
    mass, first = normal_moments(alpha, beta, 1)
    tau = first / mass
    _, first, second = normal_moments(tau, beta, 2)
    return first if rule == "cacla" else second - tau * first


def clipped_pull(rule: str, mu: float, sigma: float) -> float:
    """The same where Phi(-beta) of all actions lie on the upper bound itself."""
    alpha, beta = (-1 - mu) / sigma, (1 - mu) / sigma
    at_low, at_high = float(ndtr(alpha)), float(ndtr(-beta))
    tau = alpha * at_low + normal_moments(alpha, beta, 1)[1] + beta * at_high
    _, first, second = normal_moments(tau, beta, 2)
    if rule == "cacla":
        return first + beta * at_high
    return second - tau * first + (beta - tau) * beta * at_high


PULLS = {"truncated": truncated_pull, "clipped": clipped_pull}


def rest(rule: str, sigma: float, law: str = "truncated") -> float:
    """mu > 0 at which the pull is 0."""
    pull = PULLS[law]
    return zero(lambda mu: pull(rule, mu, sigma), 0.01, NEARLY)


def distance_in_sigmas(rule: str) -> float:
    """(1 - mu) / sigma for a narrow sigma: the other bound is out of sight, and the
    equation has no sigma left in it. CACLA: beta = phi(beta) / Phi(beta)."""
    if rule == "cacla":
        return zero(lambda x: x - phi(x) / ndtr(x), 0.0, 2.0)

    def pull(beta: float) -> float:
        tau = -phi(beta) / ndtr(beta)
        _, first, second = normal_moments(tau, beta, 2)
        return second - tau * first

    return zero(pull, 0.01, 2.0)


def pull_by_quadrature(rule: str, mu: float, sigma: float) -> float:
    """E[w(A) (a - mu)] by integrating scipy's truncated normal over the actions."""
    shape = ((-1 - mu) / sigma, (1 - mu) / sigma, mu, sigma)
    mean = float(np.asarray(truncnorm.mean(*shape)))

    def integrand(a: float) -> float:
        weight = 1.0 if rule == "cacla" else a - mean
        return weight * (a - mu) * float(truncnorm.pdf(a, *shape))

    return integrate.quad(integrand, mean, 1.0, epsabs=1e-13)[0]


def rest_by_quadrature(rule: str, sigma: float) -> float:
    return zero(lambda mu: pull_by_quadrature(rule, mu, sigma), 0.01, 0.9999)


def pull_of_training(rule: str, mu: float, sigma: float, law: str) -> float:
    """Minus the gradient of training's loss over training's own noise: the actions of
    `core.noise` at evenly spread uniform numbers, with a critic that knows V = E[a]."""
    from penfac.core.noise import EXPLORATION_LAWS

    uniform = midpoints(20_000)
    mean = np.full_like(uniform, mu)
    action = EXPLORATION_LAWS[law](mean, sigma, uniform, special)
    judged = action - action.mean()
    return float(training_step(rule, judged, (action - mu)[:, None])[0])


def rest_of_training(rule: str, sigma: float, law: str = "truncated") -> float:
    """mu at which training's loss has no slope left."""
    return zero(lambda mu: pull_of_training(rule, mu, sigma, law), 0.01, NEARLY)


def _finding(rule: str) -> Finding:
    closed, area = rest(rule, SIGMA), rest_by_quadrature(rule, SIGMA)
    numbers = {
        "by quadrature": area,
        "(1 - mu) / sigma": (1 - closed) / SIGMA,
        "... as sigma goes to 0": distance_in_sigmas(rule),
        "sigma 0.05": rest(rule, 0.05),
        "sigma 0.447": rest(rule, 0.2**0.5),
        "clipped instead": rest(rule, SIGMA, "clipped"),
    }
    near = abs(area - closed) < 1e-7
    return equal(closed, rest_of_training(rule, SIGMA), 1e-3, numbers, also=near)


def cac() -> Finding:
    """CAC on the linear reward rests 0.303 sigma inside the bound."""
    return _finding("cac")


def cacla() -> Finding:
    """CACLA on the linear reward rests 0.506 sigma inside the bound."""
    return _finding("cacla")
