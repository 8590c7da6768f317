"""`penfac bench mine --env ID`: where the time of a run on your own task goes.

A run of some seconds, as `penfac train` makes it, tells its parts; then the same worlds
step alone, under random actions.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from penfac.algos import ALGORITHMS
from penfac.bench.figures import Figures, Say
from penfac.envs.gym import Watch, check_id
from penfac.envs.hiring import crew_for
from penfac.envs.options import EnvOptions
from penfac.envs.worlds import Worlds, open_worlds
from penfac.runs.config import read_config
from penfac.runs.csv_files import read_csv
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.request import Request
from penfac.training.trial import start

LONG = 10**9  # steps: the run is stopped before
FIRST = 2  # updates that compile and warm up


def run(
    quick: bool, say: Say, env: str, algo: str, env_workers: int | None
) -> dict[str, Any]:
    """Measure the parts of training, and its share of the environments alone."""
    figures, seconds = Figures(say), 5.0 if quick else 20.0
    request = Request(env, algo, steps=LONG, eval_every=LONG, eval_episodes=1, on="cpu")
    rows, worlds = train_for(seconds, request, env_workers, say)
    rate, parts = parts_of(rows)
    alone = rate_alone(seconds / 4, env, worlds, env_workers)
    figures.add("training", f"{rate:,.0f} steps/s")
    add_parts(figures, parts)
    figures.add(f"{worlds} worlds alone", f"{alone:,.0f} steps/s")
    share = f"{100 * rate / alone:.0f} %"
    figures.add("training / worlds alone", share, "40 % or more, with 64 worlds")
    return {"figures": figures, "env": env, "algo": algo, "steps_per_second": rate}


def parts_of(rows: list[dict[str, float]]) -> tuple[float, dict[str, float]]:
    """Steps per second of a run, and the share of its time that each part takes."""
    first, last = rows[FIRST - 1], rows[-1]
    whole = last["elapsed_s"] - first["elapsed_s"]
    spent = {k: sum(row[k] for row in rows[FIRST:]) for k in rows[0]}
    shares = {
        "env.step": spent["env_s"] / whole,
        "acting": (spent["collect_s"] - spent["env_s"]) / whole,
        "learning": spent["update_s"] / whole,
    }
    shares["recording and the rest"] = 1 - sum(shares.values())
    return (last["step"] - first["step"]) / whole, shares


def add_parts(figures: Figures, shares: dict[str, float]) -> None:
    for name, share in shares.items():
        figures.add(f"... of it {name}", f"{100 * share:.0f} %")


def train_for(
    seconds: float, request: Request, env_workers: int | None, say: Say
) -> tuple[list[dict[str, float]], int]:
    """The times of each update of a run of so many seconds, and its number of worlds."""
    with tempfile.TemporaryDirectory() as out:
        run_folder, table = Path(), []
        while len(table) < FIRST + 3:
            limits = Limits(stop_after=seconds, env_workers=env_workers)
            outcome = start(replace(request, out=Path(out)), limits, Noted(say))
            run_folder = outcome.folder
            table = read_csv(run_folder / "timing.csv")
            seconds *= 2  # the first updates may take that long
        settings = read_config(run_folder).settings
    how = ALGORITHMS[request.algo].collecting(settings)
    rows = [{name: float(value) for name, value in row.items()} for row in table]
    return rows, how.episodes or how.worlds


class Noted(Listener):
    """Passes on what a run tells."""

    def __init__(self, say: Say):
        self.say = say

    def noted(self, text: str) -> None:
        self.say(f"  {text}")


def rate_alone(seconds: float, env: str, count: int, env_workers: int | None) -> float:
    """Steps per second of the worlds of a run without acting, learning or recording."""
    options = EnvOptions()
    check_id(env)
    with crew_for(env, options, count, env_workers, Watch(), lambda _: None) as crew:
        worlds = open_worlds(env, options, count, None, crew)
        try:
            return rate_of(worlds, seconds)
        finally:
            worlds.close()


def rate_of(worlds: Worlds, seconds: float) -> float:
    """... under random actions, resets included."""
    rng, everyone = np.random.default_rng(0), np.arange(worlds.count)
    shape = (20, worlds.count, len(worlds.actions.low))
    actions = worlds.actions.to_env(rng.uniform(-1, 1, shape), inside=True)
    for w in everyone:
        worlds.reset(int(w), int(w))
    steps, started = 0, time.perf_counter()
    while time.perf_counter() < started + seconds:
        got = worlds.step(everyone, actions[steps // worlds.count % 20])
        if got.faults:
            raise next(iter(got.faults.values()))
        for w in np.flatnonzero(got.terminated | got.truncated):
            worlds.reset(int(w), steps + int(w))
        steps += worlds.count
    return steps / (time.perf_counter() - started)
