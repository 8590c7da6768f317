"""How figures look: colours, dashes, panels, and the legend below them."""

from collections.abc import Callable
from math import ceil
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from penfac.plots import INKS
from penfac.report.curve_data import ArmCurves, Panel

# the number of dashes has no divisor in common with the number of colours: 35 arms
# differ in the pair, and 20 in dashes and marks, which survive a black-and-white print
DASHES = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.4)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (6, 1.4, 1.2, 1.4, 1.2, 1.4)),
)
MARKS = ("", "o", "s", "^")
GRAY = "#6b7280"
LOOK = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.2,
    "legend.frameon": False,
    "text.parse_math": False,  # the name of an arm may contain a $
    "svg.hashsalt": "penfac",  # otherwise an SVG names its parts at random
}
STEPS = "environment steps"


def ink(place: int) -> dict[str, Any]:
    """Colour, dashes and mark of an arm, as arguments of a line."""
    return {
        "color": INKS[place % len(INKS)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKS[place // len(DASHES) % len(MARKS)],
        "markersize": 4,
    }


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.07, h_pad=0.07)  # pyright: ignore
    return figure


def draw_line(axes: Axes, x: np.ndarray, y: np.ndarray, place: int, **more) -> None:
    """Draw the line of an arm, with seven marks at places of its own."""
    gap = max(1, len(x) // 7)
    look: dict[str, Any] = {**ink(place), "markevery": (place * 3 % gap, gap), **more}
    if len(x) == 1:
        look["marker"] = look["marker"] or "o"  # a line through one point is invisible
    axes.plot(x, y, linewidth=1.7, zorder=3, **look)


def draw_band(axes: Axes, grid, low, high, place: int, alpha: float) -> None:
    color = ink(place)["color"]
    axes.fill_between(grid, low, high, color=color, alpha=alpha, linewidth=0)


def draw_panels(
    panels: list[Panel], labels: dict[int, str], caption: str,
    draw: Callable[[Axes, list[ArmCurves]], None], x: str, y: str,
) -> Figure:  # fmt: skip
    """Draw one panel an environment, and one legend for all."""
    columns = 2 if len(panels) in (2, 4) else min(len(panels), 3)
    rows = ceil(len(panels) / columns)
    wide, high = (4.1, 3.1) if len(panels) > 1 else (6.4, 3.9)
    if len(panels) == 1 and len(labels) > 7:
        wide, high = 8.2, 5.0
    figure = new_figure(wide * columns, high * rows)
    cells = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in cells[len(panels) :]:
        axes.remove()
    for k, (axes, panel) in enumerate(zip(cells, panels, strict=False)):
        axes.set_title(fill(panel.env, 44))
        if not panel.arms:
            _say_empty(axes)
            continue
        draw(axes, panel.arms)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.margins(x=0.02)
        if x == STEPS:
            axes.xaxis.set_major_formatter(_short_steps)
        axes.set_xlabel(x if k + columns >= len(panels) else "")
        axes.set_ylabel(y if k % columns == 0 else "")
    if labels:
        _draw_legend(figure, labels, caption)
    return figure


def _say_empty(axes: Axes) -> None:
    axes.text(
        0.5, 0.5, "no runs yet", transform=axes.transAxes, color=GRAY,
        ha="center", va="center",
    )  # fmt: skip
    axes.set(xticks=[], yticks=[])


def _short_steps(x: float, _) -> str:
    if abs(x) >= 1e6:
        return f"{x / 1e6:g}M"
    return f"{x / 1e3:g}k" if abs(x) >= 1e3 else f"{x:g}"


def _draw_legend(figure: Figure, labels: dict[int, str], caption: str) -> None:
    """Draw the legend below all panels; the figure grows by its height."""
    width, height = figure.get_size_inches()
    texts = [fill(text, int(width / 0.085)) for text in labels.values()]
    longest = max(len(line) for text in texts for line in text.splitlines())
    columns = max(1, min(len(texts), int(width / (0.072 * longest + 0.62))))
    lines = ceil(len(texts) / columns) * max(text.count("\n") + 1 for text in texts)
    caption = fill(caption, int(width / 0.068))
    figure.set_size_inches(
        width, height + 0.19 * (lines + caption.count("\n") + 1) + 0.15
    )
    handles = [Line2D([], [], linewidth=1.7, **ink(place)) for place in labels]
    legend = figure.legend(
        handles, texts, loc="outside lower center", ncols=columns, title=caption,
        fontsize=8.5, title_fontsize=8, handlelength=3.4, columnspacing=1.6,
    )  # fmt: skip
    legend.get_title().set_multialignment("center")
