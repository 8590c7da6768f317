"""Declare a study in Python, run it, and print its verdicts.

    python examples/custom_study.py [SEEDS] [OUT]

A second call skips complete runs, continues the others and adds more seeds. The command
reads `study` from this file too: `penfac study run examples/custom_study.py`.
"""

import sys
from pathlib import Path

from penfac.studies import findings, publish, runner
from penfac.studies.claims import Claim
from penfac.studies.spec import Arm, Study
from penfac.training.limits import Limits

settings = {  # one state: mu is a bias, V a number; plain gradient steps
    "actor_hidden": [],
    "critic_hidden": [],
    "actor_output": "linear",
    "normalise": "none",
    "optimiser": "sgd",
    "rounds": 100,
}
study = Study(
    name="steps",
    title="How large should a step of CACLA be?",
    question="Does it pay to move ten times as far toward a good action?",
    arms=(
        Arm("small", "cacla", settings=settings | {"actor_lr": 0.001}),
        Arm("large", "cacla", settings=settings | {"actor_lr": 0.01}),
    ),
    envs=("penfac/Ridge10-v0",),
    claims=(
        Claim(
            "Ten times the step learns faster.",
            ("large above small",),
            measure="area",  # under the whole curve
        ),
    ),
    seeds=5,
    steps=2_000,
    eval_episodes=1,  # one state, one action: every episode is the same
)


def main(seeds: int, folder: Path) -> None:
    result = runner.start(
        study, tuple(range(seeds)), folder, runner.How(), Limits(), print
    )
    if result.exit_code:
        sys.exit(f"{result.reason}: {result.failed}")
    results = findings.findings(folder)
    for claim in results["claims"]:
        print(f"{claim['verdict']}: {claim['words']}")
        for c in claim["comparisons"]:
            interval = f"[{c['low']:.3g}, {c['high']:.3g}]"
            print(
                f"  {c['text']}: by {c['difference']:.3g} {interval}, p = {c['p']:.1g}"
            )
    page, *_ = publish.publish(results, folder / "report")
    print(f"page: {page}")


if __name__ == "__main__":  # worker processes import this file
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else study.seeds,
        Path(sys.argv[2] if len(sys.argv) > 2 else "studies/steps"),
    )
