"""`penfac plot` and `penfac eval --compare`, as a user calls them."""

import json
import statistics
from pathlib import Path

import imageio.v3 as imageio
import pytest
from msgspec.structs import replace
from tests.faults.commands import TINY, command

from penfac import stats
from penfac.analysis.compare import label_runs, summary_row
from penfac.plots import Curve, comparison
from penfac.runs.run import Run
from penfac.training.request import Request, resolve

LQR = "--env=penfac/LQR-v0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    """Three seeds of two algorithms, and one seed of another task."""
    out = tmp_path_factory.mktemp("compared")
    for algo, *words in (
        ("penfac", LQR, "--seeds=3"),
        ("nfac", LQR, "--seeds=3"),
        ("penfac", "--env=penfac/ProbeBoth-v0"),
    ):
        done = command("train", f"--algo={algo}", *words, *TINY, f"--out={out}")
        assert (done.code, done.err) == (0, "")
    names = ("penfac/penfac-LQR-v0_1", "nfac/penfac-LQR-v0_1")
    return [out / name for name in (*names, "penfac/penfac-ProbeBoth-v0_1")]


def test_curves_beside_each_other_say_how_many_seeds(runs, tmp_path):
    file = tmp_path / "new" / "both.png"
    done = command("plot", *runs, f"--out={file}")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("penfac/LQR-v0 penfac: ")
    assert lines[0].endswith("3 of 3 seeds")
    assert lines[2].startswith("penfac/ProbeBoth-v0 penfac: ")
    assert lines[3] == f"figure: {file}"
    picture = imageio.imread(file)
    assert picture.std() > 10
    assert picture.shape[1] > picture.shape[0]


def test_the_score_is_that_of_the_evaluations(runs, tmp_path):
    done = command("plot", runs[0], f"--out={tmp_path / 'a.svg'}", "--json")
    (row,) = json.loads(done.out)["curves"]
    lasts = []
    for seed in range(3):
        lines = (runs[0] / f"seed-{seed}" / "evaluations.csv").read_text().splitlines()
        names = lines[0].split(",")
        rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
        end = max(int(r["step"]) for r in rows)
        lasts += [
            statistics.fmean(float(r["return"]) for r in rows if int(r["step"]) == end)
        ]
    assert row["score"] == pytest.approx(statistics.fmean(lasts))
    assert row["std"] == pytest.approx(statistics.stdev(lasts))
    assert (tmp_path / "a.svg").read_text().lstrip().startswith("<?xml")


def test_the_difference_is_welch_s_over_seeds(runs):
    done = command("eval", "--compare", *runs[:2], "--episodes=3", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    a, b = ([row["mean"] for row in judged["seeds"]] for judged in found["runs"])
    due = stats.welch(a, b)
    assert found["unit"] == "seed"
    assert found["difference"] == pytest.approx(due.difference)
    assert [found["low"], found["high"]] == pytest.approx([due.low, due.high])
    said = command("eval", "--compare", *runs[:2], "--episodes=3").out
    assert f"minus {runs[1]}: {due.difference:.1f}, 95 % interval" in said
    assert "(over seeds)" in said


def test_of_single_policies_the_unit_is_an_episode_and_that_is_said(runs):
    pair = [runs[0] / "seed-0", runs[1] / "seed-2"]
    done = command("eval", "--compare", *pair, "--episodes=4")
    assert "(over episodes)" in done.out
    assert "train several seeds" in done.out


def test_a_run_is_no_better_than_itself(runs):
    done = command("eval", "--compare", runs[0], runs[0], "--episodes=2", "--json")
    found = json.loads(done.out)
    assert found["difference"] == 0
    assert found["probability_of_improvement"]["p"] == 0.5


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["eval", 0, 1], "eval: takes one run, or two with --compare (got 2)"),
        (["eval", "--compare", 0], "--compare: takes two runs (got 1)"),
        (["eval", "--compare", 0, 2], "differ; they must be the same"),
        (["plot", 0, "--out=a.jpg"], "--out a.jpg: must end in .png or .svg or .pdf"),
        (["plot", 0, 0], "plot: each run may be given once"),
        (["plot", "nowhere"], "nowhere: no such run folder"),
    ],
)
def test_what_cannot_be_compared_is_2(runs, words, line):
    done = command(*(runs[w] if isinstance(w, int) else w for w in words))
    assert done.code == 2
    assert line in done.line


def test_one_seed_against_several_is_refused(runs):
    done = command("eval", "--compare", runs[0], runs[1] / "seed-0", "--episodes=2")
    assert done.code == 2
    assert "several seeds" in done.line


def test_labels_are_the_shortest_that_differ():
    one = resolve(Request("penfac/LQR-v0"))
    same, other = replace(one, preset="authors"), replace(one, env="penfac/Pendulum-v0")
    a, b = Path("r/x_1"), Path("r/x_2")

    def labels(first, second) -> list[str]:
        return list(label_runs([Run(a, first), Run(b, second)]).values())

    assert labels(one, other) == ["penfac", "penfac"]
    assert labels(one, same) == ["penfac tuned", "penfac authors"]
    assert labels(one, one) == ["penfac x_1", "penfac x_2"]


def test_seeds_that_were_never_judged_are_counted_as_missing(runs):
    run = Run.open(runs[0])
    more = Run(run.path, replace(run.config, seeds=(0, 1, 2, 3)))
    judged = [Curve(seed, [0, 10], [1.0, 2.0]) for seed in range(3)]
    row = summary_row("x", more, judged)
    assert (row["seeds"], row["of"]) == (3, 4)


def test_more_environments_than_fit_a_row_leave_no_empty_axes():
    one = {"a": [Curve(0, [0, 10], [1.0, 2.0])]}
    drawn = comparison({f"env{k}": one for k in range(4)}, "svg").decode()
    assert drawn.count('<g id="axes_') == 4
