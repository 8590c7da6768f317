"""Runs beside each other: their curves in one figure, and what two of them are worth."""

import statistics
from pathlib import Path
from typing import Any

from penfac import stats
from penfac.analysis.judge import judge
from penfac.errors import ConfigError
from penfac.plots import Curve, comparison
from penfac.runs.folder import RunFolder, read_config, storage
from penfac.runs.learners import arm_document, arm_folders, learners_of
from penfac.runs.standing import mean_returns, score
from penfac.training.request import check_document

PICTURES = (".png", ".svg", ".pdf")
Shown = dict[str, dict[str, list[Curve]]]  # by environment and label


# --- curves ------------------------------------------------------------------------------


def plot(runs: list[Path], file: Path) -> dict[str, Any]:
    """Every run a curve with its bands, every environment a panel."""
    kind = file.suffix.lower()
    if kind not in PICTURES:
        raise ConfigError(f"--out {file}: must end in {' or '.join(PICTURES)}")
    if len(set(runs)) < len(runs):
        raise ConfigError("plot: each run may be given once")
    found = {run: read(run) for run in runs}
    labels = labelled(found)
    shown: Shown = {}
    rows = []
    for run, document in found.items():
        for arm, home in arm_folders(run, document).items():
            label = " ".join(filter(None, (labels[run], arm)))
            own = arm_document(document, arm)
            curves = [curve(x.seed, x.path) for x in learners_of(home, own)]
            judged = [c for c in curves if c.steps]
            if not judged:
                raise ConfigError(f"{home}: has no evaluation yet; train it first")
            shown.setdefault(document["env"], {})[label] = judged
            rows.append(told(label, home, own, judged))
    with storage(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    picture = comparison(shown, kind.removeprefix("."))
    RunFolder(file.parent).write(file.name, picture)
    return {"file": str(file), "curves": rows}


def read(run: Path) -> dict[str, Any]:
    document = read_config(run)
    check_document(run / "config.json", document)
    return document


def labelled(found: dict[Path, dict[str, Any]]) -> dict[Path, str]:
    """The shortest words that tell the runs of each environment apart: algorithm, with
    its preset, with the folder's name."""
    words = [
        lambda run, d: d["algo"],
        lambda run, d: f"{d['algo']} {d.get('preset', '')}".strip(),
        lambda run, d: f"{d['algo']} {run.name}",
        lambda run, d: str(run),
    ]
    for word in words:
        names = {run: word(run, document) for run, document in found.items()}
        places = [(found[run]["env"], name) for run, name in names.items()]
        if len(set(places)) == len(places):
            return names
    return {run: str(run) for run in found}


def curve(seed: int, path: Path) -> Curve:
    judged = sorted(mean_returns(path).items())
    return Curve(seed, [step for step, _ in judged], [value for _, value in judged])


def told(
    label: str, home: Path, document: dict[str, Any], judged: list[Curve]
) -> dict[str, Any]:
    """How many seeds, how far, and the final score: the last tenth of the evaluations."""
    scores = [
        score(x.path, c.steps[-1])
        for x in learners_of(home, document)
        for c in judged
        if c.seed == x.seed
    ]
    return {
        "label": label,
        "run": str(home),
        "env": document["env"],
        "seeds": len(judged),
        "of": len(document["seeds"]),
        "steps": min(c.steps[-1] for c in judged),
        "score": statistics.fmean(scores),
        "std": statistics.stdev(scores) if len(scores) > 1 else None,
    }


# --- two runs ----------------------------------------------------------------------------


def compare(runs: list[Path], episodes: int, mode: str) -> dict[str, Any]:
    """Both played on fresh initial states; the difference with its 95 % interval. The
    unit is a seed; with one seed each it is an episode, and says nothing of learning."""
    if len(runs) != 2:
        raise ConfigError(f"--compare: takes two runs (got {len(runs)})")
    documents = [read(run) for run in runs]
    for run, document in zip(runs, documents, strict=True):
        if "arms" in document:
            listed = ", ".join(document["arms"])
            raise ConfigError(f"{run}: has the arms {listed}; give the folder of one")
    first, second = (d["env"] for d in documents)
    if first != second:
        raise ConfigError(
            f"--compare: the environments {first} and {second} differ; they must be the same"
        )
    judged = [judge(run, episodes, mode) for run in runs]
    by_seed = all(len(j["seeds"]) > 1 for j in judged)
    if not by_seed and any(len(j["seeds"]) > 1 for j in judged):
        raise ConfigError(
            "--compare: one run has several seeds, the other one; give the folder of a seed"
        )
    a, b = (numbers(j, by_seed) for j in judged)
    if min(len(a), len(b)) < 2:
        raise ConfigError(f"--episodes {episodes}: must be at least 2, for an interval")
    difference, chance = stats.welch(a, b), stats.improvement(a, b)
    return {
        "runs": judged,
        "unit": "seed" if by_seed else "episode",
        "difference": difference.difference,
        "low": difference.low,
        "high": difference.high,
        "probability_of_improvement": chance._asdict(),
    }


def numbers(judged: dict[str, Any], by_seed: bool) -> list[float]:
    if by_seed:
        return [row["mean"] for row in judged["seeds"]]
    return judged["seeds"][0]["returns"]
