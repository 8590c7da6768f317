"""Learning curves as pictures; nothing here imports JAX."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penfac.errors import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, BAND, SEED = "#1b4965", "#5fa8d3", "#9db4c0"
# colours of arms, distinct to the colour-blind too (Okabe and Ito)
INKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


class Curve(NamedTuple):
    """Evaluations of one seed: mean return of the episodes at each step."""

    seed: int
    steps: list[int]
    returns: list[float]
    arm: str | None = None


def on_grid(
    curves: Sequence[tuple[Sequence[int], Sequence[float]]], points: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate (steps, returns) of all seeds: a grid [P] and returns [seeds, P].

    The grid spans what all seeds have reached; it is one point where they share no more.
    """
    first = max(steps[0] for steps, _ in curves)
    last = min(steps[-1] for steps, _ in curves)
    grid = np.linspace(first, last, points) if first < last else np.array([first])
    return grid, np.array([np.interp(grid, *curve) for curve in curves])


def learning_curve(curves: list[Curve], title: str) -> bytes:
    """Draw a run as PNG: the mean of each arm; for one arm its seeds and a band of one
    standard deviation as well."""
    figure = _figure(7, 4)
    axes = figure.add_subplot()
    curves = [c for c in curves if c.steps]
    arms = {c.arm: [d for d in curves if d.arm == c.arm] for c in curves}
    if len(arms) > 1:
        for k, (arm, own) in enumerate(arms.items()):
            _draw_mean(axes, own, f"{arm} ({len(own)})", INKS[k % len(INKS)], k)
        axes.legend(frameon=False, loc="best", fontsize="small")
    elif len(curves) > 1:
        for curve in curves:
            axes.plot(curve.steps, curve.returns, color=SEED, linewidth=0.8)
        label = f"mean of {len(curves)} seeds"
        grid, mean, deviation = _draw_mean(axes, curves, label, INK)
        axes.fill_between(
            grid, mean - deviation, mean + deviation, color=BAND, alpha=0.3, linewidth=0,
            label="one standard deviation",
        )  # fmt: skip
        axes.legend(frameon=False, loc="best")
    elif curves:
        steps, returns = curves[0].steps, curves[0].returns
        axes.plot(steps, returns, color=INK, linewidth=2, marker=_marker(steps))
    _label(axes, title)
    return _bytes(figure)


def comparison(groups: dict[str, dict[str, list[Curve]]], kind: str = "png") -> bytes:
    """Draw runs by environment and label as in the paper: the mean over seeds, one
    standard deviation as a light band, the standard error as a dark one."""
    wide = min(3, len(groups))
    tall = -(-len(groups) // wide)
    figure = _figure(2 + 5 * wide, 4 * tall)
    every = figure.subplots(tall, wide, squeeze=False).ravel()
    for axes, (env, labelled) in zip(every, groups.items(), strict=False):
        for k, (label, curves) in enumerate(labelled.items()):
            _draw_bands(axes, curves, counted(label, curves), INKS[k % len(INKS)], k)
        axes.legend(frameon=False, loc="best", fontsize="small")
        _label(axes, env)
    for axes in every[len(groups) :]:
        axes.remove()
    return _bytes(figure, kind)


def apart(groups: dict[str, dict[str, list[Curve]]], kind: str = "png") -> bytes:
    """Draw each label in a panel of its own, before all others of its environment in
    grey: readable for more runs than there are colours."""
    panels = [(env, label) for env, labelled in groups.items() for label in labelled]
    wide = min(4, len(panels))
    tall = -(-len(panels) // wide)
    figure = _figure(3.2 * wide, 2.5 * tall)
    every = figure.subplots(tall, wide, squeeze=False, sharey=len(groups) == 1).ravel()
    for axes, (env, label) in zip(every, panels, strict=False):
        for other in groups[env].keys() - {label}:
            grid, returns = on_grid([(c.steps, c.returns) for c in groups[env][other]])
            axes.plot(grid, returns.mean(axis=0), color=SEED, linewidth=0.7)
        curves = groups[env][label]
        grid, *_ = _draw_bands(axes, curves, "", INK)
        title = counted(label, curves)
        _label(axes, f"{title}\n{env}" if len(groups) > 1 else title)
        axes.set(ylabel=None, xlabel=None)
        axes.locator_params(axis="x", nbins=4)
        if len(grid) > 1:
            axes.set_xlim(grid[0], grid[-1])
    for axes in every[len(panels) :]:
        axes.remove()
    figure.supylabel("return without noise", fontsize="medium")
    figure.supxlabel("environment steps", fontsize="medium")
    return _bytes(figure, kind)


def counted(label: str, curves: list[Curve]) -> str:
    """A label with the number of its seeds."""
    return f"{label} ({len(curves)} seed{'s' * (len(curves) > 1)})"


def costs(panels: dict[str, list[tuple[int, float]]]) -> bytes:
    """Draw seconds an update against a number, a panel for each, as PNG."""
    figure = _figure(4 * len(panels), 3.2)
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (name, points) in zip(every, panels.items(), strict=True):
        axes.plot(*zip(*sorted(points), strict=True), "o-", color=INK, linewidth=2)
        axes.set(xlabel=name, xscale="log")
        axes.set_xticks([n for n, _ in points], labels=[str(n) for n, _ in points])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        _tidy(axes)
    every[0].set_ylabel("seconds an update")
    return _bytes(figure)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _bytes(figure: "Figure", kind: str = "png") -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format=kind)
    return picture.getvalue()


def _draw_mean(axes: "Axes", curves: list[Curve], label: str, ink: str, k: int = 0):
    """Draw the mean over seeds; return the grid, the mean and the deviation."""
    grid, returns = on_grid([(c.steps, c.returns) for c in curves])
    mean, deviation = returns.mean(axis=0), returns.std(axis=0, ddof=len(curves) > 1)
    dashes = ("-", "--", ":")[k // len(INKS) % 3]  # colours run out
    look = {"color": ink, "linestyle": dashes, "marker": _marker(grid)}
    axes.plot(grid, mean, linewidth=2, label=_plain(label), **look)
    return grid, mean, deviation


def _draw_bands(
    axes: "Axes", curves: list[Curve], label: str, ink: str, k: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the mean, with the standard deviation as a light band, the standard error as
    a dark one."""
    grid, mean, std = _draw_mean(axes, curves, label, ink, k)
    if len(curves) > 1:
        for width, alpha in ((std, 0.12), (std / len(curves) ** 0.5, 0.3)):
            low, high = mean - width, mean + width
            axes.fill_between(grid, low, high, color=ink, alpha=alpha, lw=0)
    return grid, mean, std


def _marker(steps: Sequence[int] | np.ndarray) -> str | None:
    return "o" if len(steps) == 1 else None  # a line through one point is invisible


def _label(axes: "Axes", title: str) -> None:
    axes.set(
        title=_plain(title), xlabel="environment steps", ylabel="return without noise"
    )
    axes.xaxis.set_major_formatter(
        lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x:,.0f}"
    )
    _tidy(axes)


def _plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return printable(text).replace("$", r"\$")


def _tidy(axes: "Axes") -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
