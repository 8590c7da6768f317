"""A figure for each statement, as PNG bytes; nothing here is computed elsewhere first."""

import io
from typing import Any

import numpy as np
from scipy.special import ndtr

from penfac.theory import (
    centred,
    directions,
    lemma41,
    mdp,
    poor_critic,
    shared_parameter,
    theorem52,
    truncated,
)
from penfac.theory.gaussian import linear_cac, linear_cacla, phi
from penfac.theory.training import training_step

# told apart by those who see no red or green too (Okabe and Ito)
BLUE, RED, GREEN, ORANGE, PINK = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7"
GREY, BLACK = "#8a8f98", "#000000"


def _canvas(columns: int = 1) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * columns + 1.0, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, columns, k + 1) for k in range(columns)]
    for a in axes:
        a.grid(alpha=0.25)
        a.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _png(figure: Any, axes: list[Any]) -> bytes:
    for a in axes:
        a.legend(frameon=False, fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def step_lengths() -> bytes:
    """Phi(kappa) and phi(kappa), with what training's loss gives over random actions."""
    figure, (a,) = _canvas()
    g, sigma = np.array([1.0, -2.0, 0.5]), 0.2
    size = float(np.linalg.norm(g))
    fine, coarse = np.linspace(-3, 3, 200), np.linspace(-2.8, 2.8, 15)
    moved = sigma * np.random.default_rng(0).normal(size=(50_000, 3))
    rules = (
        ("cac", linear_cac, sigma**2 * size, size, BLUE, "CAC / |DPG|: Phi(kappa)"),
        ("cacla", linear_cacla, sigma, 1.0, RED, "CACLA: phi(kappa)"),
    )
    for rule, closed, scale, unit, ink, label in rules:
        lengths = [np.linalg.norm(closed(k * sigma * size, g, sigma)) for k in fine]
        a.plot(fine, np.array(lengths) / unit, color=ink, linewidth=2, label=label)
        dots = [
            training_step(rule, k * sigma * size + moved @ g, moved) @ g / size / scale
            for k in coarse
        ]
        a.plot(coarse, dots, "o", color=ink, markersize=4)
    a.plot(
        [], [], "o", color=GREY, markersize=4, label="training's loss, 50 000 actions"
    )
    a.set(
        title="Steps for a linear advantage  c + g.b",
        xlabel="kappa = c / (sigma |g|)",
        ylabel="length of the step",
    )
    return _png(figure, [a])


def bent_advantage() -> bytes:
    """A = z^3 - 2 z, where it is positive, and the three steps it causes."""
    figure, (a,) = _canvas()
    z = np.linspace(-2.4, 2.4, 600)
    judged = directions.bent(z)
    a.plot(z, judged, color=BLACK, linewidth=2, label="A = z^3 - 2 z")
    a.fill_between(z, 0, judged, where=judged > 0, color=GREEN, alpha=0.25, linewidth=0)
    a.plot(z, 6 * phi(z) - 7, color=GREY, linewidth=1, label="how often z is tried")
    found = directions.opposite()
    inks = {"SPG": BLUE, "CAC": GREEN, "CACLA": RED}
    for k, (rule, ink) in enumerate(inks.items()):
        low = 4.6 - 1.1 * k
        tip = {"arrowstyle": "-|>", "color": ink, "linewidth": 2.5}
        a.annotate("", (found[rule], low), (0, low), arrowprops=tip)
        a.text(-2.35, low, f"{rule} {found[rule]:+.3f}", color=ink, va="center")
    a.axvline(0, color=GREY, linewidth=0.8)
    a.set(
        title="CACLA may point against SPG",
        xlabel="z = (a - mu) / sigma", ylabel="advantage", ylim=(-7.2, 5.4),
    )  # fmt: skip
    return _png(figure, [a])


def shared_parameter_curves() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Where CAC and CACLA rest, over sigma."""
    sigmas = np.geomspace(0.02, 1.0, 25)
    rules = {"CAC": shared_parameter.cac, "CACLA": shared_parameter.cacla}
    places = {
        name: np.array(
            [
                shared_parameter.rest(lambda t, s=s, u=update: u(t, s))
                for s in sigmas
            ]
        )
        for name, update in rules.items()
    }  # fmt: skip
    return sigmas, places


def shared_parameter_figure() -> bytes:
    """J over theta, and where each update rests."""
    figure, (left, right) = _canvas(2)
    theta = np.linspace(-0.7, 1.2, 200)
    worth = [shared_parameter.performance(t) for t in theta]
    left.plot(theta, worth, color=BLACK, linewidth=2, label="J(mu)")
    sigma = shared_parameter.SIGMA
    marks = {
        "DPG": (shared_parameter.dpg_optimum(), BLUE),
        f"CAC, sigma {sigma:g}": (shared_parameter.rest(shared_parameter.cac), GREEN),
        f"CACLA, sigma {sigma:g}": (shared_parameter.rest(shared_parameter.cacla), RED),
    }
    for name, (place, ink) in marks.items():
        left.plot(
            place, shared_parameter.performance(place), "o", color=ink, label=name
        )
    for best in shared_parameter.BEST:
        left.axvline(best, color=GREY, linewidth=0.8, linestyle=":")
    left.set(
        title="One parameter, three states (dotted: their best actions)",
        xlabel="theta", ylabel="J",
    )  # fmt: skip
    sigmas, places = shared_parameter_curves()
    right.axhline(marks["DPG"][0], color=BLUE, linewidth=2, label="DPG")
    for (name, at), ink in zip(places.items(), (GREEN, RED), strict=True):
        right.semilogx(sigmas, at, color=ink, linewidth=2, label=name)
    right.set(title="Where each rests", xlabel="sigma", ylabel="theta")
    return _png(figure, [left, right])


def poor_critic_figure() -> bytes:
    """What the critic says beside what is true."""
    figure, (a,) = _canvas()
    b = np.linspace(-0.7, 0.7, 300)
    mu = poor_critic.MU
    true = poor_critic.performance(mu + b) - poor_critic.performance(mu)
    a.plot(mu + b, true, color=BLACK, linewidth=2, label="true A^mu")
    a.plot(mu + b, poor_critic.judged(b), color=RED, linewidth=2, label="the critic's")
    a.axhline(0, color=GREY, linewidth=0.8)
    a.axvline(mu, color=GREY, linewidth=0.8, linestyle=":")
    step = mu + poor_critic.STEP * poor_critic.G
    tip = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 2.5}
    a.annotate("", (step, 0.08), (mu, 0.08), arrowprops=tip)
    a.text(step + 0.02, 0.08, "DPG", color=BLUE, va="center")
    a.text(mu - 0.02, 0.08, "CAC stays", color=GREEN, va="center", ha="right")
    a.set(
        title="A critic below 0 around mu(s)", xlabel="action", ylabel="advantage",
        ylim=(-0.5, 0.14),
    )  # fmt: skip
    return _png(figure, [a])


def surrogate_error() -> bytes:
    """How wrong Eq. 4 is with d^pi, over the way from pi to pi~."""
    figure, (a,) = _canvas()
    shares = np.geomspace(1e-3, 1, 25)
    for seed, ink in zip((1, 2, 3, 4), (BLUE, RED, GREEN, ORANGE), strict=True):
        example = mdp.surrogate_example(seed)
        errors = [abs(mdp.surrogate_error(*example, t)) for t in shares]
        a.loglog(shares, errors, color=ink, linewidth=2, label=f"random MDP {seed}")
    a.loglog(shares, 0.1 * shares**2, "--", color=BLACK, label="slope 2")
    a.set(
        title="Error of the approximation in Eq. 4",
        xlabel="share of the way from pi to pi~",
        ylabel="|J - approximation|",
    )
    return _png(figure, [a])


def factor() -> bytes:
    """CAC / DPG over sigma: smooth, biased, kinked; and a sign that is lost."""
    figure, (left, right) = _canvas(2)
    curves = np.geomspace(1e-3, 10, 120)
    for sign, name, ink in ((-1, "concave", BLUE), (1, "convex", GREEN)):
        values = [lemma41.quadratic_factor(sign * c) for c in curves]
        left.semilogx(
            curves, values, color=ink, linewidth=2, label=f"{name} A, |h| = |g|"
        )
    for offset, style in ((0.1, "-"), (-0.1, "--")):
        left.semilogx(
            curves, ndtr(offset / curves), style, color=ORANGE,
            label=f"linear A, critic off by {offset:+g} |g|",
        )  # fmt: skip
    for slopes, style in (((2.0, -1.0), "-"), ((-1.0, 2.0), "--")):
        left.axhline(
            lemma41.kinked_factor(*slopes), color=PINK, linestyle=style,
            label=f"kink, slopes {slopes[1]:g} | {slopes[0]:g}",
        )  # fmt: skip
    left.axhline(0.5, color=GREY, linewidth=0.8)
    left.set(
        title="CAC / sigma^2 over the mean slope of A",
        xlabel="sigma",
        ylabel="factor",
        ylim=(-0.05, 1.75),  # room for the legend
    )
    sigmas = np.geomspace(1e-3, 1, 60)
    steps = np.array(
        [lemma41.quadratic_in_two(lemma41.SLOPE, lemma41.HESSIAN, s) for s in sigmas]
    )
    told = lemma41.SLOPE / 2 + sigmas[:, None] * lemma41.first_order(
        lemma41.SLOPE, lemma41.HESSIAN
    )
    right.axhline(lemma41.SLOPE[1] / 2, color=GREY, label="half of DPG")
    right.semilogx(sigmas, steps[:, 1], color=BLUE, linewidth=2, label="CAC / sigma^2")
    near = sigmas < 0.25
    right.semilogx(sigmas[near], told[near, 1], "--", color=RED, label="first order")
    right.axhline(0, color=BLACK, linewidth=0.8)
    right.set(title="Second component, g = (1, 0.05)", xlabel="sigma", ylabel="step")
    return _png(figure, [left, right])


def trust_region() -> bytes:
    """Theorem 5.2 over gamma: on the counter-example, and on random MDPs."""
    figure, (left, right) = _canvas(2)
    gammas = 1 - np.geomspace(0.9, 1e-3, 80)
    worlds = [theorem52.World(float(g)) for g in gammas]
    found = [theorem52.quantity(w) for w in worlds]
    printed, corrected = np.array([theorem52.bounds(w) for w in worlds]).T
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
    sample = theorem52.random_worlds(1500, seed=1)
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
    return _png(figure, [left, right])


def resting_place() -> bytes:
    """Where mu rests on a linear reward, over sigma."""
    figure, (a,) = _canvas()
    fine, coarse = np.linspace(0.02, 0.6, 60), (0.1, 0.2, 0.3, 0.45)
    for law, style in (("truncated", "-"), ("clipped", "--")):
        for rule, ink in (("cac", BLUE), ("cacla", RED)):
            places = [truncated.rest(rule, s, law) for s in fine]
            a.plot(fine, places, style, color=ink, linewidth=2, label=f"{rule}, {law}")
            dots = [truncated.rest_of_training(rule, s, law) for s in coarse]
            a.plot(coarse, dots, "o", color=ink, markersize=5)
    a.plot([], [], "o", color=GREY, markersize=5, label="training's loss at rest")
    a.set(
        title="Reward a on [-1, 1]: where mu comes to rest",
        xlabel="sigma",
        ylabel="mu (best: 1)",
    )
    return _png(figure, [a])


def centred_pull() -> bytes:
    """The share of the pull's variance that a control variate leaves, by kappa."""
    figure, (a,) = _canvas()
    fine = np.linspace(-2.5, 2.5, 200)
    for m, ink in ((1, GREY), (6, BLUE), (17, RED)):
        left = [centred.variance_left(k, m) for k in fine]
        a.plot(fine, left, color=ink, linewidth=2, label=f"m = {m}")
    found = centred.lower_variance()
    a.plot([centred.KAPPA], [found.right], "o", color=BLUE, label="a random sample")
    a.axhline(1, color=BLACK, linewidth=1)
    a.set(
        title="CACLA with a control variate",
        xlabel="kappa = c / (sigma |g|)",
        ylabel="variance left, as a share",
        ylim=(0, 1.1),
    )
    return _png(figure, [a])


DRAWINGS = {
    "centred_pull": centred_pull,
    "step_lengths": step_lengths,
    "bent_advantage": bent_advantage,
    "shared_parameter": shared_parameter_figure,
    "poor_critic": poor_critic_figure,
    "surrogate_error": surrogate_error,
    "factor": factor,
    "trust_region": trust_region,
    "resting_place": resting_place,
}
