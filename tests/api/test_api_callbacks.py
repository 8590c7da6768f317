"""Who is told as a model learns: a callback, a bar, a person who interrupts it."""

import signal
import sys
import threading
from types import SimpleNamespace

import pytest
from tests.faults.commands import same_end, status
from tests.small_models import JUDGED, learned, own_folder, small

from penfac.api import notebook
from penfac.training.interruption import Interruption

__all__ = ["own_folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_callback_hears_of_updates_and_evaluations():
    heard = []
    small(seed=2).learn(100, heard.append, **JUDGED)
    kinds = [(event.kind, event.step) for event in heard]
    assert kinds == [
        ("evaluation", 0), ("update", 50), ("evaluation", 50), ("update", 100),
        ("evaluation", 100),
    ]  # fmt: skip
    assert {event.seed for event in heard} == {2}
    assert "value_loss" in heard[1].metrics
    assert heard[2].mean == heard[2].returns[0]


def test_what_a_callback_raises_comes_out_and_nothing_is_lost():
    def fails(event):
        if event.step == 50:
            raise ZeroDivisionError("mine")

    model = small()
    with pytest.raises(ZeroDivisionError, match=r"^mine$"):
        model.learn(100, fails, **JUDGED)
    assert status(model.run)["error"] == "the callback raised ZeroDivisionError: mine"
    same_end(model.learn().run, learned(steps=100).run)


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_a_signal_saves_then_is_raised(number, raised):
    model, handler = small(), signal.getsignal(number)
    with pytest.raises(raised):
        model.learn(100, lambda e: e.step and signal.raise_signal(number), **JUDGED)
    assert model.num_timesteps == 50
    assert status(model.run)["state"] == "stopped"
    assert signal.getsignal(number) is handler


def test_learning_off_the_main_thread():
    """Where no signal handler can be set; also when the bar is on."""
    model = small()
    go = lambda: model.learn(50, progress_bar=True, **JUDGED)  # noqa: E731
    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert model.num_timesteps == 50


def test_it_is_silent_unless_asked(capfd):
    learned()
    assert capfd.readouterr() == ("", "")
    small().learn(50, progress_bar=True, **JUDGED)
    assert "step=50" in capfd.readouterr().out


def test_a_second_interrupt_leaves_the_run_not_the_session(monkeypatch):
    """Where a person types, what else they hold in memory must live."""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with Interruption(None) as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.received == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


# --- a notebook -------------------------------------------------------------------------


class ZMQInteractiveShell:
    """What a kernel's shell is called."""


class Shell(ZMQInteractiveShell):
    """... and one made from it, as hosted notebooks have."""


@pytest.mark.parametrize(
    ("shell", "is_one"),
    [(ZMQInteractiveShell(), True), (Shell(), True), (object(), False), (None, False)],
)
def test_a_notebook_is_known_by_its_shell(shell, is_one, monkeypatch):
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert notebook.in_notebook() is is_one


def test_a_notebook_gets_a_bar_of_its_own(monkeypatch, capfd):
    shown = []
    handle = SimpleNamespace(update=lambda picture, raw: shown.append(picture))

    def display(picture, raw, display_id):
        shown.append(picture)
        return handle

    fake = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(
        sys.modules, "IPython.display", SimpleNamespace(display=display)
    )
    small().learn(50, progress_bar=True, **JUDGED)
    assert capfd.readouterr().out == ""
    assert shown[0]["text/plain"].startswith("0 %, 0 of 50 steps")
    assert '<progress value="50" max="50">' in shown[-1]["text/html"]
    assert "return" in shown[-1]["text/plain"]
