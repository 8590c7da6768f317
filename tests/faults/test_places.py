"""Locales, paths, clocks and pipes: none of them reaches a result."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.commands import (
    BAD,
    TINY,
    command,
    environment,
    finish,
    same_end,
    start,
)

pytestmark = pytest.mark.slow

ENV = f"{BAD}Plain-v0"
ODD = "Räume mit 🤖 und 'Leerzeichen'"
IN_LOCALE = (  # the C library's numbers follow the locale too
    "import locale; locale.setlocale(locale.LC_ALL, ''); "
    "from penfac.cli import main; main()"
)


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    """The run that every other one here must equal."""
    out = tmp_path_factory.mktemp("plain")
    assert command("train", "--env", ENV, *TINY, "--out", out).code == 0
    return out / "penfac" / "tests.faults.bad-envs-Plain-v0_1"


@pytest.fixture(scope="module")
def locales(tmp_path_factory):
    """Where de_DE and tr_TR lie, made from their sources if the machine has those."""
    folder = tmp_path_factory.mktemp("locales")
    for name in ("de_DE", "tr_TR"):
        if shutil.which("localedef"):
            made = folder / f"{name}.UTF-8"
            argv = ["localedef", "-i", name, "-f", "UTF-8", str(made)]
            subprocess.run(argv, capture_output=True, check=False)
    return folder


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", "tr_TR.UTF-8"])
def test_a_locale_changes_nothing(locale, locales, plain_run, tmp_path):
    if not (locales / locale).exists():
        pytest.skip(f"{locale} cannot be made here")
    process = subprocess.run(
        [sys.executable, "-c", IN_LOCALE, "train", "--env", ENV, *TINY, "--out", ODD],
        env=environment(LC_ALL=locale, LOCPATH=str(locales)),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")
    same_end(tmp_path / ODD / "penfac" / plain_run.name, plain_run)
    line = process.stdout.decode("utf-8", "surrogateescape").splitlines()[0]
    words = dict(word.split("=", 1) for word in shlex.split(line))
    assert words["run"] == f"{ODD}/penfac/{plain_run.name}"


@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=["ascii locale", "ascii output"],
)
def test_a_path_that_output_cannot_spell(variables, plain_run, tmp_path):
    name = b"raw-\xff-\xf0\x9f\xa4\x96"  # a byte that is no UTF-8, and a robot
    argv = [sys.executable, "-m", "penfac", "train", "--env", ENV, *TINY, "--out", name]
    process = subprocess.run(
        argv,
        env=environment(**variables),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")
    assert b"next: penfac eval" in process.stdout
    same_end(tmp_path / os.fsdecode(name) / "penfac" / plain_run.name, plain_run)


def test_a_long_path(plain_run):
    out = Path("x" * 250) / ("y" * 250)
    argv = ("--out", out, "--name", "z" * 250)
    result = command("train", "--env", ENV, *TINY, *argv)
    assert (result.code, result.err) == (0, "")
    same_end(out / "penfac" / ("z" * 250), plain_run)


def test_a_clock_that_jumps_changes_nothing(plain_run, monkeypatch):
    """Back an hour, forward a year, past 2038: order is by number, durations by another."""
    jumps = [-3600.0, 365 * 86400.0, 2**31, -(2**31), 0.0]
    real, calls = time.time, []

    def jumping():
        calls.append(0)
        return max(real() + jumps[len(calls) % len(jumps)], 0.0)

    monkeypatch.setattr(time, "time", jumping)
    name = ("--name", "test", "--checkpoint-every", "0s")
    # `-n 50` stops half way; the same run is then given its whole budget
    half = ("-n", 50)
    assert command("train", "--env", ENV, *TINY, *name, *half).code == 0
    run = Path("runs/penfac/test")
    for k, folder in enumerate(sorted((run / "checkpoints").iterdir())):
        os.utime(folder, (10**9 - k, 10**9 - k))  # the newest looks the oldest
    assert command("resume", run, "-n", 100, "--checkpoint-every", "0s").code == 0
    assert calls
    same_end(run, plain_run)


def test_nobody_reading_does_not_stop_training(plain_run, tmp_path):
    process = start("train", "--env", ENV, *TINY, cwd=tmp_path)
    assert process.stdout.readline().startswith("run=")
    process.stdout.close()
    _, code = process.stderr.read(), process.wait(60)
    process.stderr.close()
    assert code == 0
    same_end(tmp_path / "runs" / "penfac" / plain_run.name, plain_run)


def test_output_on_a_full_disk_does_not_stop_training(plain_run, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-m", "penfac", "train", "--env", ENV, *TINY]
        process = subprocess.run(
            argv, stdout=full, cwd=tmp_path, env=environment(), check=False
        )
    assert process.returncode == 0
    same_end(tmp_path / "runs" / "penfac" / plain_run.name, plain_run)


def test_a_command_needs_no_home(tmp_path):
    """No HOME, no TERM, standard input closed: as a job scheduler starts it."""
    env = {k: v for k, v in environment().items() if k not in ("HOME", "TERM", "USER")}
    assert finish(start("algos", cwd=tmp_path, env=env)).code == 0
