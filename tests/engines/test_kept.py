"""Programs kept for the next process: whole or absent, bounded, and with the same bits."""

import os
import time
from pathlib import Path

import pytest
from tests.faults.commands import TINY, command_alone, environment, same_end

from penfac.engines import kept
from penfac.engines.kept import ProgramCache, cache_folder


def test_a_program_is_found_again(tmp_path):
    cache = ProgramCache(str(tmp_path), max_size=-1)
    assert cache.get("a") is None
    cache.put("a", b"program")
    assert cache.get("a") == b"program"
    assert [path.name for path in tmp_path.iterdir()] == ["a-cache"]


def test_half_a_program_is_written_again(tmp_path):
    """As a process that was killed by an earlier version left it."""
    cache = ProgramCache(str(tmp_path), max_size=-1)
    (tmp_path / "a-cache").write_bytes(b"prog")
    cache.put("a", b"program")
    assert cache.get("a") == b"program"


def test_what_was_not_used_for_longest_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 250)
    cache = ProgramCache(str(tmp_path), max_size=-1)
    for age, key in enumerate("cba"):  # a is the oldest
        cache.put(key, bytes(60))
        when = time.time() - 100 - age
        os.utime(tmp_path / f"{key}-cache", (when, when))
    (tmp_path / ".d-1-2").write_bytes(bytes(60))  # left by a killed process
    os.utime(tmp_path / ".d-1-2", (1, 1))
    assert cache.get("a") == bytes(60)  # used now
    cache.put("e", bytes(60))
    assert sorted(p.name[0] for p in tmp_path.iterdir()) == ["a", "b", "c", "e"]
    cache.put("f", bytes(60))
    assert sorted(p.name[0] for p in tmp_path.iterdir()) == ["a", "c", "e", "f"]


def test_a_full_disk_costs_nothing_but_time(tmp_path, monkeypatch):
    cache = ProgramCache(str(tmp_path), max_size=-1)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    cache.put("a", b"program")
    assert cache.get("a") is None


def test_the_folder_is_where_one_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PENFAC_CACHE", raising=False)
    assert cache_folder().parent == tmp_path / "penfac"
    monkeypatch.setenv("PENFAC_CACHE", str(tmp_path / "mine"))
    assert cache_folder().parent == tmp_path / "mine"
    monkeypatch.setenv("PENFAC_CACHE", "")
    assert cache_folder() is None


@pytest.mark.slow
def test_a_run_has_the_same_bits_with_kept_programs_and_without(tmp_path):
    """Three processes: no folder, an empty one, a full one."""
    train = ["train", "--env", "Pendulum-v1", *TINY]
    env = environment()
    for name in [name for name in env if name.startswith("JAX_")]:
        del env[name]
    there = tmp_path / "programs"
    before: list[Path] = []
    for name, cache in (("none", ""), ("cold", there), ("warm", there)):
        env["PENFAC_CACHE"] = str(cache)
        done = command_alone(*train, "--name", name, cwd=tmp_path, env=env)
        assert done.code == 0, done.err
        found = sorted(there.rglob("*-cache"))
        assert bool(found) == (name != "none")
        if name == "warm":
            assert found == before
        before = found
    runs = tmp_path / "runs" / "penfac"
    same_end(runs / "none", runs / "cold")
    same_end(runs / "cold", runs / "warm")


def test_a_terminal_is_told_before_jax_loads():
    """Nothing heavy is imported for the first line."""
    from tests.envs.test_registration import fresh

    program = (
        "import json, sys; import penfac.cli, penfac.terminal; "
        "print(json.dumps('jax' in sys.modules))"
    )
    assert fresh(program) is False
