"""Memory over a long run."""

from pathlib import Path

import pytest
from tests.engines.jobs import learn, make_job, never
from tests.rollout.worlds import WANDERER

from penfac.engines.device import DeviceEngine
from penfac.engines.host import HostEngine
from penfac.training.loop import Updated

PAGE = 4096


def resident() -> float:
    """Memory of this process that is really there, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "env", "collect"),
    [
        (HostEngine, WANDERER, "episodes"),
        (HostEngine, WANDERER, "steps"),
        (DeviceEngine, "penfac/LQR-v0", "episodes"),
        (DeviceEngine, "penfac/LQR-v0", "steps"),
    ],
)
def test_memory_stays_flat(kind, env, collect):
    """Some ten to thirty seconds each: from update 200 to 1200 a learner grows by less
    than 3 MB. Keeping its batches of 400 steps, 32 bytes a step, would take 13 MB."""
    updates, batch = 1200, 400
    sizes = {"min_steps_per_update": batch, "worlds": 2, "steps_per_world": batch // 2}
    job = make_job(env, steps=10**9, collect=collect, **sizes)
    engine, marks = kind(job, [0]), {}
    for event, counters in learn(engine, 1, never(10**9)):
        if isinstance(event, Updated):
            now = counters[0].update
            if now in (200, updates):
                marks[now] = resident()
            if now == updates:
                break
    assert marks[updates] - marks[200] < 3
