"""Learning curves as PNG bytes. Never imports jax."""

import io
from typing import NamedTuple

import numpy as np

INK, BAND, SEED = "#1b4965", "#5fa8d3", "#9db4c0"
# of arms: told apart by those who see no red or green too (Okabe and Ito)
INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


class Curve(NamedTuple):
    """Evaluations of one seed: mean return of its episodes at each step."""

    seed: int
    steps: list[int]
    returns: list[float]
    arm: str | None = None


def on_grid(curves: list[Curve], points: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Steps [P] and returns [seeds, P], between what all seeds have reached."""
    first = max(c.steps[0] for c in curves)
    last = min(c.steps[-1] for c in curves)
    grid = np.linspace(first, max(last, first + 1), points)
    return grid, np.array([np.interp(grid, c.steps, c.returns) for c in curves])


def _mean(axes, curves: list[Curve], label: str, ink: str, k: int = 0):
    """The mean over seeds as a line; and it, with its deviation, on its grid."""
    grid, returns = on_grid(curves)
    mean, deviation = returns.mean(axis=0), returns.std(axis=0, ddof=len(curves) > 1)
    style = ("-", "--", ":")[k // len(INKS) % 3]  # colours run out
    axes.plot(grid, mean, style, color=ink, linewidth=2, label=label)
    return grid, mean, deviation


def costs(across: dict[str, list[tuple[int, float]]]) -> bytes:
    """Seconds of an update against a number of something, a panel each, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(across), 3.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(1, len(across), squeeze=False, sharey=True)[0]
    for axes, (what, points) in zip(every, across.items(), strict=True):
        axes.plot(*zip(*sorted(points), strict=True), "o-", color=INK, linewidth=2)
        axes.set(xlabel=what, xscale="log")
        axes.set_xticks([n for n, _ in points], labels=[str(n) for n, _ in points])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    every[0].set_ylabel("seconds an update")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def comparison(shown: dict[str, dict[str, list[Curve]]], kind: str = "png") -> bytes:
    """A panel an environment, a mean over seeds a curve: one standard deviation as a
    light band, its standard error as a dark one, as the paper draws them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = min(3, len(shown))
    tall = -(-len(shown) // wide)
    size = (2 + 5 * wide, 4 * tall)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(tall, wide, squeeze=False).ravel()
    for axes, (env, groups) in zip(every, shown.items(), strict=False):
        for k, (label, curves) in enumerate(groups.items()):
            seeds = f"{len(curves)} seed{'s' * (len(curves) > 1)}"
            ink = INKS[k % len(INKS)]
            grid, mean, std = _mean(axes, curves, f"{label} ({seeds})", ink, k)
            if len(curves) > 1:
                for width, alpha in ((std, 0.12), (std / len(curves) ** 0.5, 0.3)):
                    low, high = mean - width, mean + width
                    axes.fill_between(grid, low, high, color=ink, alpha=alpha, lw=0)
        axes.legend(frameon=False, loc="best", fontsize="small")
        _dress(axes, env)
    for axes in every[len(shown) :]:
        axes.remove()
    picture = io.BytesIO()
    figure.savefig(picture, format=kind)
    return picture.getvalue()


def _dress(axes, title: str) -> None:
    axes.set(title=title, xlabel="environment steps", ylabel="return without noise")
    axes.xaxis.set_major_formatter(
        lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x:,.0f}"
    )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def learning_curve(curves: list[Curve], title: str) -> bytes:
    """The mean over seeds, every seed thin behind it, one standard deviation as a band;
    where there are arms, the mean of each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    curves = [c for c in curves if c.steps]
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    arms = {c.arm: [d for d in curves if d.arm == c.arm] for c in curves}
    if len(arms) > 1:
        for k, (arm, own) in enumerate(arms.items()):
            _mean(axes, own, f"{arm} ({len(own)})", INKS[k % len(INKS)], k)
        axes.legend(frameon=False, loc="best", fontsize="small")
    elif len(curves) > 1:
        for curve in curves:
            axes.plot(curve.steps, curve.returns, color=SEED, linewidth=0.8)
        grid, mean, deviation = _mean(axes, curves, f"mean of {len(curves)} seeds", INK)
        axes.fill_between(
            grid, mean - deviation, mean + deviation, color=BAND, alpha=0.3, linewidth=0,
            label="one standard deviation",
        )  # fmt: skip
        axes.legend(frameon=False, loc="best")
    elif curves:
        dot = "o" if len(curves[0].steps) == 1 else None  # one point is no line
        axes.plot(
            curves[0].steps, curves[0].returns, color=INK, linewidth=2, marker=dot
        )
    _dress(axes, title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
