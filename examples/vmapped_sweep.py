"""Sweep one setting in one program: every value and every seed at the same time.

    python examples/vmapped_sweep.py [STEPS] [OUT]

Each value of `sigma` is an arm. The arms differ in a number only, so they share one
compiled program; `at_once` makes a CPU run them together too. The same as a command, with a
block per arm in sweep.toml: `penfac train --arms sweep.toml`.
"""

import statistics
import sys
from pathlib import Path

from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.request import Request
from penfac.training.trial import start

SIGMAS = (0.05, 0.1, 0.2, 0.4)
SEEDS = (0, 1, 2)


class Say(Listener):
    """Print a line for each compilation."""

    def noted(self, text: str) -> None:
        print(f"# {text}")


def main(steps: int, out: Path) -> None:
    request = Request(
        env="penfac/LQR-v0",
        settings={
            "worlds": 8,
            "steps_per_world": 50,
            "minibatches": 8,
            "sigma_end": None,
        },
        arms={f"sigma-{sigma}": {"sigma": sigma} for sigma in SIGMAS},
        steps=steps,
        seeds=SEEDS,
        eval_every=max(1, steps // 4),
        on="device",  # the environment is part of the program
        out=out,
    )
    limits = Limits(at_once=len(SIGMAS) * len(SEEDS))
    outcome = start(request, limits, Say())
    if outcome.exit_code:
        sys.exit(f"{outcome.reason}: {outcome.folder}")
    print(f"{'arm':12} {'return':>9} {'worst seed':>11}")
    for arm in request.arms or {}:
        points = [p for who, p in outcome.finals.items() if who.arm == arm]
        means = [statistics.fmean(point.returns) for point in points]
        print(f"{arm:12} {statistics.fmean(means):9.2f} {min(means):11.2f}")
    print(f"runs: {outcome.folder}")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 40_000,
        Path(sys.argv[2] if len(sys.argv) > 2 else "runs"),
    )
