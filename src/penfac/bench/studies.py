"""`penfac bench studies`: the overhead of a study, and the cost of its report."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from penfac.bench.figures import Figures, Say
from penfac.machine import usable_cores
from penfac.runs.folder import RunFolder
from penfac.studies import findings, plan, publish, run_results
from penfac.studies.runner import How, start
from penfac.studies.spec import Arm, Study
from penfac.training.limits import Limits

RUNS = {"few": (2, 2), "many": (2, 10)}  # arms x seeds of short runs
TOLD = (20, 60, 200)  # arms, seeds, evaluations of a large report


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        told = report_apart(home / "large")
        figures.add(
            "report of 20 arms x 60 seeds x 200 evaluations",
            f"{told[0]:.1f} s, {told[1]:.0f} MB",
            "10 s, 500 MB",
        )
        arms, seeds = RUNS["few" if quick else "many"]
        study = short(arms)
        start(study, (0, 1), home / "warm", How(), Limits(), say)  # fills the cache
        alone, _ = timed(study, seeds, home / "one", 1, say)
        many, own = timed(study, seeds, home / "all", len(usable_cores()), say)
        figures.add(
            f"{len(usable_cores())} processes / one, {arms * seeds} runs",
            f"{alone / many:.2f} times",
            "1.8 times on two cores",
        )
        around = 1 - own / (many * len(usable_cores()))
        figures.add(
            f"time that is not a run's own, {arms * seeds} runs of {own / arms / seeds:.1f} s",
            f"{100 * around:.1f} %, starting the processes included",
            "2 %",
        )
    return {"figures": figures}


def short(arms: int) -> Study:
    """A study with runs of a quarter of a minute on the default task."""
    own = tuple(Arm(f"a{k}", settings={"sigma": 0.1 + 0.1 * k}) for k in range(arms))
    env = "RoboschoolHalfCheetah-v2"
    return Study("short", "short", own, (env,), steps=100_000, eval_episodes=2)


def timed(
    study: Study, seeds: int, folder: Path, processes: int, say: Say
) -> tuple[float, float]:
    """Return wall-clock seconds of a study, and the sum of its runs' seconds."""
    began = time.perf_counter()
    start(study, tuple(range(seeds)), folder, How(processes=processes), Limits(), say)
    took = time.perf_counter() - began
    units = plan.units(folder, plan.read_plan(folder))
    return took, sum(run_results.read_seconds(unit.path) for unit in units)


def report_apart(folder: Path) -> tuple[float, float]:
    """Return seconds and memory of a report, in its own process."""
    large(folder)
    program = f"from penfac.bench import studies; studies.report_once({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def report_once(folder: str) -> None:
    began = time.perf_counter()
    publish.publish(findings.findings(Path(folder)), Path(folder) / "report")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.perf_counter() - began, peak)


def large(folder: Path) -> None:
    """Write a finished study with made-up runs."""
    arms, seeds, count = TOLD
    own = tuple(Arm(f"a{k}", settings={"sigma": 0.1 + 0.01 * k}) for k in range(arms))
    study = Study("large", "large", own, ("penfac/LQR-v0",), steps=count * 1000)
    planned = plan.make_plan(study, tuple(range(seeds)), "auto", "")
    folder.mkdir()
    plan.write_plan(folder, planned)
    random = np.random.default_rng(0)
    for unit in plan.units(folder, planned):
        returns = np.cumsum(random.normal(1, 5, count))
        rows = [
            f"{1000 * k},{k},{e},mean,{returns[k] + e},100,0"
            for k in range(count)
            for e in range(study.eval_episodes)
        ]
        head = "step,update,episode,mode,return,length,terminated"
        home = RunFolder(unit.path)
        home.write("evaluations.csv", ("\n".join([head, *rows]) + "\n").encode())
        home.write_json("status.json", {"state": "finished", "exit_code": 0})
