"""`penfac bench peers`: steps/s of our baselines against Stable-Baselines3's, on
HalfCheetah-v5, with the same networks, minibatches and number of gradient steps."""

import importlib.util
import time
from functools import partial
from typing import Any

from penfac.bench.contest import HALFCHEETAH, settings
from penfac.bench.cpu import resident_megabytes
from penfac.bench.figures import Figures, Say
from penfac.bench.ours import advance, our_engine

STEPS = 10**6  # steps of the run


def our_steps_per_second(algo: str, steps: int) -> float:
    """Return our speed while it learns, after compilation and random steps."""
    engine, counters = our_engine(algo, HALFCHEETAH, 0, STEPS)
    warm = 2 * 2048 if algo == "ppo" else settings(algo, HALFCHEETAH)["learning_starts"]
    advance(engine, counters, warm + 500)
    started, before = time.perf_counter(), counters.step
    advance(engine, counters, steps)
    rate = (counters.step - before) / (time.perf_counter() - started)
    engine.close()
    return rate


def replay_megabytes() -> float:
    """Return the memory that a replay of 10^6 transitions adds to the process."""
    start = partial(our_engine, "ddpg", HALFCHEETAH, 0, STEPS, learning_starts=500)
    engine, counters = start(replay=1000)
    advance(engine, counters, 1000)
    before = resident_megabytes()
    large, counters = start(replay=1_000_000)
    advance(large, counters, 1000)
    grown = resident_megabytes() - before
    engine.close()
    large.close()
    return grown


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    figures.add(
        "a replay of 10^6 transitions, one learner",
        f"{replay_megabytes():.0f} MB",
        "under 250 MB",
    )
    if importlib.util.find_spec("stable_baselines3") is None:
        figures.add(
            "against Stable-Baselines3", 'needs pip install "penfac[peers]"', "-"
        )
        return {"figures": figures}
    from penfac.bench.peer import same_steps_per_second

    for algo in ("ppo", "ddpg", "td3", "sac"):
        steps = 8192 if algo == "ppo" else 2000
        repeats = 1 if quick else 3
        ours = max(our_steps_per_second(algo, 4 * steps) for _ in range(repeats))
        peer = max(
            same_steps_per_second(algo, HALFCHEETAH, steps) for _ in range(repeats)
        )
        figures.add(
            f"{algo}, steps/s while learning / SB3's",
            f"{ours / peer:.1f} times ({ours:.0f} / {peer:.0f})",
            "4 times",
        )
    return {"figures": figures}
