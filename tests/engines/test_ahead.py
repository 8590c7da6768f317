"""Programs that compile on other threads before they are needed."""

import json
import os
import subprocess
import sys

import pytest
from tests.engines.jobs import digest, finish, make_job, never

from penfac.engines import device
from penfac.engines.ahead import Ahead
from penfac.engines.device import DeviceEngine

ENV, STEPS = "penfac/LQR-v0", 200
COUNTING = """
import json, jax
compiled = []
jax.monitoring.register_event_listener(
    lambda event, **_: event.endswith("cache_misses") and compiled.append(event)
)
from tests.engines.jobs import make_job
from penfac.engines.base import Counters
from penfac.engines.device import DeviceEngine

job = make_job("penfac/LQR-v0", steps=200)._replace(eval_episodes=2)
engine = DeviceEngine(job, [3, 4], at_once=2)
started = []
compile = engine.ahead.compile
engine.ahead.compile = lambda name, of: (started.append(name), compile(name, of))
due = [(i, c) for i, c in enumerate([Counters(), Counters()])]
list(engine.evaluate(due, 2, True)), list(engine.advance(due))
left = list(engine.ahead.threads)
print(json.dumps({"started": started, "left": left, "compiled": len(compiled)}))
"""


@pytest.mark.slow
def test_what_a_thread_compiled_is_not_compiled_again(tmp_path):
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    done = subprocess.run(
        [sys.executable, "-c", COUNTING],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["started"] == ["advance", "mean"]
    assert told["left"] == []
    made = sorted(file.name.split("-")[0] for file in (tmp_path / "cache").iterdir())
    assert made.count("jit_advance") == made.count("jit_evaluate") == 1
    assert told["compiled"] == len(made)  # each of them once


def test_a_run_has_the_same_bits(monkeypatch):
    found = []
    for ahead in (False, True):
        monkeypatch.setattr(device, "programs_are_kept", lambda ahead=ahead: ahead)
        job = make_job(ENV, steps=STEPS)._replace(eval_episodes=2)
        engine = DeviceEngine(job, [3, 4], at_once=2)
        assert not engine.ahead.threads  # another engine beside it might not fit
        finish(engine, 2, never(STEPS))
        found.append([digest(engine, i) for i in range(2)])
    assert found[0] == found[1]


def test_without_a_cache_nothing_is_compiled_ahead(monkeypatch):
    monkeypatch.setattr(device, "programs_are_kept", lambda: False)
    engine = DeviceEngine(make_job(ENV, steps=STEPS), [3])
    started = []
    monkeypatch.setattr(engine.ahead, "compile", lambda *of: started.append(of))
    finish(engine, 1, never(STEPS))
    assert started == []


def test_with_a_cache_programs_are_compiled_ahead(monkeypatch):
    monkeypatch.setattr(device, "programs_are_kept", lambda: True)
    engine = DeviceEngine(make_job(ENV, steps=STEPS)._replace(eval_episodes=2), [3])
    started = []
    monkeypatch.setattr(
        engine.ahead, "compile", lambda name, program: started.append(name)
    )
    finish(engine, 1, never(STEPS))
    assert sorted(started) == ["advance", "mean"]


def test_a_program_that_cannot_be_compiled_is_told_by_its_call():
    class Broken:
        def compile(self):
            raise RuntimeError("no room")

    ahead = Ahead()
    ahead.compile("advance", Broken())
    ahead.wait("advance")  # the thread ends without a word: the call raises
    assert "advance" not in ahead.threads
    ahead.wait("advance")  # and there is nothing to wait for now
