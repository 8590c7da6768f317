"""Run folders that are busy, full, refused, edited or damaged."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.commands import (
    BAD,
    TINY,
    command,
)

RUN = Path("runs/penfac/test")


def train(env: str, *more: object, name: str = "test"):
    return command("train", "--env", f"{BAD}{env}-v0", *TINY, "--name", name, *more)


# --- run folders ----------------------------------------------------------------------------------


@pytest.fixture
def finished():
    """A finished run of two updates."""
    assert train("Plain").code == 0
    return RUN


def test_a_name_that_exists_is_6(finished):
    before = (finished / "progress.csv").read_bytes()
    result = train("Plain")
    assert result.code == 6
    assert "runs/penfac/test is already there" in result.line
    assert "penfac resume" in result.line
    assert (finished / "progress.csv").read_bytes() == before


def test_a_busy_folder_is_6_and_names_the_owner(finished):
    script = (
        "import sys, pathlib, penfac.runs\n"
        f"lock = penfac.runs.Lock(pathlib.Path({str(finished)!r}))\n"
        "print('locked', flush=True); sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout.readline() == "locked\n"
        result = command("resume", finished)
        assert result.code == 6
        assert f"in use by process {owner.pid}" in result.line
    finally:
        owner.kill()
        owner.communicate()
    # the owner is dead: its lock is nobody's
    assert command("resume", finished).code == 0


def test_a_folder_that_is_a_file_is_7(tmp_path):
    (tmp_path / "runs").write_text("not a folder")
    result = train("Plain")
    assert result.code == 7
    assert "Not a directory" in result.line
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "penfac").write_text("not a folder")
    result = train("Plain", "--out", "other")
    assert result.code == 7
    assert "other/penfac" in result.line


def test_a_folder_that_refuses_is_7_before_anything_is_built(tmp_path):
    if os.geteuid() == 0:
        out = Path("/proc/self")  # refuses even root
    else:
        out = tmp_path / "read-only"
        out.mkdir(mode=0o500)
    began = time.monotonic()
    result = train("HangsBuilding", "--out", out)
    assert time.monotonic() - began < 2
    assert result.code == 7
    assert str(out) in result.line


def test_a_name_too_long_is_7():
    result = command("train", "--env", f"{BAD}Plain-v0", "--name", "x" * 300)
    assert result.code == 7
    assert "File name too long" in result.line


def edit(file: Path, **values: object) -> None:
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | values))


def test_a_newer_format_is_5(finished):
    edit(finished / "config.json", format=99)
    for verb in ("resume", "eval"):
        result = command(verb, finished)
        assert result.code == 5
        assert "format 99" in result.line
        assert "reads up to 1" in result.line


def test_an_edited_setting_is_2_with_a_diff(finished):
    file = finished / "config.json"
    original = file.read_text()
    document = json.loads(original)
    document["config"]["gamma"] = 0.5
    document["config"]["lam"] = 0.25
    file.write_text(json.dumps(document))
    result = command("resume", finished)
    assert result.code == 2
    assert "config.gamma: 0.99 -> 0.5" in result.line
    assert "config.lam: 0.95 -> 0.25" in result.line
    # undone, it goes on
    file.write_text(original)
    assert command("resume", finished).code == 0


JUNK = [None, True, -1, 2.5, "junk", [], ["junk"], {}, {"junk": 1}]
KEYS = (
    "algo", "env", "env_options", "config", "seeds", "steps", "eval_every",
    "eval_episodes", "eval_unit", "restarts", "engine", "penfac", "format",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_junk_in_config_never_ends_in_a_traceback(finished, key):
    file = finished / "config.json"
    original = json.loads(file.read_text())
    for junk in [*JUNK, "remove"]:
        document = dict(original)
        if junk == "remove":
            del document[key]
        else:
            document[key] = junk
        if document == original:
            continue
        file.write_text(json.dumps(document))
        for verb in ("resume", "eval"):
            result = command(verb, finished)
            harmless = key == "penfac" and junk == "junk"  # a word for people
            harmless |= verb == "eval" and key in ("restarts", "format", "engine")
            harmless |= key == "format" and junk in (True, -1)
            assert result.code in ((0, 2, 5) if harmless else (2, 5)), (verb, junk)
            if result.code:
                assert str(finished) in result.line
    file.write_text(json.dumps(original))
    assert command("resume", finished).code == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"format"', "\xff", "[" * 100_000]
)
def test_a_config_that_is_no_config_is_5(finished, text):
    (finished / "config.json").write_bytes(text.encode("latin-1"))
    for verb in ("resume", "eval"):
        result = command(verb, finished)
        assert result.code == 5
        assert "config.json" in result.line


@pytest.mark.parametrize("name", ["progress.csv", "evaluations.csv"])
def test_an_edited_csv_is_5(finished, name):
    file = finished / name
    original = file.read_bytes()
    changes = (
        original.replace(b"0", b"1", 1),
        original[:-2],
        b"",
        b"\xff" + original,
    )
    for changed in changes:
        file.write_bytes(changed)
        result = command("resume", finished)
        assert result.code == 5
        assert name in result.line
    file.unlink()
    assert command("resume", finished).code == 5
    file.write_bytes(original)
    assert command("resume", finished).code == 0
    assert file.read_bytes() == original


def test_lines_after_the_checkpoint_are_cut(finished):
    file = finished / "progress.csv"
    original = file.read_bytes()
    file.write_bytes(original + b"3,150,15,torn")
    assert command("resume", finished).code == 0
    assert file.read_bytes() == original
