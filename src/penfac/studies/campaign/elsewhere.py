"""Curves of a campaign's runs that were made elsewhere: they land in its studies.

A run is recognised by its content, so curves of one study land in every study that has
the same arm; a seed that is there already is left alone.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from penfac.errors import ConfigError
from penfac.runs.folder import RunFolder
from penfac.runs.storage import Lock, make_folder
from penfac.settings.configs import to_values
from penfac.settings.registry import settings_of
from penfac.studies import curve_files, findings, reported
from penfac.studies import plan as plans
from penfac.studies.curve_files import ELSEWHERE
from penfac.studies.plan import Plan
from penfac.studies.run_results import RunResult
from penfac.studies.spec import Arm

Place = tuple[str, str]  # environment and arm


class Found(NamedTuple):
    """Runs of a report whose arm a study has under this name."""

    place: Place
    theirs: str  # the arm's name in the report
    runs: list[RunResult]


def reports_in(folder: Path) -> list[Path]:
    """The folder of a report, or those in a folder."""
    found = [file.parent for file in sorted(folder.rglob(reported.FILE))]
    if not found:
        raise ConfigError(f"--with {folder}: has no report (no {reported.FILE})")
    return found


def find(plan: Plan, report: Path) -> list[Found]:
    """Complete runs of a report that are runs of the plan."""
    made = reported.read_made(report)
    if made is None:
        return []
    ended = [run for run in made.runs if run.state == "finished" and run.curves]
    by_content: dict[str, list[tuple[str, RunResult]]] = {}
    for run in ended:
        theirs = told_content(made, run, plan.study.name)
        steps = made.steps_on(run.unit.env)
        if theirs is not None and run.mean.steps[-1] >= steps:
            by_content.setdefault(theirs, []).append((run.unit.arm, run))
    found = []
    for env, arm in ((e, a) for e in plan.study.envs for a in plan.study.arms):
        wanted = set(plans.seeds_of(plan, arm))
        runs = by_content.get(planned_content(plan, env, arm), [])
        for theirs in dict.fromkeys(name for name, _ in runs):
            own = [r for name, r in runs if name == theirs and r.unit.seed in wanted]
            if own:
                found.append(Found((env, arm.name), theirs, own))
    return found


def planned_content(plan: Plan, env: str, arm: Arm) -> str:
    config = plans.arm_config(plan, env, arm)
    settings = to_values(config.settings)
    judged = (config.eval_every, config.eval_episodes)
    return as_content(env, config.algo, settings, config.steps, judged)


def told_content(made: reported.Made, run: RunResult, study: str) -> str | None:
    """What the files of a report say of a run; None if they do not say enough."""
    env, arm = run.unit.env, made.arms[run.unit.arm]
    envs = list(dict.fromkeys(other.unit.env for other in made.runs))
    if "on" not in arm and len(envs) > 1 and made.document.get("name") != study:
        return None  # written before reports had the settings of every environment
    steps, document = made.steps_on(env), made.document
    settings = settings_of(arm["algo"]).earlier | arm["config"]
    settings |= arm.get("on", {}).get(env, {})
    every = document.get("env_eval_every", {}).get(env, document["eval_every"])
    judged = (every, document["eval_episodes"])
    return as_content(env, arm["algo"], settings, steps, judged)


def as_content(
    env: str, algo: str, settings: dict[str, Any], steps: int, judged: tuple[int, int]
) -> str:
    read = reported.read_by(json.loads(json.dumps(settings)))
    return json.dumps([env, algo, read, steps, judged], sort_keys=True)


# --- landing -----------------------------------------------------------------------------


def land(folder: Path, name: str, plan: Plan, reports: list[Path]) -> tuple[Plan, int]:
    """Write the curves that are new into a study of the campaign's folder; its plan then
    knows them. How many runs they are."""
    home = folder / name
    new = list(unknown(home, plan, inherited(folder, plan), reports))
    if not new:
        return plan, 0
    make_folder(home)
    with Lock(home):
        known = {env: dict(arms) for env, arms in plan.known.items()}
        for found in new:
            write(home, plan, found)
            env, arm = found.place
            seeds = set(known.get(env, {}).get(arm, ()))
            seeds |= {run.unit.seed for run in found.runs}
            known.setdefault(env, {})[arm] = sorted(seeds)
        plan = replace(plan, known=known)
        plans.write_plan(home, plan)
    return plan, sum(len(found.runs) for found in new)


def unknown(
    home: Path, plan: Plan, others: list[Found], reports: list[Path]
) -> Iterator[Found]:
    """What there is of a study beyond its own finished runs, each seed once."""
    over = {
        (unit.env, unit.arm, unit.seed)
        for unit in plans.units(home, plan)
        if unit.seed in plan.known.get(unit.env, {}).get(unit.arm, ())
        or plans.state_of(unit) == "finished"
    }
    every = (found for report in reports for found in find(plan, report))
    for found in (*others, *every):
        new = [r for r in found.runs if (*found.place, r.unit.seed) not in over]
        over |= {(*found.place, run.unit.seed) for run in new}
        if new:
            yield found._replace(runs=new)


def inherited(folder: Path, plan: Plan) -> list[Found]:
    """What landed in the studies whose runs this one shares."""
    found = []
    for env, arms in plan.shared.items():
        for arm, path in arms.items():
            _, owner, _, _, theirs = Path(path).parts
            for file in curve_files.landed(folder / owner):
                active = curve_files.read_active(file.with_name("acting.csv"))
                runs = [
                    RunResult(
                        plans.Unit(env, theirs, who[2], file), "finished", None, curves,
                        0.0, active.get(who, {}),
                    )
                    for who, curves in curve_files.read_curves(file).items()
                    if who[:2] == (env, theirs)
                ]  # fmt: skip
                found += [Found((env, arm), theirs, runs)] * bool(runs)
    return found


def write(home: Path, plan: Plan, found: Found) -> None:
    """Rows of curves and conditions, under the names that they have in this study."""
    env, arm = found.place
    curves = curve_files.curves_of_runs(env, arm, found.runs)
    needs = [n for n in findings.conditions(plan.study) if n.arm == arm]
    shares = [
        [env, arm, run.unit.seed, need.text, f"{share:.4g}"]
        for run in found.runs
        for need in needs
        for share in [run.active.get(need.text.replace(arm, found.theirs, 1))]
        if share is not None
    ]
    name = hashlib.sha256(curves.encode()).hexdigest()[:12]
    into = home / ELSEWHERE / name
    make_folder(into)
    files = RunFolder(into)
    if shares:
        head = ["env", "arm", "seed", "condition", "share"]
        files.write("acting.csv", curve_files.as_csv(head, shares).encode())
    files.write("curves.csv", curves.encode())
