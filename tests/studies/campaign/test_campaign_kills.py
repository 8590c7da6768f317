"""kill -9 of whoever runs all studies: the same command goes on, and ends with the bytes
of one that nobody disturbed."""

from pathlib import Path

import pytest
from tests.faults.commands import environment, finish, start
from tests.small_runs import ended_alike
from tests.studies.marked import wait_until
from tests.studies.study_folders import updates_once

pytestmark = pytest.mark.slow
HOME = Path("studies/paper")
WORDS = (
    "study", "run", "paper", "--studies=learning-rate,constants", "--fidelity=tuned",
    "--seeds=2", "-n", "9k", "--eval-every=3k", "--eval-episodes=1",
    "--checkpoint-every=0s", "--processes=2",
)  # fmt: skip


def rows(home: Path) -> int:
    files = home.rglob("evaluations.csv")
    return sum(file.read_bytes().count(b"\n") for file in files)


def test_a_driver_killed_in_any_study_goes_on(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    result = finish(start(*WORDS, cwd=whole, env=environment()), timeout=900)
    assert (result.code, result.err) == (0, "")
    home = tmp_path / HOME
    moments = (
        lambda: any(home.glob("*/study.json")),
        lambda: rows(home) > 3,
        lambda: rows(home) > 20,
        lambda: len(list(home.glob("*/study.json"))) == 2 and rows(home) > 45,
    )
    for moment in moments:
        process = start(*WORDS, cwd=tmp_path, env=environment())
        wait_until(moment, seconds=600)
        assert process.poll() is None, "it ended before it was killed"
        process.kill()
        process.communicate()
    result = finish(start(*WORDS, cwd=tmp_path, env=environment()), timeout=900)
    assert (result.code, result.err) == (0, "")
    assert "finished: 16 finished in 2 studies" in result.out
    ended_alike(home, whole / HOME)
    updates_once(home)
