"""What a run prints: how far it is, how long it will take."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from penfac import terminal
from penfac.runs.learners import Learner
from penfac.training.request import Request, resolve

CONFIG = resolve(Request(env="Pendulum-v1", steps=1000, seeds=(0, 1)))
WHO = [Learner(None, seed, Path("run")) for seed in (0, 1)]


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(time=100.0)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now.time)
    return now


def after(bar: terminal.Plain, clock, seconds: float, *steps: int) -> None:
    clock.time += seconds
    for who, step in zip(WHO, steps, strict=True):
        bar.updated(who, SimpleNamespace(step=step), None)


def test_total_percent_and_time_left(clock):
    bar = terminal.Plain(silent=True)
    bar.started(Path("run"), CONFIG, 0)
    assert (bar.percent(), bar.left()) == (0, "-")
    after(bar, clock, 10, 300, 200)
    assert (bar.total, bar.done(), bar.percent()) == (2000, 500, 25)
    assert bar.left() == "0:00:30"
    after(bar, clock, 5, 1050, 1010)  # the last update goes beyond the budget
    assert (bar.percent(), bar.left()) == (100, "0:00:00")


def test_a_resumed_run_counts_what_it_had_but_not_as_fast(clock):
    bar = terminal.Plain(silent=True)
    bar.started(Path("run"), CONFIG, 1000)
    assert (bar.percent(), bar.left()) == (50, "-")
    after(bar, clock, 10, 600, 500)
    assert bar.rate() == pytest.approx(10)
    assert bar.left() == "0:01:30"


def test_the_bar_shows_them(clock, monkeypatch):
    console = terminal.Console(width=160, record=True, force_terminal=True, quiet=False)
    monkeypatch.setattr(terminal, "console", console)
    bar = terminal.Live()
    bar.started(Path("run"), CONFIG, 0)
    after(bar, clock, 10, 300, 200)
    bar.close()
    shown = console.export_text()
    assert "25 %" in shown
    assert "500 of 2k steps" in shown
    assert "0:00:30 left" in shown


def test_numbers_are_short_where_they_are_round():
    found = [terminal.short(n) for n in (100, 2_000, 300_000, 1_500_000, 61_440)]
    assert found == ["100", "2k", "300k", "1.5M", "61,440"]
