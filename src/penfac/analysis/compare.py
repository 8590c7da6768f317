"""Runs side by side: their curves in one figure, and the difference of two of them."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penfac import stats
from penfac.analysis.evaluate import evaluate_run
from penfac.analysis.others import evaluate_other, is_other, load_other
from penfac.errors import ConfigError
from penfac.plots import Curve, apart, comparison
from penfac.runs.curve_files import read_curve_file
from penfac.runs.evaluations import FILE, mean_curve, score
from penfac.runs.folder import RunFolder
from penfac.runs.learners import Learner
from penfac.runs.run import Run
from penfac.runs.sealed import newer_rows
from penfac.runs.storage import make_folder
from penfac.scores import final_score
from penfac.training.environment import find_env

PICTURES = (".png", ".svg", ".pdf")
ONE_RUN = "--compare: needs a run of penfac, for its environment"
Shown = dict[str, dict[str, list[Curve]]]  # by environment and label


# --- curves ------------------------------------------------------------------------------


def plot(paths: list[Path], file: Path, split: bool = False) -> dict[str, Any]:
    """Draw every run and every file of curves with its bands: a panel for each
    environment, or if `split` for each curve."""
    kind = file.suffix.lower()
    if kind not in PICTURES:
        raise ConfigError(f"--out {file}: must end in {' or '.join(PICTURES)}")
    if len(set(paths)) < len(paths):
        raise ConfigError("plot: each run may be given once")
    shown: Shown = {}
    runs = [Run.open(path) for path in paths if path.suffix != ".csv"]
    labels = label_runs(runs)
    rows = [row for run in runs for row in add_run(run, labels[run.path], shown)]
    for path in paths:
        if path.suffix == ".csv":
            rows += add_file(path, shown)
    make_folder(file.parent)
    draw = apart if split else comparison
    RunFolder(file.parent).write(file.name, draw(shown, kind.removeprefix(".")))
    return {"file": str(file), "curves": rows}


def add_run(run: Run, label: str, shown: Shown) -> list[dict[str, Any]]:
    """Add the curves of a run, arm by arm; return a row for each."""
    run.refuse_changed()
    rows = []
    for arm, part in run.arms.items():
        name = " ".join(filter(None, (label, arm)))
        curves = [read_curve(x) for x in part.learners]
        drawn = [c for c in curves if c.steps]
        if not drawn:
            raise ConfigError(f"{part.path}: has no evaluation yet; train it first")
        shown.setdefault(run.config.env, {})[name] = drawn
        rows.append(summary_row(name, part, drawn))
    return rows


def add_file(path: Path, shown: Shown) -> list[dict[str, Any]]:
    """Add the curves of a CSV file; return a row for each. One that names no environment
    is of the one that is shown, if there is one only."""
    rows = []
    for (env, label), curves in read_curve_file(path).items():
        env = env or (next(iter(shown)) if len(shown) == 1 else "")
        there = shown.setdefault(env, {})
        if label in there:
            raise ConfigError(f"{path}: there is a curve {label} already; rename one")
        there[label] = curves
        scores = [final_score(curve.returns) for curve in curves]
        rows.append(
            {"label": label, "run": str(path), "env": env}
            | {"seeds": len(curves), "of": len(curves), "newer": 0}
            | {"steps": min(curve.steps[-1] for curve in curves)}
            | mean_and_std(scores)
        )
    return rows


def label_runs(runs: list[Run]) -> dict[Path, str]:
    """The shortest words that tell the runs of each environment apart: algorithm, with
    its preset, with the folder's name."""
    words: list[Callable[[Run], str]] = [
        lambda run: run.config.algo,
        lambda run: f"{run.config.algo} {run.config.preset or ''}".strip(),
        lambda run: f"{run.config.algo} {run.path.name}",
        lambda run: str(run.path),
    ]
    for word in words:
        places = [(run.config.env, word(run)) for run in runs]
        if len(set(places)) == len(places):
            return {run.path: word(run) for run in runs}
    return {run.path: str(run.path) for run in runs}


def read_curve(learner: Learner) -> Curve:
    return Curve(learner.seed, *mean_curve(learner.path))


def summary_row(label: str, run: Run, drawn: list[Curve]) -> dict[str, Any]:
    """How many seeds, how far, and the final score: the last tenth of the evaluations."""
    last = {curve.seed: curve.steps[-1] for curve in drawn}
    scores = [score(x.path, last[x.seed]) for x in run.learners if x.seed in last]
    return {
        "label": label,
        "run": str(run.path),
        "env": run.config.env,
        "seeds": len(drawn),
        "of": len(run.config.seeds),
        "steps": min(last.values()),
        "newer": sum(newer_rows(x.path, FILE) for x in run.learners),
    } | mean_and_std(scores)


def mean_and_std(scores: list[float]) -> dict[str, float | None]:
    deviation = statistics.stdev(scores) if len(scores) > 1 else None
    return {"score": statistics.fmean(scores), "std": deviation}


# --- two runs ----------------------------------------------------------------------------


def compare(
    paths: list[Path],
    episodes: int,
    mode: str,
    best: bool = False,
    trust: bool = False,
) -> dict[str, Any]:
    """Play both on fresh initial states; the difference with its 95 % interval. The unit
    is a seed; with one seed each it is an episode, and says nothing of learning."""
    if len(paths) != 2:
        raise ConfigError(f"--compare: takes two runs (got {len(paths)})")
    runs = [Run.open(path) for path in paths if not is_other(path)]
    # an environment may change the folder of the process
    places = {path: path.absolute() for path in paths}
    for run in runs:
        run.refuse_arms()
    envs = list(dict.fromkeys(run.config.env for run in runs))
    if len(envs) != 1:
        which = f"{' and '.join(envs)} differ; they must be the same"
        raise ConfigError(f"--compare: the environments {which}" if envs else ONE_RUN)
    find_env(runs[0], trust)
    others = {path: load_other(str(path), trust) for path in paths if is_other(path)}
    reports = [
        evaluate_other(str(path), others[path], runs[0].config, seed_of(runs[0]), episodes, mode)
        if path in others
        else evaluate_run(places[path], episodes, mode, best, trust) | {"run": str(path)}
        for path in paths
    ]  # fmt: skip
    by_seed = all(len(run.config.seeds) > 1 for run in runs) and not others
    if not by_seed and any(len(run.config.seeds) > 1 for run in runs):
        raise ConfigError(
            "--compare: one run has several seeds, the other one; give the folder of a seed"
        )
    a, b = (sample(report, by_seed) for report in reports)
    if min(len(a), len(b)) < 2:
        raise ConfigError(f"--episodes {episodes}: must be at least 2, for an interval")
    unit = {"unit": "seed" if by_seed else "episode"}
    return {"runs": reports} | unit | difference_of(a, b)


def difference_of(a: list[float], b: list[float]) -> dict[str, Any]:
    """The difference of two means with its interval, and which is the better one."""
    found, chance = stats.welch(a, b), stats.improvement(a, b)
    return {
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "probability_of_improvement": chance._asdict(),
    }


def seed_of(run: Run) -> int:
    """The seed whose initial states another controller is played on."""
    return run.learner(None).seed


def sample(report: dict[str, Any], by_seed: bool) -> list[float]:
    """One number per unit: the mean return of a seed, or the return of an episode."""
    if by_seed:
        return [row["mean"] for row in report["seeds"]]
    return report["seeds"][0]["returns"]
