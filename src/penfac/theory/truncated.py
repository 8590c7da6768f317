"""Where a policy comes to rest if the best action is a bound  (Eq. 5, deviation D7).

R(a) = a on [-1, 1]. pi is N(mu, sigma^2), either conditioned on the bounds (truncated) or
with actions beyond them moved onto them (clipped). With z =
(a - mu) / sigma, from alpha = (-1 - mu) / sigma to beta = (1 - mu) / sigma, and tau the
mean of z, CACLA rests where E[1{z > tau} z] = 0 and CAC where E[(z - tau)_+ z] = 0.
"""

import numpy as np
from scipy import integrate, special
from scipy.special import ndtr
from scipy.stats import truncnorm

from penfac.theory.canvas import BLUE, GREY, RED, canvas, png
from penfac.theory.gaussian import normal_moments, phi
from penfac.theory.statement import CheckResult, Statement, equal
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
    """(1 - mu) / sigma as sigma goes to 0: the other bound has no effect, and sigma drops
    out of the equation. CACLA: beta = phi(beta) / Phi(beta)."""
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
    """Minus the gradient of training's loss over the actions of `core.noise` at evenly
    spaced uniform numbers, with the exact critic V = E[a]."""
    from penfac.core.noise import EXPLORATION_LAWS

    uniform = midpoints(20_000)
    mean = np.full_like(uniform, mu)
    action = EXPLORATION_LAWS[law](mean, sigma, uniform, special)
    advantage = action - action.mean()
    return float(training_step(rule, advantage, (action - mu)[:, None])[0])


def rest_of_training(rule: str, sigma: float, law: str = "truncated") -> float:
    """mu at which the gradient of training's loss is 0."""
    return zero(lambda mu: pull_of_training(rule, mu, sigma, law), 0.01, NEARLY)


def _check(rule: str) -> CheckResult:
    closed, area = rest(rule, SIGMA), rest_by_quadrature(rule, SIGMA)
    numbers = {
        "by quadrature": area,
        "(1 - mu) / sigma": (1 - closed) / SIGMA,
        "(1 - mu) / sigma as sigma goes to 0": distance_in_sigmas(rule),
        "sigma 0.05": rest(rule, 0.05),
        "sigma 0.447": rest(rule, 0.2**0.5),
        "clipped instead": rest(rule, SIGMA, "clipped"),
    }
    near = abs(area - closed) < 1e-7
    return equal(closed, rest_of_training(rule, SIGMA), 1e-3, numbers, also=near)


def check_cac() -> CheckResult:
    """CAC on the linear reward rests 0.303 sigma inside the bound."""
    return _check("cac")


def check_cacla() -> CheckResult:
    """CACLA on the linear reward rests 0.506 sigma inside the bound."""
    return _check("cacla")


# --- figure and statements ---------------------------------------------------------------


def rest_figure() -> bytes:
    """Where mu rests on a linear reward, over sigma."""
    figure, (a,) = canvas()
    fine, coarse = np.linspace(0.02, 0.6, 60), (0.1, 0.2, 0.3, 0.45)
    for law, style in (("truncated", "-"), ("clipped", "--")):
        for rule, ink in (("cac", BLUE), ("cacla", RED)):
            places = [rest(rule, s, law) for s in fine]
            a.plot(fine, places, style, color=ink, linewidth=2, label=f"{rule}, {law}")
            dots = [rest_of_training(rule, s, law) for s in coarse]
            a.plot(coarse, dots, "o", color=ink, markersize=5)
    a.plot([], [], "o", color=GREY, markersize=5, label="training's loss at rest")
    a.set(
        title="Reward a on [-1, 1]: where mu comes to rest",
        xlabel="sigma",
        ylabel="mu (best: 1)",
    )
    return png(figure, [a])


STATEMENTS = (
    Statement(
        "truncated-cac", "Eq. 5, D7", False,
        "with truncated noise CAC rests 0.303 sigma inside the bound",
        ("mu by the closed form", "mu where training's loss rests"), "=",
        "Reward a on [-1, 1], sigma = 0.2: the best action is 1. Noise that is truncated "
        "at the bound has its mean below mu. Actions between that mean and mu count as "
        "better and pull mu back. A smaller sigma brings mu closer to 1, and so does "
        "clipping instead of truncation.",
        check_cac, rest_figure,
    ),
    Statement(
        "truncated-cacla", "Eq. 5, D7", False,
        "with truncated noise CACLA rests 0.506 sigma inside the bound",
        ("mu by the closed form", "mu where training's loss rests"), "=",
        "CACLA gives the actions that pull back the same weight as those at the bound. So "
        "it rests further inside: at beta = phi(beta) / Phi(beta) standard deviations.",
        check_cacla, rest_figure,
    ),
)  # fmt: skip
