"""Told to stop: everything is saved, the exit code says who asked, resuming ends the same."""

import signal
import time
from pathlib import Path

import pytest
from tests.faults.commands import (
    BAD,
    TINY,
    at,
    command,
    command_alone,
    finish,
    met_by_signals,
    same_end,
    start,
    status,
)

pytestmark = pytest.mark.slow

# ten updates of fifty steps; an evaluation of ten steps every other one
LONGER = ["--env", f"{BAD}Plain-v0", *TINY, "--steps=500", "--eval-every=100"]
RUN = "runs/penfac/test"
RARELY = "--checkpoint-every=1h"  # only the signal makes it save


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    assert command("train", *LONGER, "--out", out, "--name", "whole").code == 0
    return out / "penfac" / "whole"


MEETINGS = [  # where, which signal, and the update that must be on the disk afterwards
    (at("evaluate", 1, "during", k=3), signal.SIGINT, 0),
    (at("compile", 1, "during"), signal.SIGTERM, 1),
    (at("collect", 120), signal.SIGINT, 3),
    (at("update", 2, "during", delay=0.001), signal.SIGTERM, 5),
    (at("evaluate", 1, "during", k=3), signal.SIGTERM, 6),
    (at("collect", 1), signal.SIGTERM, 6),
    (at("compile", 1), signal.SIGHUP, 7),
    (at("update", 1, "after"), signal.SIGINT, 8),
    (at("checkpoint", 1, "fsync"), signal.SIGINT, None),
]


def test_a_signal_in_every_phase(whole_run, tmp_path):
    steps = []
    for k, (where, number, _) in enumerate(MEETINGS):
        words = ["resume", RUN, "--trust"] if k else ["train", *LONGER, "--name=test"]
        every = "--checkpoint-every=0s" if where["phase"] == "checkpoint" else RARELY
        steps.append({"argv": [*words, every], "at": where | {"signal": int(number)}})
    ends = met_by_signals(tmp_path, steps)
    said = (tmp_path / "output.txt").read_text()
    for (where, number, update), end in zip(MEETINGS, ends, strict=True):
        assert end["reached"], where
        assert end["code"] == 128 + number, (where, end, said[-3000:])
        (state,) = end["status"]
        assert state["state"] == "stopped"
        assert state["exit_code"] == 128 + number
        assert state["resumable"]
        assert number.name in state["error"]
        assert update in (None, state["last_checkpoint"]), where
    assert "Traceback" not in said
    assert said.count(f"continue: penfac resume {RUN} --trust") == len(MEETINGS)
    run = tmp_path / "runs" / "penfac" / "test"
    assert command_alone("resume", run, "--trust", cwd=tmp_path).code == 0
    same_end(run, whole_run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_leaves_at_once(number, whole_run, tmp_path):
    twice = {"signal": int(number), "times": 2}
    words = ["train", *LONGER, "--name=test", "--checkpoint-every=0s"]
    # in the seventh update, between two checkpoints, and while one is being written
    steps = [
        {"argv": words, "at": at("collect", 320, **twice)},
        {"argv": ["resume", RUN, "--trust", "--checkpoint-every=0s"],
         "at": at("checkpoint", 3, "fsync", k=3, **twice)},
    ]  # fmt: skip
    ends = met_by_signals(tmp_path, steps)
    assert [end["code"] for end in ends] == [128 + number] * 2
    assert ends[0]["status"][0]["state"] == "running"  # nothing more was written
    run = tmp_path / "runs" / "penfac" / "test"
    assert command("resume", run).code == 0
    same_end(run, whole_run)


def test_a_signal_from_outside(whole_run, tmp_path):
    process = start("train", *LONGER, "--name=test", RARELY, cwd=tmp_path)
    lines = iter(process.stdout.readline, "")
    assert any(line.startswith("seed=0 step=100 ") for line in lines)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    result = finish(process)
    assert time.monotonic() - began < 10
    assert (result.code, result.err) == (143, "")
    run = tmp_path / "runs" / "penfac" / "test"
    assert status(run)["last_checkpoint"] >= 2
    assert command("resume", run).code == 0
    same_end(run, whole_run)


def test_stop_after_ends_with_0_and_says_how_to_go_on(whole_run):
    run = Path("runs/penfac/test")
    first = command("train", *LONGER, "--name", "test", "--stop-after", "0s", RARELY)
    assert (first.code, first.err) == (0, "")
    assert "stopped after the time given" in first.out
    assert f"continue: penfac resume {RUN} --trust" in first.out
    assert status(run)["state"] == "stopped"
    assert status(run)["exit_code"] == 0
    # until it is done, in slices of a tenth of a second
    for _ in range(200):
        result = command("resume", run, "--stop-after", "0.1s", RARELY)
        assert (result.code, result.err) == (0, "")
        if status(run)["state"] == "finished":
            break
    assert "next: penfac eval" in result.out
    same_end(run, whole_run)


def test_handlers_are_given_back():
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    argv = ("--env", f"{BAD}Plain-v0", *TINY, "--stop-after", "0s")
    assert command("train", *argv).code == 0
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before
