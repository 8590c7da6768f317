"""Studies on a real Ray: workers that are killed, and Ctrl-C."""

import os
import signal

import pytest
from tests.small_runs import ended_alike
from tests.studies.marked import HOME, Driven, rows, undisturbed, wait_until
from tests.studies.study_folders import updates_once

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def drive(tmp_path):
    started = []

    def go(*words) -> Driven:
        started.append(Driven(tmp_path, "--on=ray", *words))
        return started[-1]

    yield go
    for driven in started:
        driven.clean()


def test_a_worker_of_ray_killed_during_a_run_is_made_up_for(drive, whole, tmp_path):
    driven, home = drive(), tmp_path / HOME
    wait_until(lambda: rows(home) > 4 and driven.workers())
    os.kill(driven.workers()[0], signal.SIGKILL)
    result = driven.ends()
    assert (result.code, result.err) == (0, "")
    assert "finished: 6 finished" in result.out
    ended_alike(home, whole)
    updates_once(home)
    driven.all_leave()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_asked_to_stop_ray_s_workers_save(number, code, drive, whole, tmp_path):
    """Every run that had begun is whole on the disk, and the study ends the same later,
    whoever runs it."""
    driven, home = drive(), tmp_path / HOME
    wait_until(lambda: rows(home) > 4)
    os.kill(driven.process.pid, number)
    result = driven.ends()
    assert (result.code, result.err) == (code, "")
    assert f"stopped by {number.name}" in result.out
    driven.all_leave()
    states = {file.read_text().split('"')[3] for file in home.rglob("status.json")}
    assert states <= {"stopped", "finished"}
    assert Driven(tmp_path, "--processes=2").ends().code == 0
    ended_alike(home, whole)
    updates_once(home)


def test_a_driver_of_ray_that_was_killed_leaves_nobody(drive, whole, tmp_path):
    driven, home = drive(), tmp_path / HOME
    wait_until(lambda: rows(home) > 4)
    driven.kill()
    driven.all_leave()
    assert drive().ends().code == 0
    ended_alike(home, whole)


def test_an_address_where_no_ray_is(drive):
    result = drive("--address=127.0.0.1:1").ends()
    assert result.code == 2
    assert "--address 127.0.0.1:1" in result.line
