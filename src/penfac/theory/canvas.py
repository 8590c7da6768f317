"""Axes, colours and PNG bytes of the figures of this package."""

import io
from typing import Any

# distinct to the colour-blind too (Okabe and Ito)
BLUE, RED, GREEN, ORANGE, PINK = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7"
GREY, BLACK = "#8a8f98", "#000000"


def canvas(columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure and its axes, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * columns + 1.0, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, columns, k + 1) for k in range(columns)]
    for a in axes:
        a.grid(alpha=0.25)
        a.spines[["top", "right"]].set_visible(False)
    return figure, axes


def png(figure: Any, axes: list[Any]) -> bytes:
    """The figure as PNG, each of its axes with a legend."""
    for a in axes:
        a.legend(frameon=False, fontsize="small")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
