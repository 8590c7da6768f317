"""Figures of a study: read from their objects, then as pictures."""

import copy
import io
import itertools
import subprocess
import sys
import time
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection
from PIL import Image

from penfac import stats
from penfac.plots import INKS
from penfac.report import canvas, figures
from penfac.scores import final_score

NAMES = ["penfac", "ddpg", "ppo"]


def findings(envs=1, arms=3, seeds=4, points=6) -> dict:
    """A study whose runs all finished, and a comparison of the first two arms."""
    rng = np.random.default_rng(envs + 10 * arms)
    names = [NAMES[k] if k < 3 else f"arm {k}" for k in range(arms)]
    steps = [int(s) for s in np.linspace(0, 100_000, points)]

    def seed(k: int, arm: int) -> dict:
        rise = (arms - arm) * np.arange(points)
        returns = (rise + rng.normal(0, 1, points)).tolist()
        return {"seed": k, "state": "finished", "steps": steps, "returns": returns}

    panels = [
        {
            "env": f"Env{e}-v0",
            "arms": [
                {"arm": name, "seeds": [seed(k, a) for k in range(seeds)]}
                for a, name in enumerate(names)
            ],
        }
        for e in range(envs)
    ]
    rows = [comparison(f"Env{e}-v0") for e in range(envs)]
    return {
        "arms": [{"name": name} for name in names],
        "panels": panels,
        "claims": [{"comparisons": rows}],
    }


def comparison(env: str, p: float | None = 0.9, low=0.7, high=0.98) -> dict:
    return {
        "env": env, "text": "penfac above ddpg", "measure": "final", "probability": p,
        "probability_low": low, "probability_high": high, "n": [4, 4],
    }  # fmt: skip


def runs(study: dict, arm=0, panel=0) -> list[dict]:
    return study["panels"][panel]["arms"][arm]["seeds"]


def legend(figure) -> list[str]:
    return [t.get_text() for t in figure.legends[0].get_texts()]


def caption(figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


def bands(axes) -> list[PolyCollection]:
    return [c for c in axes.collections if isinstance(c, PolyCollection)]


def words(figure) -> set[str]:
    return {t.get_text() for axes in figure.axes for t in axes.texts}


# As in the paper


def test_every_arm_has_a_line_two_bands_and_its_number_of_seeds():
    figure = figures.mean_curves(findings(envs=2))
    assert [a.get_title() for a in figure.axes] == ["Env0-v0", "Env1-v0"]
    for axes in figure.axes:
        assert len(axes.lines) == 3
        assert len(bands(axes)) == 6
    assert legend(figure) == ["penfac (4)", "ddpg (4)", "ppo (4)"]


def test_the_bands_are_the_deviation_and_the_error_of_the_mean():
    """Read from the polygons, at the last step."""
    study = findings(arms=1)
    last = np.array([run["returns"][-1] for run in runs(study)])
    axes = figures.mean_curves(study).axes[0]
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(last.mean())
    ends = []
    for band in bands(axes):
        path = band.get_paths()[0].vertices
        at_end = path[path[:, 0] == path[:, 0].max()][:, 1]
        ends.append((at_end.max() - at_end.min()) / 2)
    std = last.std(ddof=1)
    assert ends == pytest.approx([std, std / 2])
    light, dark = (band.get_facecolor()[0][3] for band in bands(axes))
    assert light < dark


def test_one_seed_has_no_band():
    figure = figures.mean_curves(findings(seeds=1))
    assert not bands(figure.axes[0])
    assert legend(figure)[0] == "penfac (1)"


def test_arms_differ_in_colour_and_dashes_and_in_print_without_colour():
    """Twenty of them; and neighbours share neither."""
    looks = [canvas.ink(k) for k in range(20)]
    colourless = {(str(x["linestyle"]), x["marker"]) for x in looks}
    assert len(colourless) == 20
    for one, two in itertools.pairwise(looks):
        assert one["color"] != two["color"]
        assert one["linestyle"] != two["linestyle"]
    assert {x["color"] for x in looks} == set(INKS)


def test_an_arm_looks_the_same_where_another_is_missing():
    study = findings(envs=2)
    del study["panels"][0]["arms"][0]
    first, second = figures.mean_curves(study).axes
    assert len(first.lines) == 2
    assert first.lines[0].get_color() == second.lines[1].get_color() == INKS[1]


def test_a_panel_without_data_says_so():
    study = findings(envs=2)
    for arm in range(3):
        for run in runs(study, arm):
            run.update(state="missing", steps=[], returns=[])
    for build in (figures.mean_curves, figures.iqm_curves, figures.profiles):
        figure = build(study)
        assert [t.get_text() for t in figure.axes[0].texts] == ["no runs yet"]
        assert not figure.axes[1].texts


def test_a_study_without_runs_is_drawn_too():
    empty = {"arms": [], "panels": [], "claims": []}
    assert words(figures.mean_curves(empty)) == {"no runs yet"}
    assert list(figures.all_figures(empty)) == [
        "curves.png", "curves.svg", "iqm.png", "iqm.svg", "profile.png", "profile.svg"
    ]  # fmt: skip


# Which seeds


def test_a_seed_that_failed_does_not_end_the_curve_of_the_others():
    """It is left out, and the legend tells."""
    study = findings()
    runs(study)[0].update(state="failed", steps=[0], returns=[1.0])
    runs(study, 1)[0].update(state="failed", steps=[], returns=[])
    runs(study, 2)[0].update(state="missing", steps=[], returns=[])
    figure = figures.mean_curves(study)
    assert legend(figure) == ["penfac (3 of 4)", "ddpg (3 of 4)", "ppo (3)"]
    assert figure.axes[0].lines[0].get_xdata()[-1] == 100_000


def test_while_none_has_finished_curves_reach_as_far_as_all_have():
    study = findings(arms=1)
    for k, run in enumerate(runs(study)):
        run.update(state="running", steps=run["steps"][: k + 2])
        run.update(returns=run["returns"][: k + 2])
    line = figures.mean_curves(study).axes[0].lines[0]
    assert line.get_xdata()[-1] == 20_000


def test_one_evaluation_is_a_dot():
    study = findings(points=1)
    for build in (figures.mean_curves, figures.iqm_curves):
        for line in build(study).axes[0].lines:
            assert line.get_marker() == "o"
    assert all(figures.all_figures(study).values())


def test_numbers_of_seeds_that_differ_between_panels_are_a_range():
    study = findings(envs=2)
    del runs(study, panel=1)[0]
    assert legend(figures.mean_curves(study))[0] == "penfac (3 to 4)"


def test_unknown_returns_and_repeated_steps_are_passed_over():
    study = findings(arms=1, points=3)
    runs(study)[0].update(steps=[0, 50_000, 50_000, 100_000], returns=[1, 2, 9, None])
    line = figures.mean_curves(study).axes[0].lines[0]
    assert line.get_xdata()[-1] == 50_000
    last = [9, *(run["returns"][1] for run in runs(study)[1:])]
    assert line.get_ydata()[-1] == pytest.approx(np.mean(last))


# As the field does


def test_few_seeds_have_a_t_interval_and_the_caption_says_so():
    study = findings(seeds=5)
    figure = figures.iqm_curves(study)
    assert "95 % t interval of the mean" in caption(figure)
    axes = figure.axes[0]
    assert len(bands(axes)) == 3
    thin = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert [len(seeds.get_segments()) for seeds in thin] == [5, 5, 5]
    assert len(axes.lines) == 3


def test_the_t_interval_is_that_of_the_summary():
    returns = np.random.default_rng(0).normal(size=(7, 3))
    low, high = figures.interval(returns)
    for k in range(3):
        known = stats.summary(returns[:, k])
        assert (low[k], high[k]) == pytest.approx((known.low, known.high))
    assert figures.interval(returns[:1]) is None


def test_many_seeds_have_a_bootstrap_around_the_iqm():
    study = findings(arms=1, seeds=20)
    figure = figures.iqm_curves(study)
    assert "95 % bootstrap interval" in caption(figure)
    line = figure.axes[0].lines[0]
    last = [run["returns"][-1] for run in runs(study)]
    assert line.get_ydata()[-1] == pytest.approx(stats.iqm(last))


def test_a_star_tells_which_band_is_which():
    study = findings(arms=2, seeds=20)
    del runs(study, 1)[10:]
    figure = figures.iqm_curves(study)
    assert legend(figure) == ["penfac (20)", "ddpg (10)*"]
    assert "bootstrap interval, * 95 % t interval" in caption(figure)


# Profiles and probabilities


def test_a_profile_is_the_share_of_runs_above_each_return():
    study = findings(arms=2)
    axes = figures.profiles(study).axes[0]
    scores = [final_score(run["returns"]) for run in runs(study)]
    x, y = (np.asarray(d) for d in axes.lines[0].get_data())
    assert y[0] == 1
    assert y[-1] == 0
    for level, share in zip(x, y, strict=True):
        assert share == sum(s > level for s in scores) / 4


def test_a_profile_of_equal_scores_has_a_width():
    study = findings(arms=1, seeds=2)
    for run in runs(study):
        run["returns"] = [0.0] * 6
    low, high = figures.profiles(study).axes[0].get_xlim()
    assert low < 0 < high


def test_every_comparison_with_a_probability_has_a_point_and_an_interval():
    study = findings(envs=2)
    rows = study["claims"][0]["comparisons"]
    rows.append(comparison("Env0-v0", p=None, low=None, high=None))
    study["claims"].append({"comparisons": [rows[0]]})  # shared by two claims
    rows[1].update(probability=0.4, probability_low=0.2, probability_high=0.6)
    axes = figures.improvements(study).axes[0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(p.get_xdata()[0]) for p in points] == [0.9, 0.4]
    filled = [p.get_markerfacecolor() != "white" for p in points]
    assert filled == [True, False]
    ends = [
        list(x.get_xdata())
        for x in axes.lines
        if x.get_linewidth() == 2 and x not in points
    ]
    assert ends == [[0.7, 0.98], [0.2, 0.6]]
    assert any(list(x.get_xdata()) == [0.5, 0.5] for x in axes.lines)
    labels = [t.get_text() for t in axes.get_yticklabels()]
    assert labels == ["penfac above ddpg\nEnv0-v0", "penfac above ddpg\nEnv1-v0"]


def test_without_a_probability_there_is_no_such_figure():
    study = findings()
    study["claims"] = [{"comparisons": [comparison("Env0-v0", None, None, None)]}]
    assert figures.improvements(study) is None
    assert "improvement.png" not in figures.all_figures(study)


# As pictures


def test_all_figures_come_by_name_in_a_fixed_order():
    study = findings()
    drawn = figures.all_figures(study)
    assert list(drawn) == [
        f"{name}.{kind}"
        for name in ("curves", "iqm", "profile", "improvement")
        for kind in ("png", "svg")
    ]
    for name, picture in drawn.items():
        if name.endswith("png"):
            pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("L"))
            assert min(pixels.shape) > 100
            assert pixels.min() < 128 < pixels.max()
        else:
            assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314


def test_the_same_findings_give_the_same_bytes():
    """Whatever was drawn before, and whatever another program set."""
    study = findings(envs=2, seeds=20)
    first = figures.all_figures(copy.deepcopy(study))
    with matplotlib.rc_context({"font.size": 20, "axes.grid": False}):
        second = figures.all_figures(study)
    assert first == second


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    before = dict(matplotlib.rcParams)
    figures.all_figures(findings())
    assert dict(matplotlib.rcParams) == before


def test_a_name_with_dollars_is_a_name():
    study = findings(arms=1)
    study["arms"][0]["name"] = study["panels"][0]["arms"][0]["arm"] = "$\\bad{ (x) $"
    study["panels"][0]["env"] = "a_b$c$"
    assert all(figures.all_figures(study).values())


@pytest.mark.parametrize(("envs", "arms"), [(1, 1), (1, 20), (3, 4), (6, 7)])
def test_no_text_lies_over_another(envs, arms):
    """Titles, labels and legend, by their boxes on the canvas."""
    study = findings(envs, arms, seeds=2)
    for a in range(arms):  # long names, as settings make them
        name = f"penfac sigma=0.{a}, lambda=0.9"
        study["arms"][a]["name"] = name
        for panel in study["panels"]:
            panel["arms"][a]["arm"] = name
    figure = figures.iqm_curves(study)
    figure.draw_without_rendering()
    boxes = [figure.legends[0].get_window_extent()]
    for axes in figure.axes:
        texts = (axes.title, axes.xaxis.label, axes.yaxis.label)
        boxes += [t.get_window_extent() for t in texts if t.get_text()]
        boxes.append(axes.get_window_extent())
    inside = figure.bbox.padded(1)
    for k, box in enumerate(boxes):
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1
        assert not any(box.overlaps(other) for other in boxes[k + 1 :])
    assert min(axes.get_window_extent().height for axes in figure.axes) > 200


def test_a_large_study_is_drawn_in_seconds():
    """20 arms, 60 seeds, 200 evaluations: 8 s of one core; its SVG is no burden."""
    study = findings(arms=20, seeds=60, points=200)
    started = time.process_time()
    drawn = figures.all_figures(study)
    assert time.process_time() - started < 8
    assert max(map(len, drawn.values())) < 3_000_000


def test_drawing_needs_neither_jax_nor_pyplot():
    program = (
        "import sys, penfac.report.figures\n"
        "assert not {'jax', 'matplotlib.pyplot'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
