"""The figures of a study for print and screen; nothing here imports JAX or pyplot.

An arm keeps its colour, dashes and marks in every panel. The same findings give the
same bytes.
"""

import io
from textwrap import fill

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.stats import t as student
from scipy.stats import trim_mean

from penfac import stats
from penfac.plots import INKS, on_grid
from penfac.report.canvas import (
    GRAY,
    LOOK,
    STEPS,
    draw_band,
    draw_line,
    draw_panels,
    ink,
    new_figure,
)
from penfac.report.curve_data import ArmCurves, Panel, legend_labels, panels_of
from penfac.scores import final_score

POINTS = 200  # of a curve
RETURN = "return without noise"
MEAN_CAPTION = (
    "line: mean; dark band: standard error; light band: one standard deviation"
)
IQM_CAPTION = "thick line: interquartile mean; thin: seeds; band: "
BOOTSTRAP, STUDENT = "95 % bootstrap interval", "95 % t interval of the mean"
FINAL_CAPTION = "final score: mean over the last tenth of the evaluations"


@style.context(["default", LOOK])
def mean_curves(findings: dict) -> Figure:
    """As in the paper: the mean over seeds, its standard error, the deviation."""
    panels = panels_of(findings)
    # five or more arms of bands need more transparency
    crowd = 1 if max(len(p.arms) for p in panels) <= 5 else 0.7

    def draw(axes: Axes, arms: list[ArmCurves]) -> None:
        for arm in arms:
            grid, returns = on_grid(arm.curves, POINTS)
            n, mean = len(returns), returns.mean(axis=0)
            draw_line(axes, grid, mean, arm.place)
            if n > 1:
                std = returns.std(axis=0, ddof=1)
                for half, alpha in ((std, 0.13), (std / n**0.5, 0.3)):
                    ends = mean - half, mean + half
                    draw_band(axes, grid, *ends, arm.place, alpha * crowd)

    labels = legend_labels(panels)
    return draw_panels(panels, labels, MEAN_CAPTION, draw, STEPS, RETURN)


@style.context(["default", LOOK])
def iqm_curves(findings: dict) -> Figure:
    """The interquartile mean, its interval, and every seed behind it."""
    panels = panels_of(findings)
    crowd = max(sum(len(a.curves) for a in p.arms) for p in panels)
    faint = min(0.35, max(0.03, 6 / max(crowd, 1)))

    def draw(axes: Axes, arms: list[ArmCurves]) -> None:
        for arm in arms:
            grid, returns = on_grid(arm.curves, POINTS)
            draw_seeds(axes, arm, faint, crowd > 100)
            draw_line(axes, grid, trim_mean(returns, 0.25, axis=0), arm.place)
            if ends := interval(returns):
                draw_band(axes, grid, *ends, arm.place, 0.25)

    labels, caption = interval_labels(panels)
    return draw_panels(panels, labels, caption, draw, STEPS, RETURN)


def interval(returns: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The 95 % interval at each point of [seeds, P]: of the IQM from 20 seeds on, of the
    mean below, none of a single seed."""
    n = len(returns)
    if n < 2:
        return None
    if n >= stats.FEWEST_TO_RESAMPLE:
        return stats.iqm_band(returns, resamples=1000)
    half = student.ppf(0.975, n - 1) * returns.std(axis=0, ddof=1) / n**0.5
    mean = returns.mean(axis=0)
    return mean - half, mean + half


def draw_seeds(axes: Axes, arm: ArmCurves, alpha: float, many: bool) -> None:
    """Draw all seeds of an arm as thin lines, many of them as pixels: as paths they
    would make an SVG of megabytes."""
    lines = LineCollection(
        [np.column_stack(curve) for curve in arm.curves],
        colors=ink(arm.place)["color"], linewidths=0.6, alpha=alpha, zorder=0.9,
        rasterized=many,
    )  # fmt: skip
    axes.add_collection(lines)


def interval_labels(panels: list[Panel]) -> tuple[dict[int, str], str]:
    """Labels and a caption that name the interval; a star where both kinds occur."""
    least = {}
    for arm in (a for p in panels for a in p.arms if len(a.curves) > 1):
        least[arm.place] = min(len(arm.curves), least.get(arm.place, len(arm.curves)))
    few = {k for k, n in least.items() if n < stats.FEWEST_TO_RESAMPLE}
    labels = legend_labels(panels)
    if not few or few == set(least):
        kind = STUDENT if few else BOOTSTRAP
        no_band = IQM_CAPTION.removesuffix("; band: ")
        return labels, IQM_CAPTION + kind if least else no_band
    starred = {k: text + "*" if k in few else text for k, text in labels.items()}
    return starred, f"{IQM_CAPTION}{BOOTSTRAP}, * {STUDENT} below 20 seeds"


@style.context(["default", LOOK])
def profiles(findings: dict) -> Figure:
    """Performance profiles: the share of runs whose final score is above a return."""
    panels = panels_of(findings)

    def draw(axes: Axes, arms: list[ArmCurves]) -> None:
        scores = [[final_score(returns) for _, returns in a.curves] for a in arms]
        low, high = min(map(min, scores)), max(map(max, scores))
        pad = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
        levels = np.linspace(low - pad, high + pad, 300)
        for arm, own in zip(arms, scores, strict=True):
            shares = stats.profile(own, levels.tolist())
            # the flat ends of all arms coincide, so marks go between them
            between = np.flatnonzero((shares > 0) & (shares < 1))
            marks = between[:: max(1, len(between) // 3)].tolist()
            look = {"drawstyle": "steps-post", "markevery": marks}
            draw_line(axes, levels, shares, arm.place, **look)
        axes.set_ylim(-0.03, 1.03)

    labels, y = legend_labels(panels), "share of runs above"
    return draw_panels(panels, labels, FINAL_CAPTION, draw, "final score", y)


@style.context(["default", LOOK])
def improvements(findings: dict) -> Figure | None:
    """P(first > second) of every comparison; filled where the interval excludes 0.5."""
    rows = distinct_comparisons(findings)
    if not rows:
        return None
    envs = {row["env"] for row in rows}
    figure = new_figure(7.4, 1.15 + (0.42 if len(envs) > 1 else 0.28) * len(rows))
    axes = figure.subplots()
    axes.axvline(0.5, color=GRAY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for y, row in enumerate(rows):
        draw_probability(axes, y, row)
    axes.set(
        xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6), xticks=[0, 0.25, 0.5, 0.75, 1],
        xlabel="P(first > second) of a run of each, 95 % interval",
        title=fill(next(iter(envs)), 60) if len(envs) == 1 else "",
    )  # fmt: skip
    several = len(envs) > 1
    axes.set_yticks(range(len(rows)), [comparison_label(r, several) for r in rows])
    axes.grid(axis="y", visible=False)
    numbers = axes.secondary_yaxis("right")
    numbers.set_yticks(range(len(rows)), [probability_label(row) for row in rows])
    axes.tick_params("y", length=0, pad=8)
    numbers.tick_params("y", length=0, pad=10)
    for spine in (axes.spines["left"], numbers.spines["right"]):
        spine.set_visible(False)
    return figure


def distinct_comparisons(findings: dict) -> list[dict]:
    """Comparisons that have a probability; one that two claims share is shown once."""
    every = [row for claim in findings["claims"] for row in claim["comparisons"]]
    known = [row for row in every if row["probability"] is not None]
    return list({(r["env"], r["text"], r["measure"]): r for r in known}.values())


def draw_probability(axes: Axes, y: int, row: dict) -> None:
    low, high = row["probability_low"], row["probability_high"]
    ends = (low, high) if low is not None and high is not None else ()
    clear = bool(ends) and not ends[0] <= 0.5 <= ends[1]
    axes.plot(ends, [y] * len(ends), color=INKS[0], linewidth=2, zorder=2)
    axes.plot(
        row["probability"], y, "o", color=INKS[0], markersize=6, zorder=3,
        markerfacecolor=INKS[0] if clear else "white", clip_on=False,
    )  # fmt: skip


def comparison_label(row: dict, several: bool) -> str:
    """A comparison, and its environment where there are several."""
    final = row["measure"] == "final"
    text = row["text"] if final else f"{row['text']} ({row['measure']})"
    return fill(text, 42) + (f"\n{row['env']}" if several else "")


def probability_label(row: dict) -> str:
    n = " and ".join(str(k) for k in row["n"] or ())
    ends = [row["probability_low"], row["probability_high"]]
    span = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if None not in ends else ""
    return f"{row['probability']:.2f}{span}" + (f"  n = {n}" if n else "")


# --- files -------------------------------------------------------------------------------

FIGURES = {
    "curves": mean_curves,
    "iqm": iqm_curves,
    "profile": profiles,
    "improvement": improvements,
}


def all_figures(findings: dict) -> dict[str, bytes]:
    """Draw every figure as PNG and SVG, by file name."""
    files = {}
    for name, draw in FIGURES.items():
        figure = draw(findings)
        if figure is not None:
            files[f"{name}.png"] = as_bytes(figure, "png")
            files[f"{name}.svg"] = as_bytes(figure, "svg")
    return files


def as_bytes(figure: Figure, kind: str) -> bytes:
    picture = io.BytesIO()
    dated = {"Date": None} if kind == "svg" else None
    with style.context(["default", LOOK]):  # ticks are made while drawing
        figure.savefig(picture, format=kind, metadata=dated, dpi=144)
    return picture.getvalue()
