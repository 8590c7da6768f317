"""Run folders that are busy, full, refused, edited or damaged."""

import contextlib
import errno
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from tests.faults.commands import (
    BAD,
    TINY,
    command,
    newest_checkpoint,
    same_end,
    status,
)
from tests.tiers import slow_except

from penfac.engines.host import HostEngine
from penfac.runs import checkpoints, csv_files, folder, storage
from penfac.runs.csv_files import read_csv

RUN = Path("runs/penfac/test")


def train(env: str, *more: object, name: str = "test"):
    return command("train", "--env", f"{BAD}{env}-v0", *TINY, "--name", name, *more)


# --- run folders --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    assert train("Plain", "--checkpoint-every", "0s", "--out", out).code == 0
    return out


@pytest.fixture
def finished(one_run):
    """A finished run of two updates, to be spoiled."""
    shutil.copytree(one_run, "runs")
    return RUN


def test_a_name_that_exists_is_6(finished):
    before = (finished / "progress.csv").read_bytes()
    result = train("Plain")
    assert result.code == 6
    assert "runs/penfac/test: exists" in result.line
    assert "penfac resume" in result.line
    assert (finished / "progress.csv").read_bytes() == before


def test_a_busy_folder_is_6_and_names_the_owner(finished):
    script = (
        "import sys, pathlib, penfac.runs.storage\n"
        f"lock = penfac.runs.storage.Lock(pathlib.Path({str(finished)!r}))\n"
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
    was = json.loads(original)["config"]
    assert f"config.gamma: {was['gamma']} -> 0.5" in result.line
    assert f"config.lam: {was['lam']} -> 0.25" in result.line
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
            # eval plays a policy: how it was trained is nothing to it
            unused = ("restarts", "engine", "env_options", "config", "eval_unit")
            harmless |= verb == "eval" and key in unused
            harmless |= key == "format" and junk in (True, -1)
            assert result.code in ((0, 2, 5) if harmless else (2, 5)), (verb, junk)
            if result.code:
                assert "penfac: " in result.line
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


# --- forged checkpoints -------------------------------------------------------------------


def forge(run: Path, change) -> None:
    """Change the newest checkpoint and sign it again, so that only its content is wrong."""
    newest = newest_checkpoint(run)
    for other in set((run / "checkpoints").iterdir()) - {newest}:
        shutil.rmtree(other)
    arrays = load_file(newest / "state.safetensors")
    meta = json.loads((newest / "state.json").read_text())
    change(arrays, meta)
    data = save(arrays)
    meta |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    meta["seal"] = checkpoints.seal(meta)
    (newest / "state.safetensors").write_bytes(data)
    (newest / "state.json").write_text(json.dumps(meta))


BIAS = "state.actor.layers.0.1"


def spoil_nan(arrays, meta):
    arrays[BIAS][0] = np.nan


def spoil_missing(arrays, meta):
    del arrays[BIAS]


def spoil_extra(arrays, meta):
    arrays["state.actor.layers.7.1"] = np.zeros(4, np.float32)


def spoil_shape(arrays, meta):
    arrays[BIAS] = np.zeros(5, np.float32)


def spoil_dtype(arrays, meta):
    arrays[BIAS] = arrays[BIAS].astype(np.float64)


def spoil_counters(arrays, meta):
    meta["counters"]["surprise"] = 1


def spoil_identity(arrays, meta):
    del meta["identity"]


def spoil_marks(arrays, meta):
    meta["csv"] = {}


def spoil_format(arrays, meta):
    meta["format"] = 2


SPOILED = {
    spoil_nan: f"{BIAS} has a non-finite number",
    spoil_missing: f"{BIAS} is missing in the file",
    spoil_extra: "state.actor.layers.7.1 is missing in the config",
    spoil_shape: f"{BIAS} is float32(5,), must be float32(4,)",
    spoil_dtype: f"{BIAS} is float64(4,), must be float32(4,)",
    spoil_counters: "not from penfac",
    spoil_identity: "not from penfac",
    spoil_marks: "not from penfac",
    spoil_format: "has format 2; this penfac reads up to 1",
}


@pytest.mark.parametrize("change", SPOILED, ids=lambda f: f.__name__)
def test_a_checkpoint_that_does_not_fit_is_5(finished, change):
    forge(finished, change)
    before = (finished / "progress.csv").read_bytes()
    result = command("resume", finished)
    assert result.code == 5
    assert SPOILED[change] in result.line
    assert (finished / "progress.csv").read_bytes() == before


def test_running_worlds_that_do_not_fit_are_5():
    more = ("--set=collect=steps", "--set=worlds=2", "--set=steps_per_world=15")
    assert train("Plain", *more).code == 0

    def drop_world(arrays, meta):
        arrays["worlds.length"] = arrays["worlds.length"][:1]

    def drop_all(arrays, meta):
        del arrays["worlds.episode"]

    for change in (drop_world, drop_all):
        copy = RUN.parent / change.__name__
        shutil.copytree(RUN, copy)
        forge(copy, change)
        result = command("resume", copy)
        assert result.code == 5, change
        assert "penfac: " in result.line


def test_running_worlds_that_end_elsewhere_begin_new_episodes():
    """As on another machine, which rounds differently."""
    more = ("--set=collect=steps", "--set=worlds=2", "--set=steps_per_world=15")
    assert train("Plain", *more).code == 0

    def wrong_place(arrays, meta):
        arrays["worlds.obs"] += 1

    forge(RUN, wrong_place)
    result = command("resume", RUN)
    assert result.code == 0
    assert "actions: 2; new ones begin" in result.out


def test_a_damaged_checkpoint_falls_back_to_the_one_before(finished):
    shutil.copytree(finished, RUN.parent / "whole")
    data = newest_checkpoint(finished) / "state.safetensors"
    data.write_bytes(data.read_bytes()[:-1])
    result = command("resume", finished)
    assert result.code == 0
    assert "# skipped a damaged checkpoint" in result.out
    assert "is truncated, has" in result.out
    same_end(finished, RUN.parent / "whole")


def test_all_checkpoints_damaged_is_5_and_nothing_is_touched(finished):
    for file in finished.glob("checkpoints/*/state.safetensors"):
        file.write_bytes(b"x" + file.read_bytes()[1:])
    kept = [p for p in finished.rglob("*") if p.is_file()]
    kept = [p for p in kept if p.name not in ("lock", "log.txt", "status.json")]
    before = {p: p.read_bytes() for p in kept}
    result = command("resume", finished)
    assert result.code == 5
    assert "sha256" in result.line
    assert {p: p.read_bytes() for p in kept} == before


def test_a_damaged_policy_is_5(finished):
    file = finished / "policy" / "policy.safetensors"
    data = file.read_bytes()
    for damaged in (data[:-1], data[:-9] + b"12345678" + data[-1:], b"", b"junk"):
        file.write_bytes(damaged)
        result = command("eval", finished)
        assert result.code == 5
        assert "policy.safetensors" in result.line
    file.unlink()
    assert command("eval", finished).code == 5
    (file.parent / "policy.json").unlink()
    file.parent.rmdir()
    result = command("eval", finished)
    assert result.code == 2
    assert "penfac resume" in result.line


def test_a_policy_of_another_environment_is_2(finished):
    edit(finished / "config.json", env=f"{BAD}Shaped-v0")
    shutil.rmtree(finished / "checkpoints")  # which say so too
    result = command("eval", finished, "--episodes", 1)
    assert result.code == 2
    assert "3 inputs and 1 actions" in result.line
    assert "has 3 and 6" in result.line


def test_counters_do_not_wrap(finished):
    """Ten thousand million steps are past 32 bits and past a float's whole numbers."""
    far = 10**10 + 1

    def advance(arrays, meta):
        meta["counters"] |= {"step": far, "episode": 10**9, "evaluated_at": far}
        meta["counters"] |= {"next_eval": far + 49}

    forge(finished, advance)
    result = command("resume", finished, "-n", far + 100)
    assert (result.code, result.err) == (0, "")
    rows = read_csv(finished / "progress.csv")[2:]
    assert [row["step"] for row in rows] == [str(far + 50), str(far + 100)]
    assert [row["episode"] for row in rows] == [str(10**9 + 5), str(10**9 + 10)]
    evaluated = {row["step"] for row in read_csv(finished / "evaluations.csv")}
    assert {str(far + 50), str(far + 100)} <= evaluated


# --- disks that fail ----------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(size: int):
    """No file of this process may grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_7_and_loses_nothing(finished):
    """Whatever file is the first that cannot grow: one line, and resuming ends the same."""
    sizes = sorted({p.stat().st_size for p in finished.rglob("*") if p.is_file()})
    failures = 0
    for size in sizes:
        for limit in (size - 1, size // 2):
            name = f"limit-{limit}"
            run = RUN.parent / name
            with largest_file(max(limit, 1)):
                result = train("Plain", "--checkpoint-every", "0s", name=name)
            if result.code == 0:
                continue
            failures += 1
            assert result.code == 7, result
            assert "File too large" in result.line
            assert not list(run.rglob(".tmp-*"))
            if (run / "config.json").exists():
                assert command("resume", run).code == 0
                same_end(run, finished)
            shutil.rmtree(run, ignore_errors=True)
    assert failures > 5


class Failing:
    """A function that fails with ENOSPC from its n-th call on."""

    def __init__(self, function, n: int):
        self.function, self.left = function, n

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("n", slow_except([1, 2, 5, 9, 14], 2, 9))
@pytest.mark.parametrize("name", ["fsync", "rename", "replace"])
def test_no_space_is_7_and_loses_nothing(finished, monkeypatch, name, n):
    run = RUN.parent / "full"
    with monkeypatch.context() as patch:
        patch.setattr(os, name, Failing(getattr(os, name), n))
        result = train("Plain", "--checkpoint-every", "0s", name="full")
    if result.code == 0:
        assert name == "rename"  # few checkpoints, fewer than n
    else:
        assert result.code == 7
        assert "no space left on the disk" in result.line
        assert str(run) in result.line
    if not (run / "config.json").exists():
        return
    assert not list(run.rglob(".tmp-*"))
    assert command("resume", run).code == 0
    same_end(run, finished)


def test_a_folder_that_becomes_read_only_says_where_its_status_went(monkeypatch):
    ready = train("Plain")  # everything is compiled
    assert ready.code == 0
    original, calls = open, []

    def refuse(file, mode="r", *args, **kwargs):
        calls.append(file)
        if len(calls) > 20 and set(mode) & set("wax+"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file))
        return original(file, mode, *args, **kwargs)

    with monkeypatch.context() as patch:
        for module in (csv_files, folder, storage):
            patch.setattr(module, "open", refuse, raising=False)
        result = train("Plain", "--checkpoint-every", "0s", name="refused")
    assert result.code == 7
    assert "the file system is read-only" in result.line
    where = Path(result.line.split("status is in ")[1])
    try:
        document = json.loads(where.read_text())
        assert document["exit_code"] == 7
        assert document["resumable"]
    finally:
        where.unlink()
    assert command("resume", RUN.parent / "refused").code == 0
    same_end(RUN.parent / "refused", RUN)


# --- faults of ours -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RuntimeError("a bug\nof ours"), 1, "unexpected RuntimeError: a bug of ours"),
        (RuntimeError("RESOURCE_EXHAUSTED: 9 GB"), 8, "out of device memory"),
        (MemoryError(), 8, "out of memory"),
    ],
)
def test_what_goes_wrong_in_an_update_loses_no_update(
    finished, monkeypatch, error, code, words
):
    run, calls = RUN.parent / "broken", []
    update = HostEngine._update

    def fail_later(self, *args):
        calls.append(args)
        if len(calls) == 2:
            raise error
        return update(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(HostEngine, "_update", fail_later)
        result = train("Plain", name="broken")
    assert result.code == code
    assert words in result.line
    assert "Traceback" in (run / "log.txt").read_text()
    assert status(run)["last_checkpoint"] == 1  # long before a checkpoint was due
    assert command("resume", run).code == 0
    same_end(run, finished)
