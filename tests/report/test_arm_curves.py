"""The learning curve of a run with arms: a line and a name for each of them."""

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from penfac.plots import INK, INKS, SEED, Curve, learning_curve


@pytest.fixture
def axes(monkeypatch) -> list[Axes]:
    """The axes of every picture that is saved."""
    found, save = [], Figure.savefig

    def keep(figure, *args, **kwargs):
        found.extend(figure.axes)
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return found


def curve(arm: str | None, seed: int, height: float) -> Curve:
    return Curve(seed, [0, 50, 100], [0.0, height, 2 * height + seed], arm)


def names(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_a_line_and_a_name_for_each_arm(axes):
    """The mean over its seeds, each in a colour of its own, with how many seeds it has."""
    curves = [curve(arm, s, h) for arm, h in (("a", 1), ("b", 5)) for s in (0, 1, 2)]
    learning_curve([*curves, curve("c", 0, 9)], "title")
    (drawn,) = axes
    assert names(drawn) == ["a (3)", "b (3)", "c (1)"]
    lines = drawn.get_lines()
    assert [to_hex(line.get_color()) for line in lines] == list(INKS[:3])
    ends = [float(line.get_ydata()[-1]) for line in lines]
    assert ends == pytest.approx([2 + 1, 10 + 1, 18])  # seeds 0 to 2 end one apart
    assert drawn.get_title() == "title"


def test_one_arm_is_drawn_as_a_run_of_its_own(axes):
    """Its seeds, their mean and band: nobody has to be told which arm it is."""
    learning_curve([curve("a", 0, 1), curve("a", 1, 1)], "")
    learning_curve([curve(None, 0, 1), curve(None, 1, 1)], "")
    assert names(axes[0]) == names(axes[1])
    assert names(axes[0])[0] == "mean of 2 seeds"
    colours = [to_hex(line.get_color()) for line in axes[0].get_lines()]
    assert colours == [SEED, SEED, INK]


def test_arms_without_a_point_have_no_name(axes):
    """One that failed before it was judged."""
    learning_curve([curve("a", 0, 1), Curve(0, [], [], "mad"), curve("b", 0, 2)], "")
    assert names(axes[0]) == ["a (1)", "b (1)"]


def test_more_arms_than_colours_are_told_apart(axes):
    """By colour and dashes; up to three times as many as there are colours."""
    count = 3 * len(INKS)
    learning_curve([curve(f"arm-{k}", 0, k) for k in range(count)], "")
    looks = {(to_hex(x.get_color()), x.get_linestyle()) for x in axes[0].get_lines()}
    assert len(looks) == len(names(axes[0])) == count


def test_arms_change_the_picture():
    """The same numbers as two arms and as two seeds are two pictures."""
    arms = [curve("a", 0, 1), curve("b", 1, 5)]
    seeds = [x._replace(arm=None) for x in arms]
    pictures = {learning_curve(arms, "x"), learning_curve(seeds, "x")}
    pictures.add(learning_curve([x._replace(arm="ab"[x.seed] * 2) for x in arms], "x"))
    assert len(pictures) == 3
    assert learning_curve(arms, "x") in pictures
