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


class Report(NamedTuple):
    """The complete runs of a report, by the content and the name of their arms."""

    study: str | None
    by_content: dict[str, dict[str, list[RunResult]]]
    # it has the settings of the first environment alone, as reports once had
    first_only: bool


def reports_in(folder: Path) -> list[Report]:
    """The report in a folder, and those in folders below it."""
    homes = [file.parent for file in sorted(folder.rglob(reported.FILE))]
    if not homes:
        raise ConfigError(f"--with {folder}: has no report (no {reported.FILE})")
    made = [reported.read_made(home) for home in homes]
    return [read(found) for found in made if found is not None]


def read(made: reported.Made) -> Report:
    envs = {run.unit.env for run in made.runs}
    contents: dict[Place, str] = {}
    found: dict[str, dict[str, list[RunResult]]] = {}
    for run in made.runs:
        env, name = place = run.unit.env, run.unit.arm
        if run.state != "finished" or not run.curves or name not in made.arms:
            continue
        if run.mean.steps[-1] < made.steps_on(env):
            continue
        if place not in contents:
            contents[place] = told_content(made, env, name)
        found.setdefault(contents[place], {}).setdefault(name, []).append(run)
    old = len(envs) > 1 and any("on" not in arm for arm in made.arms.values())
    return Report(made.document.get("name"), found, old)


def find(plan: Plan, report: Report) -> list[Found]:
    """Complete runs of a report that are runs of the plan."""
    found, study = [], plan.study
    if report.first_only and report.study != study.name:
        return []
    for env, arm in ((e, a) for e in study.envs for a in study.arms):
        told = study.envs[0] if report.first_only else env
        what = planned_content(plan, env, arm, told)
        wanted = set(plans.seeds_of(plan, arm))
        for theirs, runs in report.by_content.get(what, {}).items():
            own = [run for run in runs if run.unit.seed in wanted]
            if own:
                found.append(Found((env, arm.name), theirs, own))
    return found


def planned_content(plan: Plan, env: str, arm: Arm, told: str) -> str:
    """Of an arm, with the settings that it has on the environment that was told of."""
    config = plans.arm_config(plan, env, arm)
    settings = to_values(plans.arm_config(plan, told, arm).settings)
    judged = (config.eval_every, config.eval_episodes)
    return as_content(env, config.algo, settings, config.steps, judged)


def told_content(made: reported.Made, env: str, name: str) -> str:
    """What the files of a report say of the runs of an arm."""
    arm, document = made.arms[name], made.document
    settings = settings_of(arm["algo"]).earlier | arm["config"]
    settings |= arm.get("on", {}).get(env, {})
    every = document.get("env_eval_every", {}).get(env, document["eval_every"])
    judged = (every, document["eval_episodes"])
    return as_content(env, arm["algo"], settings, made.steps_on(env), judged)


def as_content(
    env: str, algo: str, settings: dict[str, Any], steps: int, judged: tuple[int, int]
) -> str:
    read = reported.read_by(json.loads(json.dumps(settings)))
    return json.dumps([env, algo, read, steps, judged], sort_keys=True)


# --- landing -----------------------------------------------------------------------------


def land(
    folder: Path, name: str, plan: Plan, reports: list[Report]
) -> tuple[Plan, int]:
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
    home: Path, plan: Plan, others: list[Found], reports: list[Report]
) -> Iterator[Found]:
    """What there is of a study beyond its own finished runs, each seed once."""
    wanted = {
        (unit.env, unit.arm, unit.seed)
        for unit in plans.units(home, plan)
        if unit.seed not in plan.known.get(unit.env, {}).get(unit.arm, ())
        and plans.state_of(unit) != "finished"
    }
    every = (found for report in reports for found in find(plan, report))
    for found in (*others, *every):
        new = [run for run in found.runs if (*found.place, run.unit.seed) in wanted]
        wanted -= {(*found.place, run.unit.seed) for run in new}
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
