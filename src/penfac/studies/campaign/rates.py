"""How fast runs of a campaign are, and how large: from runs on this machine, or from
short trials on it."""

import contextlib
import json
import platform
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from penfac.errors import PenfacError
from penfac.machine import device_name
from penfac.runs.config import RunConfig
from penfac.runs.csv_files import read_csv
from penfac.runs.folder import RunFolder
from penfac.runs.learners import Learner
from penfac.runs.run import Run
from penfac.runs.status import read_status
from penfac.runs.storage import make_folder
from penfac.studies import plan as plans
from penfac.studies.run_results import read_seconds
from penfac.training.interruption import StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.trial import train_run
from penfac.workers import Task, run_tasks

FILE = "trials.json"
MOST_STEPS = 10_000_000  # of a trial, which its time ends
LONGEST = 600.0  # seconds, until the first update
LOOKED_AT = 3  # finished runs of a kind
Key = tuple[str, str, str, str]  # environment, algorithm, preset, auto or device


class Rate(msgspec.Struct, frozen=True):
    """Of one run of a kind."""

    per_second: float  # steps
    size: float  # bytes of a run folder at its end
    together: int  # learners of one program; 1: a process
    source: str


class Rates(NamedTuple):
    """The rates of a machine, and how many processes share it."""

    known: dict[Key, Rate]
    on: str  # auto or device, as in a plan
    processes: int

    def find(
        self, env: str, algo: str, preset: str, envs: Iterable[str]
    ) -> Rate | None:
        """The rate of a kind, or the slowest on another environment of its study."""
        exact = self.known.get((env, algo, preset, self.on))
        near = [self.known.get((e, algo, preset, self.on)) for e in envs]
        others = [rate for rate in near if rate is not None]
        slowest = min(others, key=lambda rate: rate.per_second, default=None)
        return exact or slowest

    def estimate(
        self, jobs: list[Any], envs: Iterable[str]
    ) -> tuple[float | None, float | None, tuple[str, ...]]:
        """Seconds, bytes, and where the rates come from; None if one is not known."""
        groups: dict[tuple[str, str, str], list[Any]] = {}
        for job in jobs:
            groups.setdefault((job.env, job.algo, job.preset), []).append(job)
        seconds = size = 0.0
        sources: dict[str, None] = {}
        for kind, own in groups.items():
            rate = self.find(*kind, envs)
            if rate is None:
                return None, None, ()
            sources[rate.source] = None
            size += rate.size * len(own)
            if self.on == "device":
                full = max(1.0, len(own) / rate.together)
                seconds += max(job.steps for job in own) / rate.per_second * full
            else:
                seconds += sum(job.steps for job in own) / rate.per_second
        processes = 1 if self.on == "device" else self.processes
        return seconds / processes, size, tuple(sources)


# --- from runs ---------------------------------------------------------------------------


def of_runs(folder: Path) -> dict[Key, Rate]:
    """The rates of finished runs in a campaign's folder."""
    found: dict[Key, list[Rate]] = {}
    for file in sorted(folder.glob(f"*/{plans.FILE}")):
        plan = plans.read_plan(file.parent)
        presets = {arm.name: arm.preset for arm in plan.study.arms}
        for unit in plans.units(file.parent, plan):
            config = unit.run.config
            key = unit.env, config.algo, presets[unit.arm], plan.on
            rates = found.setdefault(key, [])
            if not unit.ours or len(rates) == LOOKED_AT:
                continue
            if read_status(unit.path).state == "finished":
                seconds = read_seconds(unit.path)
                together = count(plan, config.algo) if plan.on == "device" else 1
                if seconds > 0:
                    size = bytes_in(unit.path)
                    rates.append(Rate(unit.steps / seconds, size, together, "runs"))
    return {key: mean_of(rates) for key, rates in found.items() if rates}


def count(plan: plans.Plan, algo: str) -> int:
    arms = plans.arms_of(plan, algo)
    return len(arms) * len(plans.seeds_of(plan, arms[0]))


def mean_of(rates: list[Rate]) -> Rate:
    n = len(rates)
    return msgspec.structs.replace(
        rates[0],
        per_second=sum(rate.per_second for rate in rates) / n,
        size=sum(rate.size for rate in rates) / n,
    )


def bytes_in(folder: Path) -> float:
    return float(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()))


# --- trials ------------------------------------------------------------------------------


def this_machine() -> str:
    return f"{platform.node()}, {device_name()}"


def read_trials(folder: Path) -> dict[Key, Rate]:
    """The trials that were made on this machine."""
    try:
        made = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if made["machine"] != this_machine():
            return {}
        return {
            tuple(key): msgspec.convert(rate, Rate)  # type: ignore[misc]
            for key, rate in made["rates"]
        }
    except (OSError, ValueError, LookupError, TypeError):
        return {}  # another trial costs seconds


def write_trials(folder: Path, rates: dict[Key, Rate]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    listed = [[list(key), msgspec.to_builtins(rate)] for key, rate in rates.items()]
    RunFolder(folder).write_json(FILE, {"machine": this_machine(), "rates": listed})


def try_out(
    asked: dict[Key, RunConfig], seconds: float, rates: Rates
) -> dict[Key, Rate]:
    """Run each config for some seconds after its first update, as many at a time as later.
    Evaluations are as frequent as later, by fewer episodes."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="penfac-trial-") as home:
        runs = {
            str(k): (key, Run(Path(home, str(k)), for_trial(config)))
            for k, (key, config) in enumerate(asked.items())
        }
        tasks = [Task(k, one_trial, (run, seconds)) for k, (_, run) in runs.items()]
        if rates.on == "device":  # another process would have no memory of the device
            ends = ((task.name, task.work(*task.arguments)) for task in tasks)
        else:
            ends = run_tasks(tasks, rates.processes, lambda: None)
        for name, _ in ends:
            key, run = runs[name]
            learner = run.learners[0].path
            with contextlib.suppress(OSError, ValueError, LookupError):
                found[key] = rate_of(learner, asked[key], len(run.learners))
    return found


class Trial(Listener):
    """Stops a run so long after its first update, and not before its second."""

    def __init__(self, seconds: float):
        self.seconds, self.ends = seconds, float("inf")

    def updated(self, who: Learner, counters: Any, progress: Any) -> None:
        if counters.update == 1:
            self.ends = time.monotonic() + self.seconds
        elif time.monotonic() > self.ends:
            raise StopRequested("stopped: the trial is over", 0)


def one_trial(run: Run, seconds: float) -> int:
    limits = Limits(stop_after=LONGEST + seconds, checkpoint_every=1e9, pictures=False)
    make_folder(run.path)
    try:
        return train_run(run, limits, Trial(seconds)).exit_code
    except PenfacError as error:
        return error.exit_code


def for_trial(config: RunConfig) -> RunConfig:
    """A tenth of the episodes, ten times as often, and as many steps as the time allows."""
    fewer = max(1, config.eval_episodes // 10)
    every = max(1, config.eval_every * fewer // config.eval_episodes)
    steps = max(config.steps, MOST_STEPS)
    return replace(config, eval_every=every, eval_episodes=fewer, steps=steps)


def rate_of(path: Path, config: RunConfig, together: int) -> Rate:
    """Of the rows of a trial; LookupError if it made no two updates."""
    rows = read_csv(path / "timing.csv")
    first, last = rows[0], rows[1:][-1]
    steps = int(last["step"]) - int(first["step"])
    rate = steps / max(float(last["elapsed_s"]) - float(first["elapsed_s"]), 1e-9)
    grows = [*path.glob("*.csv"), *path.glob("replay/*")]
    growing = sum(file.stat().st_size for file in grows)
    times = max(1.0, config.steps / int(last["step"]))
    size = bytes_in(path) + growing * (times - 1)
    return Rate(rate, size, together, "trial")
