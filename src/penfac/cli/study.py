"""`penfac study`: define experiments, run them, judge them, report them."""

from pathlib import Path
from typing import Any

import typer

from penfac.cli import arguments
from penfac.cli.app import app, command, print_outcome, reply
from penfac.cli.arguments import if_given, whole
from penfac.cli.help import Group
from penfac.cli.options import (
    Evaluation,
    Json,
    On,
    Process,
    Tracked,
)
from penfac.cli.search_options import Search
from penfac.cli.study_options import (
    AnyFidelity,
    Arms,
    Budget,
    Driver,
    Fidelity,
    Name,
    Out,
    Settings,
    StudySteps,
    Whole,
)
from penfac.errors import ConfigError

PAPER = "paper"  # all studies of the paper, where a study's name stands otherwise

study = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Run experiments, judge them and report them.",
    epilog="""\
penfac study list
penfac study run fig4 --seeds 20
penfac study report studies/fig4-authors
penfac study plan paper""",
)
app.add_typer(study, name="study", rich_help_panel="Study")


@command(study, "list")
def list_studies(json_: Json = False) -> int:
    """List the paper's experiments."""
    from penfac.cli import study_answers
    from penfac.studies.paper import PAPER, paper_study

    def work() -> list[dict[str, Any]]:
        studies = [paper_study(name, "authors") for name in PAPER]
        return [
            {
                "name": s.name,
                "paper": s.paper,
                "title": s.title,
                "arms": len(s.arms),
                "environments": len(s.envs),
                "seeds": s.seeds,
                "steps": s.steps,
            }
            for s in studies
        ]

    return reply(json_, work, study_answers.print_studies)


@command(study, examples="penfac study show fig4 --fidelity tuned")
def show(name: Name, fidelity: Fidelity = "authors", json_: Json = False) -> int:
    """Show what a study runs and which claims it tests."""
    from penfac import terminal
    from penfac.cli import study_answers
    from penfac.studies import spec

    with terminal.reserve_stdout(json_):  # a .py file may print
        found = find_study(name, fidelity)
    return reply(
        json_, lambda: spec.to_table(found), lambda _: study_answers.print_study(found)
    )


@command(study, "tune", examples="penfac study tune fig4 --configs 32 --steps 3e5")
def tune_study(
    name: Name,
    *,
    fidelity: Fidelity = "tuned",
    arms: Arms = None,
    search: Search,
    steps: StudySteps = None,
    on: On = "auto",
    out: Out = Path("studies"),
    stopping: Tracked,
) -> int:
    """Search settings for every arm of a study, with equal effort.

    Writes a settings file for `penfac study run --settings`.
    """
    from penfac import terminal
    from penfac.studies import spec, tuning
    from penfac.training.place import check_place

    check_place(on, None)
    chosen = spec.with_budget(
        find_study(name, fidelity), steps=if_given(whole, steps, "--steps")
    )
    home = out / f"{chosen.name}-tune"
    found, code = tuning.tune_study(
        chosen, search.seed_list(), home, search.asked(), on, stopping.limits(),
        terminal.say, split_names(arms),
    )  # fmt: skip
    done = sum(map(len, found.values()))
    terminal.say(f"{done} of {len(chosen.envs) * len(chosen.arms)} searches are done")
    if done:
        how = f" --fidelity {chosen.fidelity}" * bool(chosen.fidelity)
        settings = home / tuning.FILE
        terminal.say(f"next: penfac study run {name}{how} --settings {settings}")
    return code


@command(
    study,
    examples="""\
penfac study plan paper
penfac study plan paper --fidelity tuned --studies fig1,fig2,fig4 --on device
penfac study plan fig4 --seeds 20""",
)
def plan(
    name: Name,
    *,
    fidelity: AnyFidelity = None,
    settings: Settings = None,
    whole: Whole,
    budget: Budget,
    evaluation: Evaluation,
    driver: Driver,
    json_: Json = False,
) -> int:
    """Show what a study would cost here, or all of them (`paper`).

    The rates are those of runs or of short trials on this machine.
    """
    from penfac import terminal
    from penfac.cli import study_answers, study_campaign
    from penfac.training.limits import Limits

    tell = (lambda _: None) if json_ else terminal.say

    def work() -> list[dict[str, Any]]:
        if name == PAPER:
            chosen = study_campaign.choose(
                fidelity, settings, budget, evaluation, whole, driver
            )
        else:
            refuse_whole(name, whole, ("studies",))
            found = chosen_study(name, fidelity, settings, budget, evaluation)
            seeds = arguments.seed_list(budget.seeds or str(found.seeds))
            chosen = study_campaign.choose_one(found, seeds, driver)
        return study_campaign.make_plan(chosen, whole, driver, Limits(), tell)

    return reply(json_, work, study_answers.print_plan)


@command(
    study,
    examples="""\
penfac study run fig4 --seeds 20
penfac study run mine.toml --on device
penfac study run paper --budget 8h""",
)
def run(
    name: Name,
    *,
    fidelity: AnyFidelity = None,
    arms: Arms = None,
    settings: Settings = None,
    whole: Whole,
    budget: Budget,
    evaluation: Evaluation,
    driver: Driver,
    process: Process,
    json_: Json = False,
) -> int:
    """Run a study or all of them (`paper`), or continue it.

    Complete runs are skipped, others are resumed.
    """
    if name == PAPER:
        from penfac.cli import study_campaign

        if arms is not None:
            raise ConfigError(f"--arms {arms}: is for one study; give --studies")
        chosen_ones = study_campaign.choose(
            fidelity, settings, budget, evaluation, whole, driver
        )
        limits = process.limits()
        return study_campaign.run_campaign(chosen_ones, whole, driver, limits, json_)
    refuse_whole(name, whole, ("studies", "budget", "with_", "trial"))
    from penfac import terminal
    from penfac.cli import study_answers
    from penfac.studies import runner
    from penfac.training.place import check_place

    check_place("auto", driver.folder)
    with terminal.reserve_stdout(json_):  # a .py file may print
        chosen = chosen_study(name, fidelity, settings, budget, evaluation)
    seeds = arguments.seed_list(budget.seeds or str(chosen.seeds))
    folder = driver.folder or "-".join(filter(None, (chosen.name, chosen.fidelity)))
    how = runner.How(
        driver.on, driver.processes, driver.address, driver.mixed, driver.retry,
        split_names(arms),
    )  # fmt: skip
    tell = (lambda _: None) if json_ else terminal.say
    with terminal.reserve_stdout(json_):
        outcome = runner.start(
            chosen, seeds, driver.out / folder, how, process.limits(), tell
        )
    return print_outcome(outcome, outcome.failed, json_, study_answers.OUTCOME)


def refuse_whole(name: str, whole: Whole, refused: tuple[str, ...]) -> None:
    """Refuse options that are about all studies at once."""
    for key in refused:
        if getattr(whole, key):
            raise ConfigError(f"--{key.strip('_')}: is for `paper`, not for {name}")


def chosen_study(
    name: str, fidelity: str | None, settings: Path | None, budget: Budget,
    evaluation: Evaluation,
) -> Any:  # fmt: skip
    """A study with the budget and the settings that were asked for."""
    from penfac.studies import spec, tuning

    found = find_study(name, fidelity or "authors")
    found = spec.with_budget(found, **budget.asked(), **evaluation.asked())
    if settings is None:
        return found
    return tuning.with_settings(found, tuning.read(settings))


def split_names(listed: str | None) -> tuple[str, ...]:
    return () if listed is None else tuple(n.strip() for n in listed.split(","))


def find_study(name: str, fidelity: str) -> Any:
    """Return a study of the paper, or of a file."""
    from penfac.studies import spec
    from penfac.studies.paper import paper_study

    if name.endswith((".toml", ".py")):
        return spec.read(Path(name))
    if name == PAPER:
        raise ConfigError("paper: is all studies; `penfac study plan paper` shows them")
    if "/" in name or Path(name).exists():
        raise ConfigError(
            f"{name}: must be a name from `penfac study list`, a .toml or a .py file"
        )
    return paper_study(name, fidelity)
