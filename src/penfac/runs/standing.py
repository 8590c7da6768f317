"""How a learner stands, as its run folder tells it."""

import contextlib
import json
import statistics
from pathlib import Path
from typing import Any

from penfac.errors import Divergence, EnvironmentFault
from penfac.runs.recorder import evaluations
from penfac.scores import final_score

FAILURES = (EnvironmentFault.exit_code, Divergence.exit_code)  # of one config alone


def mean_returns(path: Path) -> dict[int, float]:
    """Of mu at every step where it was judged."""
    return {
        step: statistics.fmean(float(row["return"]) for row in modes["mean"])
        for step, modes in evaluations(path).items()
    }


def reached(path: Path, steps: int) -> bool:
    """Whether it was judged at `steps` or after."""
    return any(step >= steps for step in evaluations(path))


def score(path: Path, steps: int) -> float:
    """The mean of the last tenth of the evaluations up to the first at `steps`."""
    found = mean_returns(path)
    end = min((s for s in found if s >= steps), default=max(found, default=0))
    returns = [value for step, value in sorted(found.items()) if step <= end]
    return final_score(returns)


def failure(path: Path) -> str | None:
    """Why a learner failed for good, if it did."""
    found = status(path)
    if found.get("state") == "failed" and found.get("exit_code") in FAILURES:
        return str(found["error"])
    return None


def status(path: Path) -> dict[str, Any]:
    """status.json; nothing if it is not there or was never finished."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((path / "status.json").read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
