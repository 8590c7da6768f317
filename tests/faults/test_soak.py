"""Memory stays where it is, however many episodes are played."""

import json
import subprocess
import sys

import pytest
from tests.faults.commands import BAD, environment

SCRIPT = """
import json, os, sys
import penfac.cli
import penfac.runs.recorder
from penfac.training.loop import Loop

# a slow machine would import matplotlib in the middle; what drawing takes levels off
penfac.runs.recorder.DRAW_EVERY = 1e9

seen, handle = [], Loop.record

def watch(self, event):
    handle(self, event)
    pages = int(open("/proc/self/statm").read().split()[1])
    counters = self.counters[0]
    seen.append((counters.episode, pages * os.sysconf("SC_PAGE_SIZE")))

Loop.record = watch
try:
    penfac.cli.main()
except SystemExit as leaving:
    print(json.dumps({"code": leaving.code, "seen": seen}), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("collect", ["episodes", "steps"])
def test_memory_does_not_grow_with_episodes(collect, tmp_path):
    """Less than 1 MB in a thousand episodes, on an environment that leaks nothing."""
    argv = [
        "train", "--env", f"{BAD}Plain-v0", "-n", "200k", "--eval-episodes=1",
        "--set=actor_hidden=4", "--set=critic_hidden=4", "--set=actor_steps=2",
        "--set=fitted_iterations=2", "--set=minibatches=1", "--set=episodes_per_update=8",
        "--set=min_steps_per_update=1000", f"--set=collect={collect}",
        "--set=worlds=8", "--set=steps_per_world=125",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *argv],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    end = json.loads(done.stderr)
    assert end["code"] == 0
    settled = [(e, m) for e, m in end["seen"] if e >= 5000]
    (first, before), (last, after) = settled[0], settled[-1]
    assert last - first > 10_000
    growth = (after - before) / (last - first) * 1000
    assert growth < 2**20, f"{growth / 2**20:.2f} MB in a thousand episodes"
