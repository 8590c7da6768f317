"""Run the studies of a campaign in turn; the same call goes on where it was killed."""

import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from penfac.errors import ConfigError, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import RunConfig
from penfac.runs.storage import make_folder
from penfac.studies import plan as plans
from penfac.studies import runner
from penfac.studies.campaign import elsewhere, rates, sharing, work
from penfac.studies.campaign.elsewhere import Report
from penfac.studies.campaign.members import Member, Progress, Tell
from penfac.studies.campaign.rates import Key, Rates
from penfac.studies.campaign.work import Row
from penfac.studies.plan import Plan
from penfac.studies.runner import How, StudyOutcome
from penfac.training.limits import Limits

MANY = 3  # environments: of a study with more the first alone is tried out


@dataclass(frozen=True)
class Ask:
    """What a plan is made from, beside the studies."""

    budget: float | None = None  # seconds
    trial: float = 0.0  # seconds of each trial; 0: none
    reports: tuple[Report, ...] = ()  # curves that were made elsewhere


@dataclass
class CampaignOutcome:
    """How the studies stand when the driver leaves."""

    folder: Path
    exit_code: int = 0
    reason: str = "finished"
    seconds: float = 0.0
    studies: dict[str, StudyOutcome] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # study -> why


# --- planning ----------------------------------------------------------------------------


def plan_all(
    members: list[Member], folder: Path, how: How, limits: Limits, ask: Ask, tell: Tell
) -> list[Row]:
    """The studies in the order in which they run, with what each costs. Checks all that
    can be wrong; writes nothing but the rates of trials."""
    for member in members:
        runner.check_how(member.study, member.seeds, how)
    on = "device" if how.on == "device" else "auto"
    begun = sharing.begun(folder, members, on, limits.command)
    planned: list[tuple[Member, Plan]] = []
    done: work.Done = set()
    others = dict(begun)
    for member in members:
        plan = begun.get(member.name) or plans.join(
            folder / member.name, sharing.planned(member, on, limits.command)
        )
        others.setdefault(member.name, plan)
        planned.append((member, plan))
        done |= seen_elsewhere(plan, ask)
    for name, plan in others.items():
        done |= work.done_in(folder / name, plan)
    found = rates_of(folder, planned, done, how, ask, tell)
    return work.schedule(planned, done, found, ask.budget)


def seen_elsewhere(plan: Plan, ask: Ask) -> work.Done:
    """The runs of a plan that reports have."""
    what = sharing.contents(plan) if ask.reports else {}
    return {
        (what[found.place], run.unit.seed)
        for report in ask.reports
        for found in elsewhere.find(plan, report)
        for run in found.runs
    }


def rates_of(
    folder: Path, planned: list[tuple[Member, Plan]], done: work.Done, how: How, ask: Ask,
    tell: Tell,
) -> Rates:  # fmt: skip
    """Rates of finished runs, else of trials; those that are missing are tried out."""
    on = "device" if how.on == "device" else "auto"
    known = rates.read_trials(folder) | rates.of_runs(folder)
    found = Rates(known, on, how.processes or len(usable_cores()))
    missing = untried(planned, done, found) if ask.trial else {}
    if missing and on == "device" and not runs_on_accelerator():
        tell("# there is no GPU here: hours on a device are measured where it is")
        return found
    if missing:
        many = f"{len(missing)} trials of {ask.trial:g} s"
        tell(f"# {many} measure rates that are not known on this machine")
        tried = rates.try_out(missing, ask.trial, found)
        trials = rates.read_trials(folder) | tried
        make_folder(folder)
        rates.write_trials(folder, trials)
        found = found._replace(known=trials | known)
        for env, algo, preset, _ in missing.keys() - tried.keys():
            tell(f"# {algo} ({preset}) on {env}: made no two updates in its trial")
    return found


def untried(
    planned: list[tuple[Member, Plan]], done: work.Done, known: Rates
) -> dict[Key, RunConfig]:
    """A config of each kind of run whose rate is not known; of a study with many
    environments the first alone."""
    asked: dict[Key, RunConfig] = {}
    for member, plan in planned:
        envs = plan.study.envs
        for job in work.jobs_of(member, plan):
            key = job.env, job.algo, job.preset, known.on
            many = len(envs) > MANY and job.env != envs[0]
            if many or key in known.known or key in asked:
                continue
            if (job.what, job.seed) not in done:
                asked[key] = config_of(plan, job, known.on)
    return asked


def config_of(plan: Plan, job: work.Job, on: str) -> RunConfig:
    """The run of a job; on a device, the program that it is part of."""
    plan = replace(plan, shared={}, known={})
    if on == "device":
        return next(
            g.config
            for g in plans.groups(Path(), plan)
            if (g.config.env, g.config.algo) == (job.env, job.algo)
        )
    found = plans.units(Path(), plan)
    unit = next(u for u in found if (u.env, u.arm) == (job.env, job.arm))
    return unit.run.config


# --- running -----------------------------------------------------------------------------


def run_all(
    rows: list[Row], folder: Path, how: How, limits: Limits, ask: Ask, tell: Tell,
    progress: Progress,
) -> CampaignOutcome:  # fmt: skip
    """Run the rows in their order, or go on with them."""
    began, outcome = time.monotonic(), CampaignOutcome(folder)
    make_folder(folder)
    members = [row.member for row in rows]
    on = "device" if how.on == "device" else "auto"
    others = sharing.begun(folder, members, on, limits.command)
    for row in rows:
        name = row.member.name
        plan = sharing.with_shares(name, row.plan, others)
        plan, landed = elsewhere.land(folder, name, plan, list(ask.reports))
        others[name] = plan
        if landed:
            tell(f"{name}: {landed} runs were made elsewhere")
        left = time_left(began, limits, ask)
        if left is not None and left <= 0:
            outcome.reason = "stopped: the time is used up"
            continue  # curves land all the same
        if row.jobs:
            tell(f"{name}: {len(row.jobs)} runs to go{expected(row)}")
        within = dataclasses.replace(limits, stop_after=left)
        done = run_one(row, plan, others, folder, how, within, progress)
        if isinstance(done, PenfacError):
            outcome.errors[name] = str(done)
            outcome.exit_code = outcome.exit_code or done.exit_code
            continue
        outcome.studies[name] = done
        if done.reason.startswith("stopped"):
            outcome.reason = done.reason
            if done.exit_code not in (0, runner.SOME_FAILED):
                outcome.exit_code = done.exit_code
                break
        outcome.exit_code = outcome.exit_code or done.exit_code
    outcome.seconds = time.monotonic() - began
    return outcome


def expected(row: Row) -> str:
    if row.seconds is None:
        return ""
    return f", {runner.duration(row.seconds)} expected"


def time_left(began: float, limits: Limits, ask: Ask) -> float | None:
    given = [t for t in (limits.stop_after, ask.budget) if t is not None]
    return min(given) - (time.monotonic() - began) if given else None


def run_one(
    row: Row, plan: Plan, others: sharing.Plans, folder: Path, how: How, limits: Limits,
    progress: Progress,
) -> StudyOutcome | PenfacError:  # fmt: skip
    """One study, after what it shares; an error of one does not stop the others."""
    name = row.member.name
    try:
        for owner, arms in sharing.owners_of(plan).items():
            if owner not in others:
                raise ConfigError(
                    f"{folder / name}: shares runs of {owner}, which is gone; restore "
                    f"{folder / owner}, or remove {folder / name} too"
                )
            done = run_owner(others[owner], arms, folder / owner, how, limits)
            if done is not None and done.reason.startswith("stopped"):
                return done
        return runner.start(
            row.member.study, row.member.seeds, folder / name, how, limits, silent,
            lambda share, left: progress(name, share, left), plan.shared,
        )  # fmt: skip
    except PenfacError as error:
        return error


def silent(text: str) -> None:
    """Of single runs nothing is told: there are thousands."""


def run_owner(
    plan: Plan, arms: set[str], home: Path, how: How, limits: Limits
) -> StudyOutcome | None:
    """The runs of these arms, if one of them is due."""
    units = [u for u in plans.units(home, plan) if u.ours and u.arm in arms]
    if not any(runner.is_due(unit, how.retry) for unit in units):
        return None
    if how.on == "device":  # an algorithm's arms are one program
        algos = {arm.algo for arm in plan.study.arms if arm.name in arms}
        arms = {arm.name for arm in plan.study.arms if arm.algo in algos}
    only = dataclasses.replace(how, arms=tuple(sorted(arms)))
    return runner.start(plan.study, plan.seeds, home, only, limits, silent)
