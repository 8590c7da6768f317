"""`penfac plot` with curves that no run folder holds, and a panel for each."""

import json
from pathlib import Path

import imageio.v3 as imageio
import pytest
from tests.faults.commands import command
from tests.small_models import own_folder, train

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")
ROWS = "seed,step,return,more\n0,0,1,x\n0,50,3,x\n1,0,2,x\n1,50,4,x\n"


def plotted(*argv: object) -> list[dict]:
    done = command("plot", *argv, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)["curves"]


def test_a_file_of_curves_beside_a_run():
    run = train("--steps=50")
    Path("theirs.csv").write_text(ROWS)
    ours, theirs, named = plotted(run, "theirs.csv", "SAC of others=theirs.csv")
    assert ours["env"] == theirs["env"] == "Pendulum-v1"
    assert [theirs[key] for key in ("label", "seeds", "steps", "score")] == [
        "theirs", 2, 50, 3.5,
    ]  # fmt: skip
    assert named["label"] == "SAC of others"
    assert "Pendulum-v1 theirs: 3.5 +- 0.7" in command("plot", run, "theirs.csv").out


def test_a_table_of_a_study_has_arms_and_environments():
    rows = ["env,arm,seed,step,return"]
    rows += [f"{e},{a},0,{s},1" for e in "EF" for a in "ab" for s in (0, 9)]
    Path("curves.csv").write_text("\n".join(rows) + "\n")
    found = [(row["env"], row["label"]) for row in plotted("curves.csv")]
    assert found == [("E", "a"), ("E", "b"), ("F", "a"), ("F", "b")]


def test_a_panel_for_each():
    names = [f"{k}.csv" for k in range(5)]
    for name in names:
        Path(name).write_text(ROWS)
    plotted(*names, "--out=one.png")
    plotted(*names, "--out=many.png", "--apart")
    one, many = (imageio.imread(name) for name in ("one.png", "many.png"))
    assert many.shape[1] > 1.5 * one.shape[1]  # four panels beside each other, not one


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "no such file"),
        ("", "needs the columns seed, step, return, with numbers"),
        ("seed,step\n0,1\n", "needs the columns seed, step, return"),
        ("seed,step,return\n0,1,nan\n", "needs the columns seed, step, return"),
        ("seed,step,return\n0,5,1\n0,5,1\n", "the steps of seed 0 must rise"),
    ],
)
def test_what_is_no_file_of_curves_is_refused(text, line):
    if text is not None:
        Path("bad.csv").write_text(text)
    done = command("plot", "bad.csv")
    assert done.code in (2, 5)
    assert line in done.line


def test_two_curves_of_one_name_are_refused():
    Path("a.csv").write_text(ROWS)
    done = command("plot", "a.csv", "a=a.csv")
    assert "there is a curve a already; rename one" in done.line
