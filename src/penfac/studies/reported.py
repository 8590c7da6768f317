"""The files of a report, which outlive the runs that it was made of.

`curves.csv`, `made.json` and, where a claim rests on something, `acting.csv` are enough to
judge today's claims by them, and to write the whole report again.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from penfac.errors import ConfigError, CorruptFile
from penfac.settings.configs import to_values
from penfac.settings.registry import settings_of
from penfac.studies import findings, plan, spec
from penfac.studies.curve_files import read_active, read_curves
from penfac.studies.paper import FIDELITIES, PAPER, paper_study
from penfac.studies.plan import Unit
from penfac.studies.run_results import RunResult
from penfac.studies.spec import Arm, Study

FILE = "made.json"
# settings that one way to collect alone reads
UNREAD = {
    "episodes": ("worlds", "steps_per_world"),
    "steps": ("episodes_per_update", "min_steps_per_update"),
}
COPIED = (  # from made.json to the findings
    "fidelity", "command", "created", "penfac", "versions", "eval_every",
    "eval_episodes",
)  # fmt: skip


class Made(NamedTuple):
    """What a report's files say of the runs they were made of."""

    steps: int
    arms: dict[str, dict[str, Any]]
    runs: list[RunResult]
    document: dict[str, Any] = {}  # noqa: RUF012  made.json

    def steps_on(self, env: str) -> int:
        return self.document.get("env_steps", {}).get(env, self.steps)

    def budget_of(self, study: Study) -> Study:
        """The study with the steps of these runs."""
        other = self.document.get("env_steps", {})
        return replace(study, steps=self.steps, env_steps=other)


def read_made(folder: Path) -> Made | None:
    """None where there is no report of that study."""
    file = folder / FILE
    if not file.is_file():
        return None
    curves, acting = folder / "curves.csv", folder / "acting.csv"
    try:
        made = json.loads(file.read_text(encoding="utf-8"))
        states = {(e, a, s): state for e, a, s, state in made["unfinished"]}
        errors = {(e, a, s): error for e, a, s, error in made.get("errors", [])}
        arms = {arm["name"]: arm for arm in made["arms"]}
        steps = int(made["steps"])
    except (OSError, ValueError, LookupError, TypeError):
        raise corrupt(file) from None
    told, known = read_active(acting), read_curves(curves)
    runs = []
    for who in dict.fromkeys([*known, *states]):
        unit, state = Unit(*who, curves), states.get(who, "finished")
        active = told.get(who, {})
        curves_of, error = known.get(who, {}), errors.get(who)
        runs.append(RunResult(unit, state, error, curves_of, 0.0, active))
    return Made(steps, arms, runs, made)


def findings_again(folder: Path) -> dict[str, Any]:
    """The findings of a report by its files and by today's claims."""
    made = read_made(folder)
    if made is None:
        raise ConfigError(f"{folder}: has neither a study nor a report ({FILE})")
    study = made.budget_of(study_of(folder / FILE, made.document))
    try:
        facts = {key: made.document[key] for key in COPIED}
        facts["env_eval_every"] = made.document.get("env_eval_every", {})
        arms = [{"settings": {}, "on": {}, **arm} for arm in made.arms.values()]
        facts |= {key: made.document.get(key) for key in ("cost", "remark", "study")}
        facts |= {"folder": str(folder), "changed": changed_arms(study, made)}
        return findings.judged(study, made.runs, arms, facts)
    except (LookupError, TypeError, AttributeError):
        raise corrupt(folder / FILE) from None


def study_of(file: Path, made: dict[str, Any]) -> Study:
    """The paper's study as it is today, or the one that the report kept."""
    name, fidelity = made.get("name"), made.get("fidelity")
    if name in PAPER and fidelity in FIDELITIES:
        return paper_study(name, fidelity)
    if "study" not in made:
        raise ConfigError(
            f"{file}: an earlier penfac wrote it, without its claims; make the report of "
            "its study folder again"
        )
    try:
        return spec.of_table(made["study"])
    except (LookupError, TypeError, ValueError, AttributeError, ConfigError):
        raise corrupt(file) from None


# --- settings, then and now --------------------------------------------------------------


def changed_arms(study: Study, made: Made) -> list[str]:
    """Arms whose runs had another config than the study has today."""
    planned = plan.make_plan(study, (0, 1), "auto", "")
    return [
        arm.name
        for arm in study.arms
        if arm.name in made.arms and changed(planned, arm, made.arms[arm.name])
    ]


def changed(planned: plan.Plan, arm: Arm, there: dict[str, Any]) -> bool:
    today = to_values(plan.arm_config(planned, planned.study.envs[0], arm).settings)
    then = {**settings_of(arm.algo).earlier, **there["config"]}
    return there["algo"] != arm.algo or read_by(today) != read_by(then)


def read_by(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that a run reads."""
    unread = UNREAD.get(config.get("collect", ""), ())
    return {key: value for key, value in config.items() if key not in unread}


def corrupt(file: Path) -> CorruptFile:
    return CorruptFile(f"{file}: is not a {FILE} that penfac wrote")
