"""With one parameter for several states, an optimum of DPG is not one of CACLA or CAC
(Sec. 4.1).

Three states whose transitions do not depend on the action, mu(s) = theta in all of them,
R(s, a) = -k_s (a - a_s)^2 / 2. So A(s, theta + b) = g_s b - k_s (b^2 - sigma^2) / 2 with
g_s = k_s (a_s - theta), and J, every step and every place of rest have closed forms.
"""

import numpy as np

from penfac.theory.canvas import BLACK, BLUE, GREEN, GREY, RED, canvas, png
from penfac.theory.gaussian import quadratic_cac, quadratic_cacla, true_offset
from penfac.theory.statement import CheckResult, Statement, below, equal
from penfac.theory.zeros import zero

GAMMA, SIGMA = 0.9, 0.4
START = np.array([0.6, 0.3, 0.1])
MOVES = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]])
BEST = np.array([-0.4, 0.1, 1.0])  # a_s
BEND = np.array([0.5, 1.0, 6.0])  # k_s: largest in the rarest state
STEP = 0.1  # size of the update whose effect on J is reported


def visits() -> np.ndarray:
    """d(s) = start' (I - gamma P)^-1: the same for every policy here."""
    return np.linalg.solve(np.eye(3) - GAMMA * MOVES.T, START)


def performance(theta: float) -> float:
    """J(mu) = start' V, V = (I - gamma P)^-1 R."""
    reward = -BEND * (theta - BEST) ** 2 / 2
    return float(START @ np.linalg.solve(np.eye(3) - GAMMA * MOVES, reward))


def dpg(theta: float) -> float:
    """sum_s d(s) grad_a A(s, theta)."""
    return float(visits() @ (BEND * (BEST - theta)))


def dpg_optimum() -> float:
    """Where DPG rests: the mean of a_s weighted by d(s) k_s."""
    weight = visits() * BEND
    return float(weight @ BEST / weight.sum())


def cacla(theta: float, sigma: float = SIGMA) -> float:
    """sum_s d(s) E[1{A > 0} b] / sigma."""
    steps = [
        quadratic_cacla(true_offset(-k, sigma), k * (a - theta), -k, sigma)
        for k, a in zip(BEND, BEST, strict=True)
    ]
    return float(visits() @ steps)


def cac(theta: float, sigma: float = SIGMA) -> float:
    """sum_s d(s) E[A_+ b] / sigma^2."""
    steps = [
        quadratic_cac(true_offset(-k, sigma), k * (a - theta), -k, sigma)
        for k, a in zip(BEND, BEST, strict=True)
    ]
    return float(visits() @ steps)


def rest(update) -> float:
    """Where an update of theta is 0."""
    return zero(update, BEST.min() - 1, BEST.max() + 1)


def _compare_with_dpg(update) -> CheckResult:
    best, there = dpg_optimum(), rest(update)
    numbers = {
        "theta of DPG": best,
        "DPG there, by differences of J": _slope(best),
        "the update there": update(best),
        "J after one step": performance(best + STEP * update(best)),
        "theta where it rests": there,
    }
    return below(
        performance(there),
        performance(best),
        numbers,
        also=numbers["J after one step"] < performance(best),
    )


def _slope(theta: float, width: float = 1e-5) -> float:
    """dJ / dtheta by central differences of J, independent of `dpg`."""
    return (performance(theta + width) - performance(theta - width)) / (2 * width)


def check_cacla() -> CheckResult:
    """J where CACLA rests < J where DPG rests."""
    return _compare_with_dpg(cacla)


def check_cac() -> CheckResult:
    """J where CAC rests < J where DPG rests, at sigma = 0.4."""
    return _compare_with_dpg(cac)


def check_cac_limit() -> CheckResult:
    """As sigma goes to 0, CAC's update tends to 1/2 dJ / dtheta: 0 at DPG's optimum."""
    best, sigmas = dpg_optimum(), (1e-1, 1e-2, 1e-3, 1e-4)
    numbers = {f"CAC's update at sigma {s:g}": cac(best, s) for s in sigmas}
    off = best + 0.3
    numbers |= {"CAC's update 0.3 beside it": cac(off, 1e-4)}
    numbers |= {"half of dJ there": _slope(off) / 2}
    half = (
        abs(numbers["CAC's update 0.3 beside it"] - numbers["half of dJ there"]) < 1e-2
    )
    return equal(cac(best, sigmas[-1]), 0.0, 2e-3, numbers, also=half)


# --- figure and statements ---------------------------------------------------------------


def places_of_rest() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Where CAC and CACLA rest, over sigma."""
    sigmas = np.geomspace(0.02, 1.0, 25)
    rules = {"CAC": cac, "CACLA": cacla}
    places = {
        name: np.array(
            [
                rest(lambda t, s=s, u=update: u(t, s))
                for s in sigmas
            ]
        )
        for name, update in rules.items()
    }  # fmt: skip
    return sigmas, places


def rest_figure() -> bytes:
    """J over theta, and where each update rests."""
    figure, (left, right) = canvas(2)
    theta = np.linspace(-0.7, 1.2, 200)
    worth = [performance(t) for t in theta]
    left.plot(theta, worth, color=BLACK, linewidth=2, label="J(mu)")
    marks = {
        "DPG": (dpg_optimum(), BLUE),
        f"CAC, sigma {SIGMA:g}": (rest(cac), GREEN),
        f"CACLA, sigma {SIGMA:g}": (rest(cacla), RED),
    }
    for name, (place, ink) in marks.items():
        left.plot(place, performance(place), "o", color=ink, label=name)
    for best in BEST:
        left.axvline(best, color=GREY, linewidth=0.8, linestyle=":")
    left.set(
        title="One parameter, three states (dotted: their best actions)",
        xlabel="theta", ylabel="J",
    )  # fmt: skip
    sigmas, places = places_of_rest()
    right.axhline(marks["DPG"][0], color=BLUE, linewidth=2, label="DPG")
    for (name, theta), ink in zip(places.items(), (GREEN, RED), strict=True):
        right.semilogx(sigmas, theta, color=ink, linewidth=2, label=name)
    right.set(title="Where each rests", xlabel="sigma", ylabel="theta")
    return png(figure, [left, right])


STATEMENTS = (
    Statement(
        "optimum-cacla", "Sec. 4.1", True,
        "an optimum of DPG over several states is not one of CACLA, which lowers J",
        ("J where CACLA rests", "J at DPG's optimum"), "<",
        "Three states share one parameter. Where the sum of DPG's steps is 0, the sum of "
        "CACLA's is not: each state pulls with nearly the same force, however much its "
        "reward changes. One step from there lowers J, and CACLA comes to rest elsewhere.",
        check_cacla, rest_figure,
    ),
    Statement(
        "optimum-cac", "Sec. 4.2", True,
        "an optimum of DPG over several states is not one of CAC at a finite sigma",
        ("J where CAC rests", "J at DPG's optimum"), "<",
        "The same three states at sigma = 0.4. CAC rests near DPG's optimum, but not at "
        "it: in a state whose best action is near, curvature takes more of the step.",
        check_cac, rest_figure,
    ),
    Statement(
        "optimum-cac-limit", "Sec. 4.2", False,
        "as sigma goes to 0, DPG's optimum is CAC's too",
        ("CAC's update there at sigma 1e-4", "0"), "=",
        "Sec. 4.2 says that CAC weighs states differently from DPG. At a finite sigma it "
        "does, in proportion to sigma. In the limit the weight is 1/2 in every state, so "
        "what is 0 for DPG is 0 for CAC.",
        check_cac_limit, rest_figure,
    ),
)  # fmt: skip
