"""Kills of those who drive others and of those who are driven: `tune` and `study run`."""

import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.campaign.bases import STUDY, left
from tests.campaign.case import Case, all_leave, changed, descendants, must
from tests.campaign.commands import finish, slowness, start, well
from tests.faults.commands import environment
from tests.small_runs import learners

KILLS, CHAIN = 48, 6
SETTINGS = (
    "collect=steps", "worlds=2", "steps_per_world=50", "actor_steps=2", "actor_hidden=4",
    "critic_hidden=4", "min_steps_per_update=1", "minibatches=1",
)  # fmt: skip
ENV = "penfac/LQR-v0"
TUNE = [
    "tune", "--env", ENV, "--configs=4", "--halvings=1", "--seeds=0-1", "-n", "800",
    "--eval-every=200", "--eval-episodes=1", "--processes=2", "--name=hop",
    *[f"--set={s}" for s in SETTINGS],
]  # fmt: skip
STUDYING = ["study", "run", "small.toml", "--processes=2", "--checkpoint-every=0s"]
TABLE = STUDY.replace("steps = 300", "steps = 800")
TUNED = Path("runs/tune/penfac/hop")
STUDIED = Path("studies/small")
KEEP_ON = (
    "gone on with, it ends with the bytes of one that nobody killed; nobody is left"
)


class Driven:
    """A command that has processes of its own, how to go on, and what it leaves."""

    def __init__(self, first: list[str], folder: Path):
        self.first, self.folder = first, folder

    def go(self) -> subprocess.Popen:
        is_there = (self.folder / "config.json").exists()
        again = self.first[0] == "tune" and is_there
        # a worker that is killed may tear what it compiled: that is for these runs alone
        env = environment(
            JAX_COMPILATION_CACHE_DIR=str(Path.cwd().parents[1] / "cache")
        )
        return start(*(["resume", str(self.folder)] if again else self.first), env=env)

    def left(self) -> dict:
        found = {
            str(p.relative_to(self.folder)): left(p) for p in learners(self.folder)
        }
        must(found, "no learner", "lost")
        tables = [self.folder / n for n in ("search.csv", "best.toml")]
        return found | {p.name: p.read_bytes() for p in tables if p.exists()}

    def rows(self) -> int:
        files = self.folder.rglob("progress.csv")
        return sum(file.read_bytes().count(b"\n") for file in files)


DRIVEN = {"tune": Driven(TUNE, TUNED), "study": Driven(STUDYING, STUDIED)}


def prepare(home: Path) -> None:
    for name in DRIVEN:
        undisturbed(home, name)


def undisturbed(home: Path, name: str) -> None:
    (home / name).mkdir()
    os.chdir(home / name)
    Path("small.toml").write_text(TABLE)
    well(finish(DRIVEN[name].go(), 600))


def whole_of(home: Path, name: str) -> dict:
    here = os.getcwd()
    os.chdir(home / name)
    found = DRIVEN[name].left()
    os.chdir(here)
    return found


def cases(home: Path, rng: random.Random) -> list[Case]:
    found = []
    for k in range(KILLS // CHAIN):
        name = list(DRIVEN)[k % 2]
        whom = [rng.choice(("driver", "worker")) for _ in range(CHAIN)]
        moments = [rng.random() for _ in range(CHAIN)]
        provoke = partial(chain, home, name, whom, moments)
        title = f"{name}: {', '.join(whom)} killed ({k})"
        found.append(Case(title, KEEP_ON, provoke, 3600, CHAIN))
    return found


def chain(
    home: Path, name: str, whom: list[str], moments: list[float], here: Path
) -> None:
    """Kill one, go on at once, kill another, ..., and let the last come through."""
    driven, whole = DRIVEN[name], whole_of(home, name)
    Path("small.toml").write_text(TABLE)
    every = sum(
        v["progress.csv"].count(b"\n") for v in whole.values() if isinstance(v, dict)
    )
    for who, moment in zip(whom, moments, strict=True):
        process = driven.go()
        wait_for_rows(
            driven, process, driven.rows() + int(moment * every / len(moments))
        )
        if who == "driver":
            process.kill()
            process.communicate()
            continue
        workers = [
            p for p, line in descendants(process.pid).items() if "spawn_main" in line
        ]
        if workers and process.poll() is None:
            os.kill(workers[int(moment * len(workers))], signal.SIGKILL)
        ended = finish(process, 600)
        must("Traceback" not in ended.err, ended.err[-500:], "traceback")
        must(
            ended.code == 0,
            f"a worker was killed: exit {ended.code}: {ended.err[-300:]}",
        )
    well(finish(driven.go(), 600))
    all_leave()
    made = driven.left()
    parts = {a: b if not isinstance(b, dict) else changed(whole.get(a, {}), b)
             for a, b in made.items() if whole.get(a) != b}  # fmt: skip
    must(not parts, f"other bytes: {list(parts.items())[:4]}", "lost")
    must(made.keys() == whole.keys(), f"{whole.keys() ^ made.keys()}", "lost")
    stray = list(driven.folder.rglob(".tmp-*"))
    must(not stray, f"left behind: {stray[:4]}", "stray")


def wait_for_rows(driven: Driven, process: subprocess.Popen, wanted: int) -> None:
    ends = time.monotonic() + 300 * slowness()
    while process.poll() is None and driven.rows() < wanted:
        must(time.monotonic() < ends, f"not at {wanted} rows in 300 s", "hang")
        time.sleep(0.01)
