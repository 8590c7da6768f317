"""What is still to run of each study of a campaign, and in which order."""

from typing import NamedTuple

from penfac.runs.status import read_status
from penfac.studies import plan as plans
from penfac.studies.campaign.members import Member
from penfac.studies.campaign.rates import Rates
from penfac.studies.campaign.sharing import contents
from penfac.studies.plan import Plan


class Job(NamedTuple):
    """A run that is to come, or to go on."""

    env: str
    arm: str
    algo: str
    preset: str
    what: str  # its content: equal for runs that are the same
    seed: int
    steps: int


class Row(NamedTuple):
    """A study of the schedule."""

    member: Member
    plan: Plan
    jobs: list[Job]  # that no study before it makes
    shared: int  # runs that another study makes or has made
    seconds: float | None  # None: no rate is known
    size: float | None  # bytes
    sources: tuple[str, ...]  # of the rates
    fits: bool = True  # into the budget

    @property
    def verdicts(self) -> int:
        return len(self.member.study.claims)


Done = set[tuple[str, int]]  # contents and seeds


def jobs_of(member: Member, plan: Plan) -> list[Job]:
    """Every run of a study, done or not."""
    what = contents(plan)
    arms = [(env, arm) for env in plan.study.envs for arm in plan.study.arms]
    return [
        Job(
            env, arm.name, arm.algo, arm.preset, what[env, arm.name], seed,
            plan.study.steps_on(env),
        )
        for env, arm in arms
        for seed in plans.seeds_of(plan, arm)
    ]  # fmt: skip


def done_in(folder, plan: Plan) -> Done:
    """Runs of a study that have ended, here or elsewhere: nobody runs them again."""
    what = contents(plan)
    known = {
        (what[env, arm], seed)
        for env, arms in plan.known.items()
        for arm, seeds in arms.items()
        for seed in seeds
        if (env, arm) in what
    }
    if not (folder / plans.FILE).is_file():
        return known
    return known | {
        (what[unit.env, unit.arm], unit.seed)
        for unit in plans.units(folder, plan)
        if is_over(unit)
    }


def is_over(unit: plans.Unit) -> bool:
    status = read_status(unit.path)
    return status.state == "finished" or status.lasting_failure is not None


def schedule(
    planned: list[tuple[Member, Plan]], done: Done, rates: Rates, budget: float | None
) -> list[Row]:
    """Studies in the order of verdicts per hour that is still to run, where runs that an
    earlier study makes cost nothing; within a budget, those that fit whole come first."""
    left = [(member, plan, jobs_of(member, plan)) for member, plan in planned]
    rows, covered, spent = [], set(done), 0.0
    while left:
        choices = [row_of(*who, covered, rates) for who in left]
        room = None if budget is None else budget - spent
        fitting = [fits(row, room) for row in choices]
        best = max(range(len(left)), key=lambda k: (fitting[k], worth(choices[k]), -k))
        row = choices[best]._replace(fits=fitting[best])
        rows.append(row)
        spent += row.seconds or 0.0
        covered |= {(job.what, job.seed) for job in row.jobs}
        del left[best]
    return rows


def row_of(
    member: Member, plan: Plan, jobs: list[Job], covered: Done, rates: Rates
) -> Row:
    todo = [job for job in jobs if (job.what, job.seed) not in covered]
    found = rates.estimate(todo, plan.study.envs)
    return Row(member, plan, todo, len(jobs) - len(todo), *found)


def fits(row: Row, room: float | None) -> bool:
    return room is None or (row.seconds is not None and row.seconds <= room)


def worth(row: Row) -> float:
    """Verdicts per second; per step where no rate is known."""
    cost = row.seconds
    if cost is None:
        cost = sum(job.steps for job in row.jobs)
    return row.verdicts / cost if cost else float("inf")
