"""Long and wide: memory, open files and time per update stay where they are."""

import itertools
import json
import random
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.campaign.case import Case, must
from tests.campaign.commands import command, well
from tests.campaign.own_env import ENV
from tests.faults.commands import TINY

MB = 1 << 20
FLAT = "memory, descriptors and time per update are flat"
SMALL = [*TINY, "--set=fitted_iterations=1", "--set=actor_steps=1"]


def watch(into: Path, every: int) -> Callable[[], None]:
    """Note memory, open files and seconds as updates end, in the process itself."""

    def arm() -> None:
        import os
        import time

        import penfac.runs.recorder
        from penfac.training.loop import Loop, Updated

        # a slow machine would draw in the middle; what drawing takes levels off
        penfac.runs.recorder.DRAW_EVERY = 1e9
        handle, page, out = Loop.record, os.sysconf("SC_PAGE_SIZE"), open(into, "w")  # noqa: SIM115
        seen = [0]

        def record(self, event) -> None:
            handle(self, event)
            if not isinstance(event, Updated):
                return
            seen[0] += 1
            if seen[0] % every == 0:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                handles = len(os.listdir("/proc/self/fd"))
                row = [seen[0], pages * page, handles, time.process_time()]
                out.write(json.dumps(row) + "\n")
                out.flush()

        Loop.record = record

    return arm


def flat(file: Path, megabytes: float) -> None:
    """From the second half on nothing grows; the last quarter is as fast as the second."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    must(len(rows) >= 20, f"only {len(rows)} rows")
    half = rows[len(rows) // 2 :]
    grown = (half[-1][1] - half[0][1]) / MB
    must(
        grown < megabytes, f"{grown:.1f} MB more in {half[-1][0] - half[0][0]} updates"
    )
    must(half[-1][2] <= half[0][2] + 1, f"{half[0][2]} open files became {half[-1][2]}")
    cost = [b[3] - a[3] for a, b in itertools.pairwise(rows)]
    quarter = len(cost) // 4
    early = statistics.median(cost[quarter : 2 * quarter])
    late = statistics.median(cost[-quarter:])
    must(late < 1.5 * early, f"an update costs {late / early:.2f} times as much")


def updates(n: int, algo: str, here: Path) -> None:
    """So many updates of one learner on the host."""
    words = {
        "penfac": [*SMALL, f"--steps={n * 50}"],
        "td3": [f"--steps={n * 10}", "--set=steps_per_world=10", "--set=replay=2000",
                "--set=learning_starts=20", "--set=batch_size=8", "--set=gradient_steps=1"],
    }[algo]  # fmt: skip
    argv = [
        "--algo",
        algo,
        "--env",
        ENV,
        *words,
        f"--eval-every={n * 5}",
        "--eval-episodes=1",
    ]
    nets = ["--set=actor_hidden=4", "--set=critic_hidden=4"]
    noted = here / "noted"
    arm = watch(noted, max(1, n // 100))
    well(command("train", *argv, *nets, "--name=run", arm=arm, limit=3000))
    flat(noted, 0.002 * n)


def seeds(n: int, here: Path) -> None:
    """So many seeds in one process."""
    argv = ["train", "--env", ENV, *SMALL, f"--seeds={n}", "--steps=200", "--name=run"]
    well(command(*argv, limit=1800))
    done = list(here.glob("runs/penfac/run/seed-*/status.json"))
    must(len(done) == n, f"{len(done)} of {n} seeds")
    must(all('"finished"' in p.read_text() for p in done), "not all finished")


def runs(n: int, here: Path) -> None:
    """So many runs under one folder, each with a name of its own."""
    for _ in range(n):
        well(command("train", "--env", ENV, *SMALL, "--steps=50", "--eval-every=50"))
    made = list(here.glob("runs/penfac/*/config.json"))
    must(len(made) == n, f"{len(made)} of {n} folders")
    well(command("plot", *[p.parent for p in made], "--out", "x.png", limit=300))


def replay(steps: int, here: Path) -> None:
    """A full replay is saved and loaded in the memory it has, twice over."""
    argv = [
        "--algo=td3", "--env", ENV, f"--steps={steps}", f"--eval-every={steps}",
        "--eval-episodes=1", f"--set=replay={steps}", "--set=steps_per_world=1000",
        f"--set=learning_starts={steps - 2000}", "--set=batch_size=16",
        "--set=gradient_steps=1", "--set=actor_hidden=4", "--set=critic_hidden=4",
    ]  # fmt: skip
    run = "runs/td3/run"
    well(command("train", *argv, "--name=run", "--checkpoint-every=20s", limit=3000))
    noted = here / "noted"
    arm = watch(noted, 1)
    more = f"{steps + 60_000}"
    well(
        command("resume", run, "-n", more, "--checkpoint-every=5s", limit=3000, arm=arm)
    )
    flat(noted, 300)


def cases(home: Path, rng: random.Random) -> list[Case]:
    return [
        Case(
            "10 000 updates of PeNFAC", FLAT, partial(updates, 10_000, "penfac"), 3600
        ),
        Case("10 000 updates of TD3", FLAT, partial(updates, 10_000, "td3"), 3600),
        Case(
            "a full replay of a million steps", FLAT, partial(replay, 1_000_000), 3600
        ),
        Case("64 seeds in one process", "all finish", partial(seeds, 64), 3600),
        Case(
            "200 runs in one folder",
            "200 folders, one figure",
            partial(runs, 200),
            3600,
        ),
    ]
