"""Run the campaign: python -m tests.campaign [--only GROUP] [--sample SECONDS] [--seed N]

Prints tried, held and failed of each group, and writes all answers as JSON.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.campaign import preload  # noqa: F401  before anyone imports JAX

# isort: split
from tests.campaign import groups, tables
from tests.campaign.case import Answer, Case, adopt_orphans, run_cases, say

ROOT = Path(__file__).parents[2]


def main() -> None:
    options = read_options()
    began = time.monotonic()
    chosen = options.only.split(",") if options.only else list(groups.GROUPS)
    home = Path(options.home or tempfile.mkdtemp(prefix="penfac-campaign-")).resolve()
    report: dict[str, dict] = {}
    for k, name in enumerate(chosen):
        left = options.sample - (time.monotonic() - began) if options.sample else 1e9
        share = left / (len(chosen) - k)
        report[name] = run_group(name, home / name, share, options)
    if not options.keep:
        shutil.rmtree(home, ignore_errors=True)
    document: dict = {"seed": options.seed, "minutes": minutes(began), "groups": report}
    if options.json:
        write(Path(options.json), document)
    if options.docs:
        tables.write()
    failed = sum(len(group["failed"]) for group in report.values())
    say(f"{minutes(began)} min: {failed} failed")
    sys.exit(1 if failed else 0)


def write(file: Path, document: dict) -> None:
    """Groups that did not run now keep what they answered before."""
    if file.exists():
        earlier = json.loads(file.read_text())["groups"]
        document["groups"] = earlier | document["groups"]
    file.write_text(json.dumps(document, indent=1) + "\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--only", help=f"some of {','.join(groups.GROUPS)}")
    parser.add_argument("--sample", type=float, default=0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="where to write the answers")
    parser.add_argument("--docs", action="store_true", help="and the tables in docs/")
    parser.add_argument("--home", help="folder to work in")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    parser.add_argument(
        "--match", default="", help="only cases with this in their name"
    )
    return parser.parse_args()


def minutes(began: float) -> float:
    return round((time.monotonic() - began) / 60, 1)


def run_group(name: str, home: Path, seconds: float, options) -> dict:
    began = time.monotonic()
    group = groups.GROUPS[name]
    home.mkdir(parents=True, exist_ok=True)
    if group.prepare is not None and not (home / "prepared").exists():
        prepared(group.prepare, home)
    shutil.rmtree(home / "cases", ignore_errors=True)
    every = group.cases(home, random.Random(f"{options.seed} {name}"))
    every = [case for case in every if options.match in case.name]
    left = max(5.0, seconds - (time.monotonic() - began))
    answers = []
    for given in run_cases(every, home / "cases", options.jobs, left):
        answers.append(given)
        if given.kind != "held":
            say(f"{name}: {given.kind}: {given.case}: {given.what}"[:600])
    print_group(name, every, answers, time.monotonic() - began)
    return summary(every, answers)


def prepared(prepare, home: Path) -> None:
    """In a process of its own: this one must stay without threads."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            adopt_orphans()
            prepare(home)
            (home / "prepared").touch()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        raise SystemExit(f"{home.name}: what it starts from could not be made")


def summary(every: list[Case], answers: list[Answer]) -> dict:
    expected = {case.name: case.expected for case in every}
    bad = [a for a in answers if a.kind != "held"]
    return {
        "tried": sum(a.size for a in answers),
        "held": sum(a.size for a in answers if a.kind == "held"),
        "kinds": dict(Counter(a.kind for a in bad)),
        "failed": [
            {"case": a.case, "kind": a.kind, "what": a.what[:400], "expected": expected[a.case]}
            for a in bad
        ],
        "answers": {a.case: a.kind for a in answers} if len(answers) <= 100 else {},
    }  # fmt: skip


def print_group(name: str, every: list[Case], answers: list[Answer], seconds: float):
    found = summary(every, answers)
    kinds = ", ".join(f"{n} {kind}" for kind, n in found["kinds"].items())
    failed = found["tried"] - found["held"]
    print(
        f"{name:12} tried {found['tried']:5}  held {found['held']:5}  failed {failed:4}"
        f"  {seconds:5.0f} s  {kinds}",
        flush=True,
    )


if __name__ == "__main__":
    main()
