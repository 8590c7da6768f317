"""Print a table of all runs in a folder, from the evaluations.csv of each seed.

    python examples/read_runs.py runs

It needs only the standard library: a run folder is CSV and JSON.
"""

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path


def evaluations(folder: Path) -> dict[int, float]:
    """Return the mean return of each evaluation, by step."""
    returns = defaultdict(list)
    with open(folder / "evaluations.csv", newline="") as file:
        for row in csv.DictReader(file):
            returns[int(row["step"])].append(float(row["return"]))
    return {step: statistics.fmean(r) for step, r in returns.items()}


def main(out: Path) -> int:
    # a group of seeds has evaluations.csv in its seed folders only
    folders = sorted(path.parent for path in out.rglob("evaluations.csv"))
    if not folders:
        print(f"{out}: no runs here", file=sys.stderr)
        return 1
    print(
        f"{'environment':28} {'algo':8} {'seed':>4} {'step':>10} {'last':>9} {'best':>9}"
    )
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        curve = evaluations(folder)
        last = max(curve)
        print(
            f"{config['env']:28} {config['algo']:8} {config['seeds'][0]:4} {last:10,} "
            f"{curve[last]:9.1f} {max(curve.values()):9.1f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs")))
