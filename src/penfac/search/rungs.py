"""Rungs of a search: where configs are compared, who is kept, and what is left behind."""

import csv
import io
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from penfac.algos import ALGORITHMS
from penfac.errors import PenfacError
from penfac.runs.config import RunConfig, SearchConfig
from penfac.runs.evaluations import is_evaluated_at, score
from penfac.runs.folder import RunFolder
from penfac.runs.learners import learners_of
from penfac.runs.run import Run
from penfac.runs.status import read_status
from penfac.search import space as spaces
from penfac.settings.configs import to_values
from penfac.workers import LOST, RETRIES, how_it_ended


class RungResult(NamedTuple):
    """One config at one rung."""

    config: str
    rung: int
    steps: int
    scores: dict[int, float]  # by seed; none of a seed that failed
    kept: bool
    failed: dict[int, str]

    @property
    def score(self) -> float:
        """Mean over seeds; a config with a failed seed is behind all others."""
        return -math.inf if self.failed else statistics.fmean(self.scores.values())


@dataclass
class SearchOutcome:
    """How a search stands."""

    folder: Path
    env: str
    exit_code: int
    reason: str
    rows: list[RungResult]
    settings: dict[str, dict[str, Any]]  # the drawn settings of each config
    best: str | None
    preset: Path | None


def search_of(config: RunConfig) -> SearchConfig:
    """The search that a run belongs to."""
    assert config.search is not None, "not a search"  # noqa: S101
    return config.search


def rungs(config: RunConfig) -> list[int]:
    """Steps at which configs are compared: each twice the one before, the last all."""
    halvings = search_of(config).halvings
    return [config.steps // 2**k for k in range(halvings, -1, -1)]


def is_behind(run: Run, steps: int) -> bool:
    """Whether a learner that did not fail has not been evaluated at `steps` and saved."""
    return any(is_learner_behind(learner.path, steps) for learner in run.learners)


def is_learner_behind(path: Path, steps: int) -> bool:
    status = read_status(path)
    if status.lasting_failure is not None:
        return False
    # rows of one that was killed may be newer than its policy
    return status.state in ("running", "new") or not is_evaluated_at(path, steps)


def rank(run: Run, rung: int, steps: int) -> list[RungResult]:
    """The configs at one rung, the best first; the better half is kept, at the end one."""
    rows = [rung_result(run, arm, rung, steps) for arm in run.config.alive or ()]
    rows.sort(key=lambda row: -row.score)  # stable: of equals the earlier one
    last = rung == search_of(run.config).halvings
    keep = 1 if last else math.ceil(len(rows) / 2)
    sound = [row for row in rows if not row.failed]
    return [row._replace(kept=row in sound[:keep]) for row in rows]


def rung_result(run: Run, arm: str, rung: int, steps: int) -> RungResult:
    """One config at one rung, not yet compared with the others."""
    scores, failed = {}, {}
    for learner in learners_of(run.path, replace(run.config, alive=(arm,))):
        error = read_status(learner.path).lasting_failure
        if error is not None and not is_evaluated_at(learner.path, steps):
            failed[learner.seed] = error
        else:
            scores[learner.seed] = score(learner.path, steps)
    return RungResult(arm, rung, steps, scores, False, failed)


def worker_error(run: Run, code: int) -> PenfacError:
    """The error of a worker that is not its config's fault: it stops the search."""
    errors = [read_status(learner.path).error for learner in run.learners]
    plain = f"its process ended with exit code {code}"
    if code >= LOST:
        errors, plain = [], f"{how_it_ended(code)}, {RETRIES + 1} times"
    error = PenfacError(f"{run.path}: {next(filter(None, errors), plain)}")
    error.exit_code = code if code < 10 else 1
    return error


# --- what is left behind -------------------------------------------------------------------


def drawn_settings(config: RunConfig) -> dict[str, dict[str, Any]]:
    """The settings that the search draws, by config."""
    values = {arm: to_values(cfg) for arm, cfg in (config.arms or {}).items()}
    names = search_of(config).space
    return {arm: {name: own[name] for name in names} for arm, own in values.items()}


def write_table(run: Run, rows: list[RungResult]) -> None:
    """search.csv: every config at every rung that it reached, with its settings."""
    settings, text = drawn_settings(run.config), io.StringIO(newline="")
    seeds = run.config.seeds
    columns = ["config", "rung", "steps", "score", "std", "kept"]
    columns += [f"seed_{seed}" for seed in seeds] + list(search_of(run.config).space)
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
    RunFolder(run.path).write("search.csv", text.getvalue().encode(), sync=True)


def conclude(
    run: Run, named: Path, rows: list[RungResult], reason: str, code: int
) -> SearchOutcome:
    """Write the preset of the best config, once there is one."""
    settings = drawn_settings(run.config)
    told, last = (named, run.config.env), search_of(run.config).halvings
    best = next((row for row in rows if row.rung == last and row.kept), None)
    if best is None:
        if reason == "finished":
            reason, code = "every config failed", 4
        return SearchOutcome(*told, code, reason, rows, settings, None, None)
    preset = named / write_preset(run, best)
    return SearchOutcome(*told, code, reason, rows, settings, best.config, preset)


def write_preset(run: Run, best: RungResult) -> str:
    """best.toml: where the best config differs from the defaults."""
    config, arms = run.config, run.config.arms or {}
    default = to_values(ALGORITHMS[config.algo].config())
    values = to_values(arms[best.config])
    changed = {key: value for key, value in values.items() if value != default[key]}
    lines = [
        f"# {config.algo} on {config.env}: {best.config} of "
        f"{len(arms)} configs, {best.score:.1f} at {best.steps:,} steps",
        f"# (mean over seeds {', '.join(map(str, config.seeds))}); "
        "these are the differences from the defaults.",
        f"# {config.command or ''}",
        "",
    ]
    text = "\n".join(lines) + spaces.as_toml(changed)
    RunFolder(run.path).write("best.toml", text.encode(), sync=True)
    return "best.toml"
