"""`penfac bench programs`: whole training programs on this device, learning included.

It compares seeds and arms of PeNFAC on RoboschoolHalfCheetah-v2 with the bare task with
as many worlds, in one command. Recording is left out; `penfac train` prints its own
rate.
"""

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from penfac.algos import ALGORITHMS
from penfac.bench.device import rate as raw_rate
from penfac.bench.figures import Figures, Say
from penfac.engines.base import Counters, Job
from penfac.engines.build import build_engine
from penfac.envs.options import EnvOptions
from penfac.plots import costs
from penfac.settings import presets
from penfac.settings.configs import from_values
from penfac.training.loop import count_update

ENV, ROBOT = "RoboschoolHalfCheetah-v2", "HalfCheetah"
BATCH = 2048  # steps of one learner an update


class Sizes(NamedTuple):
    """The sizes of the programs: for a GPU, or what a CPU can run."""

    seeds: int
    worlds: int  # that go on, for the rate
    few: int  # ... for arms, which share an update's batch
    batch: int
    across_seeds: tuple[int, ...]
    across_worlds: tuple[int, ...]
    episodes: int


FULL = Sizes(60, 64, 8, BATCH, (1, 4, 16, 60, 240), (8, 32, 128), 5)
SMALL = Sizes(2, 8, 4, 64, (1, 2), (4,), 1)


class Program(NamedTuple):
    """A program of every config with every seed."""

    configs: list[Any]
    seeds: int
    limit: int | None = None  # of an episode, if not the task's own


class Measured(NamedTuple):
    """The timings of one program."""

    first: float  # seconds of the first, compilation included
    seconds: float  # of one update after it
    steps: int  # of all learners, really played
    longest: int  # of an episode, all worlds wait for it

    @property
    def rate(self) -> float:
        return self.steps / self.seconds


def config(name: str, **settings: Any) -> Any:
    algo = ALGORITHMS["penfac"]
    values = presets.preset(algo.presets, name, ENV)
    return from_values(algo.config, values | settings)


def running(worlds: int, batch: int) -> dict[str, Any]:
    """Running worlds with the same number of steps per update."""
    steps = max(1, batch // worlds)
    return {"collect": "steps", "worlds": worlds, "steps_per_world": steps}


# --- one after the other -----------------------------------------------------------------


def rehearse(program: Program) -> Callable[[], Measured]:
    """Build a program and run its first update, which compiles it; the result times
    three more."""
    options = EnvOptions(max_episode_steps=program.limit)
    algo, seeds = ALGORITHMS["penfac"], list(range(program.seeds))
    job = Job(algo, program.configs[0], ENV, options, 10**9)
    own = [cfg for cfg in program.configs for _ in seeds]
    engine = build_engine(job, "device", seeds * len(program.configs), own, len(own))
    counters = [Counters() for _ in own]

    def update() -> tuple[float, int, int]:
        started, played, longest = time.perf_counter(), 0, 0
        for i, progress in list(engine.advance(list(enumerate(counters)))):
            if isinstance(progress, Exception):
                raise progress
            count_update(counters[i], progress)
            played += progress.steps
            longest = max([longest, *progress.stats.lengths])
        return time.perf_counter() - started, played, longest

    first, *_ = update()

    def timed() -> Measured:
        took, played, longest = np.mean([update() for _ in range(3)], axis=0).tolist()
        return Measured(first, took, round(played), round(longest))

    return timed


def in_turn(
    programs: dict[Any, Program], told: Callable[[Any, Measured], None]
) -> dict[Any, Measured]:
    """Run each program in its own process: they compile at the same time, then take
    turns on the device."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # they share it
    context, found = multiprocessing.get_context("spawn"), {}
    players = {}
    for name, program in programs.items():
        ours, theirs = context.Pipe()
        player = context.Process(target=play, args=(program, theirs), daemon=True)
        player.start()
        theirs.close()
        players[name] = player, ours
    for _, link in players.values():
        link.recv()  # compiled
    for name, (player, link) in players.items():
        link.send("your turn")
        found[name] = link.recv()
        player.join()
        told(name, found[name])
    return found


def play(program: Program, link: Any) -> None:
    timed = rehearse(program)
    link.send("compiled")
    link.recv()
    link.send(timed())


def starting(sizes: Sizes) -> tuple[float, float]:
    """Return seconds to the end of the first update in a new process, without a cache
    of compiled programs and with it."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": cache,
            # the cache is the question, not how long a program took to be worth it
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        program = "from penfac.bench import programs; programs.start(%d, %d, %d)"
        given = program % (sizes.seeds, sizes.worlds, sizes.batch)
        took = []
        for _ in range(2):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", given], env=environment, check=True)
            took.append(time.perf_counter() - started)
    return took[0], took[1]


def start(seeds: int, worlds: int, batch: int) -> None:
    rehearse(Program([config("tuned", **running(worlds, batch))], seeds))


# --- the report --------------------------------------------------------------------------


def describe(name: Any, m: Measured) -> str:
    label = name if isinstance(name, str) else "{} seeds x {} worlds".format(*name)
    rate = f"{m.seconds:.2f} s an update, {m.rate:,.0f} steps/s"
    return f"  {label}: {rate}, first in {m.first:.0f} s"


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    small = accelerators() == 0
    sizes = SMALL if small else FULL
    # first: this process has no device memory yet
    cold, warm = starting(sizes)
    figures.add(
        "start without a cache, first update included", f"{cold:.0f} s", "under 90 s"
    )
    figures.add("start with it", f"{warm:.0f} s", "under 20 s")
    arms, table = ablation(sizes), cost_table(sizes, quick)
    every = {
        "one arm": Program(arms[:1], sizes.seeds),
        "every arm": Program(arms, sizes.seeds),
    }
    episodes = {"whole episodes": whole_episodes(sizes, 100 if small else None)}
    found = in_turn(table | episodes | every, lambda *what: say(describe(*what)))
    count = sizes.seeds * sizes.worlds
    wide = found[sizes.seeds, sizes.worlds]
    bare = raw_rate(ROBOT, count, None, bare=False)
    figures.add(
        f"{sizes.seeds} seeds x {sizes.worlds} running worlds, learning included",
        f"{wide.rate:,.0f} steps/s, {100 * wide.rate / bare:.0f} % of the task alone "
        f"({bare:,.0f} with {count} worlds)",
        "at least 70 %",
    )
    whole = found["whole episodes"]
    useful = whole.steps / (sizes.seeds * sizes.episodes * whole.longest)
    figures.add(
        f"{sizes.seeds} seeds x {sizes.episodes} whole episodes, authors, untrained",
        f"{whole.rate:,.0f} useful steps/s, {100 * (1 - useful):.0f} % of the work "
        "wasted on worlds that had ended",
        "150 000 steps/s",
    )
    figures.add(
        f"{len(arms)} arms x {sizes.seeds} seeds / one arm, {sizes.few} running worlds",
        f"{found['every arm'].seconds / found['one arm'].seconds:.2f} times the wall time",
        "at most 2 times",
    )
    import jax

    rows = [cost_row(n, w, found[n, w]) for n, w in sorted(table)]
    return {"figures": figures, "cost": rows, "device": jax.devices()[0].device_kind}


def ablation(sizes: Sizes) -> list[Any]:
    """The arms of Figure 4, in running worlds."""
    base = config("authors", **running(sizes.few, sizes.batch))
    arms = presets.arms("ablation").values()
    return list(dict.fromkeys(replace(base, **own) for own in arms))


def whole_episodes(sizes: Sizes, limit: int | None) -> Program:
    cfg = replace(config("authors"), episodes_per_update=sizes.episodes)
    return Program([cfg], sizes.seeds, limit)


def cost_row(seeds: int, worlds: int, m: Measured) -> dict[str, Any]:
    return {
        "seeds": seeds,
        "worlds": worlds,
        "first_update_s": round(m.first, 2),
        "update_s": round(m.seconds, 4),
        "steps": m.steps,
        "steps_per_second": round(m.rate),
    }


def picture(report: dict[str, Any]) -> bytes:
    """Draw the cost table."""
    rows = report["cost"]
    few = min(row["worlds"] for row in rows)
    # the number of seeds that was measured with several numbers of worlds
    most = statistics.mode(row["seeds"] for row in rows)
    return costs(
        {
            f"seeds, {few} worlds each": points(rows, "seeds", "worlds", few),
            f"worlds of each of {most} seeds": points(rows, "worlds", "seeds", most),
        }
    )


def points(
    rows: list[dict[str, Any]], across: str, fixed: str, value: int
) -> list[tuple[int, float]]:
    return [(row[across], row["update_s"]) for row in rows if row[fixed] == value]


def accelerators() -> int:
    """Count the accelerators in another process, so that this one does not use them."""
    program = "import jax; print(sum(d.platform != 'cpu' for d in jax.devices()))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def cost_table(sizes: Sizes, quick: bool) -> dict[Any, Program]:
    """Measure an update against the number of seeds and of worlds per seed."""
    wanted = [(sizes.seeds, sizes.worlds)]
    if not quick:
        wanted += [(seeds, sizes.few) for seeds in sizes.across_seeds]
        wanted += [(sizes.seeds, worlds) for worlds in sizes.across_worlds]
    return {
        (seeds, worlds): Program(
            [config("tuned", **running(worlds, sizes.batch))], seeds
        )
        for seeds, worlds in wanted
    }
