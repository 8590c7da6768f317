"""Runs that several studies of a campaign need: one study makes them, the others point.

Two arms have the same runs if everything that a run learns from, and is evaluated by, is
the same: their names are not.
"""

import json
import os
from pathlib import Path

from msgspec.structs import replace

from penfac.runs.folder import folder_name
from penfac.studies import plan as plans
from penfac.studies.campaign.members import Member
from penfac.studies.plan import Plan
from penfac.studies.spec import Arm

Plans = dict[str, Plan]  # by the name of the study's folder


def content(plan: Plan, env: str, arm: Arm) -> str:
    """What an arm's runs learn from and are evaluated by."""
    config = plans.arm_config(plan, env, arm)
    kept = config.identity() | {"steps": config.steps}
    return json.dumps(
        {k: v for k, v in kept.items() if k not in ("seed", "arm")}, sort_keys=True
    )


def contents(plan: Plan) -> dict[tuple[str, str], str]:
    """The content of every arm, by environment and arm."""
    return {
        (env, arm.name): content(plan, env, arm)
        for env in plan.study.envs
        for arm in plan.study.arms
    }


def begun(folder: Path, members: list[Member], on: str, command: str) -> Plans:
    """The plans in a campaign's folder; those of `members` with the seeds to come."""
    found = {
        file.parent.name: plans.read_plan(file.parent)
        for file in sorted(folder.glob(f"*/{plans.FILE}"))
    }
    for member in members:
        if member.name in found:
            asked = planned(member, found[member.name].on, command)
            found[member.name] = plans.join(folder / member.name, asked)
    return found


def planned(member: Member, on: str, command: str) -> Plan:
    return plans.make_plan(member.study, member.seeds, on, command)


def with_shares(name: str, plan: Plan, others: Plans) -> Plan:
    """A plan whose arms point to a study that makes the same runs; a plan that has begun
    keeps what it has."""
    if name in others:
        return others[name]
    owners: dict[str, list[tuple[str, Plan, Arm, str]]] = {}
    for owner, other in others.items():
        for (env, arm), what in contents(other).items():
            own = next(a for a in other.study.arms if a.name == arm)
            if arm not in other.shared.get(env, {}):
                owners.setdefault(what, []).append((owner, other, own, env))
    shared: dict[str, dict[str, str]] = {}
    for (env, arm), what in contents(plan).items():
        mine = next(a for a in plan.study.arms if a.name == arm)
        wanted = set(plans.seeds_of(plan, mine))
        for owner, other, own, _ in owners.get(what, []):
            if wanted <= set(plans.seeds_of(other, own)):
                home = Path(os.pardir, owner, folder_name(env), own.algo, own.name)
                shared.setdefault(env, {})[arm] = home.as_posix()
                break
    return replace(plan, shared=shared)


def owners_of(plan: Plan) -> dict[str, set[str]]:
    """The studies whose runs a plan points to, with the arms."""
    found: dict[str, set[str]] = {}
    for arms in plan.shared.values():
        for path in arms.values():
            _, owner, _, _, arm = Path(path).parts  # ../STUDY/ENV/ALGO/ARM
            found.setdefault(owner, set()).add(arm)
    return found
