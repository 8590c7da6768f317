"""What a study found, as figures for print and screen. Never imports jax or pyplot.

`paper`, `field`, `profiles` and `improvements` build a figure each; `*_figure` gives
its bytes, which are the same for the same findings. One axes an environment; an arm
keeps its colour, its dashes and its marks in all of them.
"""

import io
from collections.abc import Callable
from math import ceil
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.stats import t as student
from scipy.stats import trim_mean

from penfac import stats
from penfac.plots import INKS, on_grid
from penfac.scores import final_score

# as many as have no common divisor with the colours: 35 arms differ in the pair, and
# 20 in dashes and marks, which is all that a black-and-white print keeps
DASHES = (
    "-",
    (0, (5, 1.6)),
    (0, (1.2, 1.4)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (6, 1.4, 1.2, 1.4, 1.2, 1.4)),
)
MARKS = ("", "o", "s", "^")
POINTS = 200  # of a curve
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
    "text.parse_math": False,  # an arm may have a $ in its name
    "svg.hashsalt": "penfac",  # else every SVG names its parts at random
}
PAPER = "line: mean over seeds; dark band: standard error; light band: one standard deviation"
STEPS, RETURN = "environment steps", "return without noise"
BOOTSTRAP, STUDENT = "95 % bootstrap interval", "95 % t interval of the mean"
FIELD = "thick line: interquartile mean; thin: seeds; band: "


class Arm(NamedTuple):
    """Of one environment: the curves that are drawn, of how many that were started."""

    name: str
    place: int
    curves: list[tuple[list[int], list[float]]]
    started: int


class Panel(NamedTuple):
    """An environment and its arms that have something to draw."""

    env: str
    arms: list[Arm]


# What is drawn


def _evaluations(seed: dict) -> tuple[list[int], list[float]]:
    """Steps and returns that are known, each step once: a resumed run may repeat one."""
    pairs = zip(seed["steps"], seed["returns"], strict=True)
    known = sorted({s: r for s, r in pairs if r is not None}.items())
    return [s for s, _ in known], [r for _, r in known]


def _drawn(seeds: list[dict]) -> list[tuple[list[int], list[float]]]:
    """Curves of the seeds that finished; of all with an evaluation if none has.

    A mean is drawn as far as all its seeds have come: one that failed or has just
    begun would end the curve of the others. The legend tells how many are left out.
    """
    known = [(s["state"], _evaluations(s)) for s in seeds]
    evaluated = [(state, curve) for state, curve in known if curve[0]]
    finished = [curve for state, curve in evaluated if state == "finished"]
    return finished or [curve for _, curve in evaluated]


def panels(findings: dict) -> list[Panel]:
    """Arms in the order of the study, so that each has its ink everywhere."""
    found = [a["arm"] for p in findings["panels"] for a in p["arms"]]
    names = list(dict.fromkeys([a["name"] for a in findings["arms"]] + found))
    made = []
    for panel in findings["panels"]:
        arms = [
            Arm(
                a["arm"],
                names.index(a["arm"]),
                _drawn(a["seeds"]),
                sum(s["state"] != "missing" for s in a["seeds"]),
            )
            for a in panel["arms"]
        ]
        made.append(Panel(panel["env"], [a for a in arms if a.curves]))
    return made or [Panel("", [])]


def _count(arms: list[Arm]) -> str:
    """How many seeds are drawn, and of how many: 10, or 8 to 10, or 9 of 10."""
    drawn = [len(a.curves) for a in arms]
    few, most = min(drawn), max(drawn)
    told = f"{few}" if few == most else f"{few} to {most}"
    left_out = any(a.started > len(a.curves) for a in arms)
    return f"{told} of {max(a.started for a in arms)}" if left_out else told


def _labels(shown: list[Panel]) -> dict[int, str]:
    """Place of an arm: its text in the legend, "penfac (10)"."""
    arms = sorted((a for p in shown for a in p.arms), key=lambda a: a.place)
    of = {a.place: [b for b in arms if b.place == a.place] for a in arms}
    return {place: f"{own[0].name} ({_count(own)})" for place, own in of.items()}


# How it is drawn


def ink(place: int) -> dict[str, Any]:
    """Colour, dashes and mark of an arm, as a line takes them."""
    return {
        "color": INKS[place % len(INKS)],
        "linestyle": DASHES[place % len(DASHES)],
        "marker": MARKS[place // len(DASHES) % len(MARKS)],
        "markersize": 4,
    }


def _every(place: int, points: int) -> tuple[int, int]:
    """Seven marks a line, at other points than those of the arm before."""
    gap = max(1, points // 7)
    return place * 3 % gap, gap


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, place: int, **more) -> None:
    look: dict[str, Any] = {**ink(place), "markevery": _every(place, len(x)), **more}
    if len(x) == 1:
        look["marker"] = look["marker"] or "o"  # one point is no line
    axes.plot(x, y, linewidth=1.7, zorder=3, **look)


def _steps(x: float, _) -> str:
    if abs(x) >= 1e6:
        return f"{x / 1e6:g}M"
    return f"{x / 1e3:g}k" if abs(x) >= 1e3 else f"{x:g}"


def _grid(count: int) -> tuple[int, int]:
    """Rows and columns: four are a square, six are two rows."""
    columns = 2 if count in (2, 4) else min(count, 3)
    return ceil(count / columns), columns


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=144, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.07, h_pad=0.07)  # pyright: ignore
    return figure


def _legend(figure: Figure, labels: dict[int, str], caption: str) -> None:
    """Below all axes, as many columns as fit; the figure grows by its height."""
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


def _panels(
    shown: list[Panel], labels: dict[int, str], caption: str,
    draw: Callable[[Axes, list[Arm]], None], x: str, y: str,
) -> Figure:  # fmt: skip
    """One axes an environment, and the legend of all."""
    rows, columns = _grid(len(shown))
    wide, high = (4.1, 3.1) if len(shown) > 1 else (6.4, 3.9)
    if len(shown) == 1 and len(labels) > 7:
        wide, high = 8.2, 5.0
    figure = _figure(wide * columns, high * rows)
    cells = figure.subplots(rows, columns, squeeze=False).flat
    for k, axes in enumerate(cells):
        if k >= len(shown):
            axes.remove()
            continue
        axes.set_title(fill(shown[k].env, 44))
        if shown[k].arms:
            draw(axes, shown[k].arms)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.margins(x=0.02)
            if x == STEPS:
                axes.xaxis.set_major_formatter(_steps)
            axes.set_xlabel(x if k + columns >= len(shown) else "")
            axes.set_ylabel(y if k % columns == 0 else "")
        else:
            axes.text(
                0.5, 0.5, "no runs yet", transform=axes.transAxes, color=GRAY,
                ha="center", va="center",
            )  # fmt: skip
            axes.set(xticks=[], yticks=[])
    if labels:
        _legend(figure, labels, caption)
    return figure


# The four figures


@style.context(["default", LOOK])
def paper(findings: dict) -> Figure:
    """As in the paper: mean over seeds, standard error and deviation as bands."""
    shown = panels(findings)
    crowd = 1 if max(len(p.arms) for p in shown) <= 5 else 0.7  # many bands are mud

    def draw(axes: Axes, arms: list[Arm]) -> None:
        for arm in arms:
            grid, returns = on_grid(arm.curves, POINTS)
            n, mean = len(returns), returns.mean(axis=0)
            _line(axes, grid, mean, arm.place)
            if n > 1:
                std = returns.std(axis=0, ddof=1)
                for half, alpha in ((std, 0.13), (std / n**0.5, 0.3)):
                    ends = mean - half, mean + half
                    _band(axes, grid, *ends, arm.place, alpha * crowd)

    return _panels(shown, _labels(shown), PAPER, draw, STEPS, RETURN)


def _band(axes: Axes, grid, low, high, place: int, alpha: float) -> None:
    color = ink(place)["color"]
    axes.fill_between(grid, low, high, color=color, alpha=alpha, linewidth=0)


def interval(returns: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Of [seeds, P], at each point: of the IQM from 20 seeds on, else of the mean."""
    n = len(returns)
    if n < 2:
        return None
    if n >= stats.FEWEST_TO_RESAMPLE:
        return stats.iqm_band(returns, resamples=1000)
    half = student.ppf(0.975, n - 1) * returns.std(axis=0, ddof=1) / n**0.5
    mean = returns.mean(axis=0)
    return mean - half, mean + half


@style.context(["default", LOOK])
def field(findings: dict) -> Figure:
    """As the field does today: IQM, its interval, and every seed behind it."""
    shown = panels(findings)
    crowd = max(sum(len(a.curves) for a in p.arms) for p in shown)
    faint = min(0.35, max(0.03, 6 / max(crowd, 1)))

    def draw(axes: Axes, arms: list[Arm]) -> None:
        for arm in arms:
            grid, returns = on_grid(arm.curves, POINTS)
            _seeds(axes, arm, faint, crowd > 100)
            _line(axes, grid, trim_mean(returns, 0.25, axis=0), arm.place)
            if ends := interval(returns):
                _band(axes, grid, *ends, arm.place, 0.25)

    labels, caption = _of_intervals(shown)
    return _panels(shown, labels, caption, draw, STEPS, RETURN)


def _seeds(axes: Axes, arm: Arm, alpha: float, many: bool) -> None:
    """All seeds of an arm, thin. Many are pixels in an SVG too: as paths they would be
    megabytes."""
    lines = LineCollection(
        [np.column_stack(curve) for curve in arm.curves],
        colors=ink(arm.place)["color"], linewidths=0.6, alpha=alpha, zorder=0.9,
        rasterized=many,
    )  # fmt: skip
    axes.add_collection(lines)


def _of_intervals(shown: list[Panel]) -> tuple[dict[int, str], str]:
    """Labels and caption that tell which band is which; a star where both occur."""
    least = {}
    for arm in (a for p in shown for a in p.arms if len(a.curves) > 1):
        least[arm.place] = min(len(arm.curves), least.get(arm.place, len(arm.curves)))
    few = {k for k, n in least.items() if n < stats.FEWEST_TO_RESAMPLE}
    labels = _labels(shown)
    if not few or few == set(least):
        kind = STUDENT if few else BOOTSTRAP
        return labels, FIELD + kind if least else FIELD.removesuffix("; band: ")
    starred = {k: text + "*" if k in few else text for k, text in labels.items()}
    return starred, f"{FIELD}{BOOTSTRAP}, * {STUDENT} below 20 seeds"


@style.context(["default", LOOK])
def profiles(findings: dict) -> Figure:
    """The share of runs whose final score is above a return."""
    shown = panels(findings)

    def draw(axes: Axes, arms: list[Arm]) -> None:
        scores = [[final_score(r) for _, r in arm.curves] for arm in arms]
        low, high = min(map(min, scores)), max(map(max, scores))
        pad = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
        levels = np.linspace(low - pad, high + pad, 300)
        for arm, own in zip(arms, scores, strict=True):
            shares = stats.profile(own, levels.tolist())
            between = np.flatnonzero((shares > 0) & (shares < 1))  # flat ends coincide
            marks = between[:: max(1, len(between) // 3)].tolist()
            look = {"drawstyle": "steps-post", "markevery": marks}
            _line(axes, levels, shares, arm.place, **look)
        axes.set_ylim(-0.03, 1.03)

    caption = "final score: mean over the last tenth of the evaluations"
    return _panels(
        shown, _labels(shown), caption, draw, "final score", "share of runs above"
    )


def _compared(findings: dict) -> list[dict]:
    """Comparisons that have a probability, each once though two claims share it."""
    found = [c for claim in findings["claims"] for c in claim["comparisons"]]
    known = [c for c in found if c["probability"] is not None]
    return list({(c["env"], c["text"], c["measure"]): c for c in known}.values())


@style.context(["default", LOOK])
def improvements(findings: dict) -> Figure | None:
    """P(first > second) of every comparison; filled where the interval leaves 0.5."""
    rows = _compared(findings)
    if not rows:
        return None
    envs = {c["env"] for c in rows}
    figure = _figure(7.4, 1.15 + (0.42 if len(envs) > 1 else 0.28) * len(rows))
    axes = figure.subplots()
    axes.axvline(0.5, color=GRAY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for y, c in enumerate(rows):
        low, high = c["probability_low"], c["probability_high"]
        ends = (low, high) if low is not None and high is not None else ()
        clear = bool(ends) and not ends[0] <= 0.5 <= ends[1]
        axes.plot(ends, [y] * len(ends), color=INKS[0], linewidth=2, zorder=2)
        axes.plot(
            c["probability"], y, "o", color=INKS[0], markersize=6, zorder=3,
            markerfacecolor=INKS[0] if clear else "white", clip_on=False,
        )  # fmt: skip
    axes.set(
        xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6), xticks=[0, 0.25, 0.5, 0.75, 1],
        xlabel="P(first > second) of a run of each, 95 % interval",
        title=fill(envs.pop(), 60) if len(envs) == 1 else "",
    )  # fmt: skip
    axes.set_yticks(range(len(rows)), [_row(c, bool(envs)) for c in rows])
    axes.grid(axis="y", visible=False)
    numbers = axes.secondary_yaxis("right")
    numbers.set_yticks(range(len(rows)), [_numbers(c) for c in rows])
    axes.tick_params("y", length=0, pad=8)
    numbers.tick_params("y", length=0, pad=10)
    for spine in (axes.spines["left"], numbers.spines["right"]):
        spine.set_visible(False)
    return figure


def _row(c: dict, of_env: bool) -> str:
    """A comparison in words, below it the environment where there are several."""
    text = c["text"] if c["measure"] == "final" else f"{c['text']} ({c['measure']})"
    return fill(text, 42) + (f"\n{c['env']}" if of_env else "")


def _numbers(c: dict) -> str:
    n = " and ".join(str(k) for k in c["n"] or ())
    ends = [c["probability_low"], c["probability_high"]]
    told = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if None not in ends else ""
    return f"{c['probability']:.2f}{told}" + (f"  n = {n}" if n else "")


# As bytes


def _bytes(figure: Figure, kind: str) -> bytes:
    if kind not in ("png", "svg"):
        raise ValueError(f"{kind!r} is neither png nor svg")
    picture = io.BytesIO()
    dated = {"Date": None} if kind == "svg" else None
    with style.context(["default", LOOK]):  # ticks are made while drawing
        figure.savefig(picture, format=kind, metadata=dated, dpi=144)
    return picture.getvalue()


def paper_figure(findings: dict, kind: str) -> bytes:
    """`paper` as "png" or "svg"."""
    return _bytes(paper(findings), kind)


def field_figure(findings: dict, kind: str) -> bytes:
    """`field` as "png" or "svg"."""
    return _bytes(field(findings), kind)


def profile_figure(findings: dict, kind: str) -> bytes:
    """`profiles` as "png" or "svg"."""
    return _bytes(profiles(findings), kind)


def improvement_figure(findings: dict, kind: str) -> bytes | None:
    """`improvements` as "png" or "svg"; None if no comparison has a probability."""
    figure = improvements(findings)
    return None if figure is None else _bytes(figure, kind)


FIGURES = {
    "curves": paper_figure,
    "iqm": field_figure,
    "profile": profile_figure,
    "improvement": improvement_figure,
}


def all_figures(findings: dict) -> dict[str, bytes]:
    """File names and contents, in this order; no improvement where none is known."""
    drawn = {
        f"{name}.{kind}": draw(findings, kind)
        for name, draw in FIGURES.items()
        for kind in ("png", "svg")
    }
    return {name: picture for name, picture in drawn.items() if picture is not None}
