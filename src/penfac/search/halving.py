"""`penfac tune`: a random search with successive halving.

Configs are arms of one run, so on an accelerator all of them and their seeds are one
program; without one each is a process. What the search knows it reads from the run
folders: after a kill it goes on as if nothing had happened.
"""

import contextlib
import csv
import dataclasses
import io
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penfac.algos import ALGORITHMS
from penfac.algos.base import Algorithm
from penfac.envs.gym import check_id
from penfac.errors import ConfigError, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.folder import RunFolder, create_folder, read_config
from penfac.runs.learners import arm_document, learners_of
from penfac.runs.standing import FAILURES, failure, reached, score, status
from penfac.search import space as spaces
from penfac.settings.configs import from_values, to_values
from penfac.training.events import Limits, Listener
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.request import Request, check_document, resolve, versions
from penfac.training.trial import run, write_configs
from penfac.workers import Task, run_tasks

TUNING_SEEDS = (1000, 1001, 1002)  # apart from those that results are reported on


@dataclass(frozen=True)
class Search:
    """How to search: so many configs, halved so often on the way."""

    configs: int = 64
    halvings: int = 1
    space: str = "default"
    seed: int = 0  # of the draws
    processes: int | None = None  # none: one a core
    fixed: tuple[str, ...] = ()  # not drawn, though the space has them


class Row(NamedTuple):
    """One config at one rung."""

    config: str
    rung: int
    steps: int
    scores: dict[int, float]  # by seed; none of a seed that failed
    kept: bool
    failed: dict[int, str]

    @property
    def score(self) -> float:
        """Mean over seeds; a config with a seed that failed is behind all others."""
        return -math.inf if self.failed else statistics.fmean(self.scores.values())


@dataclass
class Found:
    """How a search stands."""

    folder: Path
    exit_code: int
    reason: str
    rows: list[Row]
    settings: dict[str, dict[str, Any]]  # by config: what it was drawn
    best: str | None
    preset: Path | None


# --- the search ------------------------------------------------------------------------


def start(
    request: Request, search: Search, limits: Limits, listener: Listener
) -> Found:
    """Draw the configs and search among them, in a new folder."""
    check(search, request)
    plain = resolve(request)  # everything else that can be wrong is told first
    algo = ALGORITHMS[request.algo]
    space = drawn_from(algo, search)
    base = plain["config"]
    drawn = spaces.draw(algo, space, base, search.configs, search.seed)
    width = len(str(search.configs - 1))
    arms = {f"c{k:0{width}d}": settings for k, settings in enumerate(drawn)}
    document = resolve(dataclasses.replace(request, arms=arms))
    document |= {
        "search": dataclasses.asdict(search) | {"space": space},
        "command": limits.command,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": versions(),
    }
    out = request.out / "tune"
    folder = create_folder(out, request.algo, request.env, request.name)
    write_configs(folder, document)
    return go(folder, document, limits, listener)


def drawn_from(algo: Algorithm, search: Search) -> spaces.Space:
    """The space, without what is fixed."""
    whole = spaces.space(algo, search.space)
    return {key: values for key, values in whole.items() if key not in search.fixed}


def check(search: Search, request: Request) -> None:
    if search.configs < 2:
        raise ConfigError(f"--configs {search.configs}: must be at least 2")
    most = int(math.log2(search.configs))
    if not 0 <= search.halvings <= most:
        raise ConfigError(f"--halvings {search.halvings}: must be 0 to {most}")
    if request.steps < 2**search.halvings:
        raise ConfigError(
            f"--steps {request.steps}: must be at least {2**search.halvings}, to be halved"
        )
    if search.seed < 0:
        raise ConfigError(f"--draw {search.seed}: must be at least 0")
    if search.processes is not None and search.processes < 1:
        raise ConfigError(f"--processes {search.processes}: must be at least 1")


def resume(folder: Path, limits: Limits, listener: Listener) -> Found:
    """Go on with a search that was stopped or killed."""
    document = read_config(folder)
    check_document(folder / "config.json", document)
    document.pop("alive", None)
    return go(folder, document, limits, listener)


def is_search(folder: Path) -> bool:
    with contextlib.suppress(PenfacError):
        return "search" in read_config(folder)
    return False


def go(
    folder: Path, document: dict[str, Any], limits: Limits, listener: Listener
) -> Found:
    """Rung after rung: train who is left, judge, keep the better half."""
    alive, rows = list(document["arms"]), []
    reason, code = "finished", 0
    limits = dataclasses.replace(limits, pictures=False)
    try:
        with Interruption(limits.stop_after) as interruption:
            for rung, steps in enumerate(rungs(document)):
                within = dataclasses.replace(
                    limits, until=steps, stop_after=interruption.left()
                )
                part = document | {"alive": alive}
                if behind(folder, part, steps):
                    train(folder, part, within, listener, interruption)
                if behind(folder, part, steps):
                    interruption.poll()
                    raise StopRequested("stopped", 0)
                judged = judge(folder, part, rung, steps)
                rows += judged
                alive = [row.config for row in judged if row.kept]
                write_table(folder, document, rows)
    except StopRequested as stop:
        reason, code = str(stop), stop.exit_code
    return conclude(folder, document, rows, reason, code)


def rungs(document: dict[str, Any]) -> list[int]:
    """Steps at which configs are judged: each twice the one before, the last all."""
    halvings = document["search"]["halvings"]
    return [document["steps"] // 2**k for k in range(halvings, -1, -1)]


def train(
    folder: Path,
    document: dict[str, Any],
    limits: Limits,
    listener: Listener,
    interruption: Interruption,
) -> None:
    """All that are alive up to `limits.until`, as one program or as processes."""
    if together(document, limits):
        outcome = run(folder, document, limits, listener, fresh=False)
        if outcome.reason.startswith("stopped"):
            raise StopRequested(outcome.reason, outcome.exit_code)
        return
    homes = {arm: folder / arm for arm in document["alive"]}
    tasks = [
        Task(arm, train_one, (home, arm_document(document, arm), limits))
        for arm, home in homes.items()
        if behind(home, arm_document(document, arm), limits.until or 0)
    ]
    count = document["search"]["processes"] or len(usable_cores())
    ended = run_tasks(tasks, count, interruption.poll)
    for k, (name, code) in enumerate(ended):
        if code not in (0, *FAILURES):
            raise process_failed(homes[name], arm_document(document, name), code)
        row = score_row(folder, document, name, 0, limits.until or 0)
        told = "failed" if row.failed else f"{row.score:.1f}"
        listener.noted(
            f"{name} at {limits.until:,} steps: {told} ({k + 1}/{len(tasks)})"
        )


def process_failed(home: Path, document: dict[str, Any], code: int) -> PenfacError:
    """What a config's process has left of its fault: not the config's, so all stops."""
    why = [status(x.path).get("error") for x in learners_of(home, document)]
    told = next((w for w in why if w), f"its process ended with exit code {code}")
    error = PenfacError(f"{home}: {told}")
    error.exit_code = code if code < 10 else 1
    return error


def together(document: dict[str, Any], limits: Limits) -> bool:
    """Whether this machine runs all configs as one program."""
    asked = limits.at_once is not None or runs_on_accelerator()
    return document["engine"] == "device" and asked


def train_one(home: Path, document: dict[str, Any], limits: Limits) -> int:
    """One config, in a process of its own that says nothing."""
    try:
        check_id(document["env"])  # brings in the module of one's own environment
        with contextlib.redirect_stdout(io.StringIO()):
            return run(home, document, limits, Listener(), fresh=False).exit_code
    except PenfacError as error:
        return error.exit_code


def behind(folder: Path, document: dict[str, Any], steps: int) -> bool:
    """Whether a learner that did not fail has not been judged at `steps` yet."""
    return any(
        not reached(x.path, steps) and failure(x.path) is None
        for x in learners_of(folder, document)
    )


# --- judging -----------------------------------------------------------------------------


def judge(folder: Path, document: dict[str, Any], rung: int, steps: int) -> list[Row]:
    """The rows of one rung, the best first; the better half is kept, at the end the one."""
    alive = document["alive"]
    rows = [score_row(folder, document, arm, rung, steps) for arm in alive]
    rows.sort(key=lambda row: -row.score)  # stable: of equals the earlier one
    last = rung == document["search"]["halvings"]
    keep = 1 if last else math.ceil(len(rows) / 2)
    sound = [row for row in rows if not row.failed]
    return [row._replace(kept=row in sound[:keep]) for row in rows]


def score_row(
    folder: Path, document: dict[str, Any], arm: str, rung: int, steps: int
) -> Row:
    scores, failed = {}, {}
    for learner in learners_of(folder, document | {"alive": [arm]}):
        error = failure(learner.path)
        if error is not None and not reached(learner.path, steps):
            failed[learner.seed] = error
        else:
            scores[learner.seed] = score(learner.path, steps)
    return Row(arm, rung, steps, scores, False, failed)


# --- what is left behind ---------------------------------------------------------------


def drawn_settings(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By config, the settings the search draws."""
    names = document["search"]["space"]
    return {
        arm: {name: config[name] for name in names}
        for arm, config in document["arms"].items()
    }


def write_table(folder: Path, document: dict[str, Any], rows: list[Row]) -> None:
    """search.csv: every config at every rung it reached, with its settings."""
    settings, text = drawn_settings(document), io.StringIO(newline="")
    seeds = document["seeds"]
    columns = ["config", "rung", "steps", "score", "std", "kept"]
    columns += [f"seed_{seed}" for seed in seeds] + list(document["search"]["space"])
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    for row in rows:
        spread = statistics.stdev(row.scores.values()) if len(row.scores) > 1 else ""
        writer.writerow(
            {
                "config": row.config,
                "rung": row.rung,
                "steps": row.steps,
                "score": "failed" if row.failed else row.score,
                "std": spread,
                "kept": int(row.kept),
            }
            | {f"seed_{s}": row.scores.get(s, "failed") for s in seeds}
            | settings[row.config]
        )
    RunFolder(folder).write("search.csv", text.getvalue().encode(), sync=True)


def conclude(
    folder: Path, document: dict[str, Any], rows: list[Row], reason: str, code: int
) -> Found:
    """The preset of the best config, once there is one."""
    settings = drawn_settings(document)
    last = [r for r in rows if r.rung == document["search"]["halvings"] and r.kept]
    if not last:
        if reason == "finished":
            reason, code = "every config failed", 4
        return Found(folder, code, reason, rows, settings, None, None)
    best = last[0]
    algo = ALGORITHMS[document["algo"]]
    default = to_values(algo.config())
    config = to_values(from_values(algo.config, document["arms"][best.config]))
    changed = {key: value for key, value in config.items() if value != default[key]}
    lines = [
        f"# {document['algo']} on {document['env']}: {best.config} of "
        f"{len(document['arms'])} configs, {best.score:.1f} at {best.steps:,} steps",
        f"# (mean over seeds {', '.join(map(str, document['seeds']))}); "
        "these are the differences from the defaults.",
        f"# {document.get('command', '')}",
        "",
    ]
    text = "\n".join(lines) + spaces.as_toml(changed)
    RunFolder(folder).write("best.toml", text.encode(), sync=True)
    preset = folder / "best.toml"
    return Found(folder, code, reason, rows, settings, best.config, preset)
