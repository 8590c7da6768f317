"""kill -9 of whoever runs a study, at any moment: started again, it ends with the bytes of
one that nobody disturbed."""

import os
import signal
from pathlib import Path

import pytest
from tests.small_runs import ended_alike
from tests.studies.marked import HOME, Driven, rows, undisturbed, wait_until
from tests.studies.study_folders import run_folders, updates_once

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def drive(tmp_path):
    """Start the study, or go on with it; nobody is left when the test ends."""
    started = []

    def go(*words) -> Driven:
        started.append(Driven(tmp_path, "--processes=2", *words))
        return started[-1]

    yield go
    for driven in started:
        driven.clean()


def ends_as(home: Path, whole: Path) -> None:
    ended_alike(home, whole)
    updates_once(home)
    assert not [p for p in home.rglob(".tmp-*") if "checkpoints" not in p.parts]
    assert len(run_folders(home)) == 6


def test_a_driver_killed_at_any_moment(drive, whole, tmp_path):
    """While it begins, as its processes start, and as they learn; each time the next one
    starts at once, while the processes of the last may still be saving."""
    home = tmp_path / HOME
    moments = [
        lambda d: home.exists(),
        lambda d: (home / "study.json").exists(),
        lambda d: d.all().keys() - {d.process.pid},
        lambda d: d.workers(),
        *[lambda d, n=n: rows(home) > n for n in (4, 20, 50, 90)],
        lambda d: len(list(home.glob("*/*/*/*/policy"))) > 3,
    ]
    for moment in moments:
        driven = drive()
        wait_until(lambda moment=moment, driven=driven: moment(driven))
        assert driven.process.poll() is None, "it ended before it was killed"
        driven.kill()
    last = drive()
    result = last.ends()
    assert (result.code, result.err) == (0, "")
    ends_as(home, whole)


def test_nobody_outlives_a_driver_that_was_killed(drive, tmp_path):
    driven = drive()
    wait_until(driven.workers)
    driven.kill()
    driven.all_leave()
    states = {p: (p / "status.json").read_text() for p in run_folders(tmp_path / HOME)
              if (p / "status.json").exists()}  # fmt: skip
    assert states
    assert all('"failed"' not in text for text in states.values())


def test_processes_killed_at_any_moment_are_made_up_for(drive, whole, tmp_path):
    """Two of them, at different places; the driver tries their runs again."""
    driven, home = drive(), tmp_path / HOME
    for n in (0, 60):
        wait_until(lambda n=n: rows(home) > n and driven.workers())
        os.kill(driven.workers()[0], signal.SIGKILL)
    result = driven.ends()
    assert (result.code, result.err) == (0, "")
    assert "finished: 6 finished" in result.out
    ends_as(home, whole)
    assert driven.all() == {}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_asked_to_stop_it_saves_and_goes_on_later(number, code, drive, whole, tmp_path):
    driven, home = drive(), tmp_path / HOME
    wait_until(lambda: rows(home) > 10)
    os.kill(driven.process.pid, number)
    result = driven.ends()
    assert (result.code, result.err) == (code, "")
    assert f"stopped by {number.name}" in result.out
    assert driven.all() == {}
    assert drive().ends().code == 0
    ends_as(home, whole)
