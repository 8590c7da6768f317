"""All studies of the paper at once: what it costs, and running it."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penfac.cli import arguments, study_answers
from penfac.cli.app import print_outcome
from penfac.cli.arguments import if_given
from penfac.cli.options import Evaluation
from penfac.cli.study_bars import Bars
from penfac.cli.study_options import Budget, Driver, Whole
from penfac.errors import ConfigError
from penfac.studies import runner, spec
from penfac.studies.campaign import elsewhere, members, run
from penfac.studies.campaign.members import BOTH, Member
from penfac.studies.campaign.run import Ask
from penfac.training.limits import Limits
from penfac.training.place import check_place

TRIAL = 10.0  # seconds


@dataclass
class Chosen:
    """The studies of a command, and the folder that holds theirs."""

    listed: list[Member]
    folder: Path


def choose(
    fidelity: str | None, settings: Path | None, budget: Budget, evaluation: Evaluation,
    whole: Whole, driver: Driver,
) -> Chosen:  # fmt: skip
    """The campaign of the paper."""
    check_place("auto", driver.folder)
    only = whole.studies and tuple(n.strip() for n in whole.studies.split(","))
    if settings is not None and not settings.is_dir():
        raise ConfigError(
            f"--settings {settings}: must be a folder with STUDY-FIDELITY/settings.toml"
        )
    listed = members.members(
        fidelity or BOTH, only or (), if_given(seed_list, budget.seeds, "--seeds"),
        settings, **budget.asked(), **evaluation.asked(),
    )  # fmt: skip
    return Chosen(listed, driver.out / (driver.folder or members.NAME))


def choose_one(study: spec.Study, seeds: tuple[int, ...], driver: Driver) -> Chosen:
    """A study alone, in the folder in which `penfac study run` would run it."""
    member = Member(study, seeds)
    return Chosen([member], driver.out)


def seed_list(text: str, option: str) -> tuple[int, ...]:
    return arguments.seed_list(text)


def ask_of(whole: Whole, needs_hours: bool) -> Ask:
    budget = if_given(arguments.duration, whole.budget, "--budget")
    usual = TRIAL if needs_hours or budget else 0.0
    given = if_given(arguments.duration, whole.trial, "--trial")
    reports = [r for folder in whole.with_ for r in elsewhere.reports_in(folder)]
    return Ask(budget, usual if given is None else given, tuple(reports))


def how_of(driver: Driver) -> runner.How:
    return runner.How(
        driver.on, driver.processes, driver.address, driver.mixed, driver.retry
    )


def make_plan(
    chosen: Chosen, whole: Whole, driver: Driver, limits: Limits, tell: Any
) -> list[dict[str, Any]]:
    """What each study costs, in the order in which they run."""
    ask = ask_of(whole, needs_hours=True)
    rows = run.plan_all(chosen.listed, chosen.folder, how_of(driver), limits, ask, tell)
    return [study_answers.plan_document(row) for row in rows]


def run_campaign(
    chosen: Chosen, whole: Whole, driver: Driver, limits: Limits, as_json: bool
) -> int:
    """Run all studies, or go on with them."""
    from penfac import terminal

    ask, how = ask_of(whole, needs_hours=False), how_of(driver)
    tell = (lambda _: None) if as_json else terminal.say
    with terminal.reserve_stdout(as_json):
        rows = run.plan_all(chosen.listed, chosen.folder, how, limits, ask, tell)
        with Bars(rows, silent=as_json) as bars:
            outcome = run.run_all(
                rows, chosen.folder, how, limits, ask, bars.tell, bars.advanced
            )  # failures of single runs are told at the end
    errors = outcome.errors | {
        f"{name}: {who}": why
        for name, study in outcome.studies.items()
        for who, why in study.failed.items()
    }
    return print_outcome(outcome, errors, as_json, (document, show))


def document(outcome: run.CampaignOutcome) -> dict[str, Any]:
    return {
        "campaign": str(outcome.folder),
        "state": outcome.reason,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
        "studies": {name: s.counts for name, s in outcome.studies.items()},
        "errors": outcome.errors,
    }


def show(outcome: run.CampaignOutcome) -> None:
    from penfac import terminal

    total = {
        state: sum(study.counts[state] for study in outcome.studies.values())
        for state in ("finished", "running", "failed", "missing")
    }
    runs = ", ".join(f"{n} {state}" for state, n in total.items() if n) or "no run"
    terminal.say(f"{outcome.reason}: {runs} in {len(outcome.studies)} studies")
    folder = shlex.quote(str(outcome.folder))
    terminal.say(f"report: penfac study report {folder}")
