"""Learning curves as PNG bytes. Never imports jax."""

import io
from typing import NamedTuple

import numpy as np

INK, BAND, SEED = "#1b4965", "#5fa8d3", "#9db4c0"


class Curve(NamedTuple):
    """Evaluations of one seed: mean return of its episodes at each step."""

    seed: int
    steps: list[int]
    returns: list[float]


def on_grid(curves: list[Curve], points: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Steps [P] and returns [seeds, P], between what all seeds have reached."""
    first = max(c.steps[0] for c in curves)
    last = min(c.steps[-1] for c in curves)
    grid = np.linspace(first, max(last, first + 1), points)
    return grid, np.array([np.interp(grid, c.steps, c.returns) for c in curves])


def learning_curve(curves: list[Curve], title: str) -> bytes:
    """The mean over seeds, every seed thin behind it, one standard deviation as a band."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    curves = [c for c in curves if c.steps]
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if len(curves) > 1:
        for curve in curves:
            axes.plot(curve.steps, curve.returns, color=SEED, linewidth=0.8)
        grid, returns = on_grid(curves)
        mean, deviation = returns.mean(axis=0), returns.std(axis=0, ddof=1)
        axes.fill_between(
            grid, mean - deviation, mean + deviation, color=BAND, alpha=0.3, linewidth=0,
            label="one standard deviation",
        )  # fmt: skip
        axes.plot(
            grid, mean, color=INK, linewidth=2, label=f"mean of {len(curves)} seeds"
        )
        axes.legend(frameon=False, loc="best")
    elif curves:
        _, steps, returns = curves[0]
        dot = "o" if len(steps) == 1 else None  # a line of one point is not seen
        axes.plot(steps, returns, color=INK, linewidth=2, marker=dot)
    axes.set(title=title, xlabel="environment steps", ylabel="return without noise")
    axes.xaxis.set_major_formatter(
        lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x:,.0f}"
    )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
