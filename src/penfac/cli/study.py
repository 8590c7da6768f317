"""`penfac study`: define experiments, run them, judge them, report them."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from penfac.cli import arguments
from penfac.cli.app import app, command, print_outcome, reply
from penfac.cli.arguments import if_given, whole
from penfac.cli.groups import argument, flag, option
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
    WHAT,
    Arms,
    Budget,
    Driver,
    Fidelity,
    Folder,
    Mixed,
    Name,
    Out,
    StudySteps,
)
from penfac.errors import ConfigError

study = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Run experiments, judge them and report them.",
    epilog="""\
penfac study list
penfac study run fig4 --seeds 20
penfac study report studies/fig4-authors""",
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
penfac study run fig4 --seeds 20
penfac study run mine.toml --on device""",
)
def run(
    name: Name,
    *,
    fidelity: Fidelity = "authors",
    arms: Arms = None,
    settings: Annotated[
        Path | None,
        option("FILE", "Settings that `penfac study tune` wrote.", under=WHAT),
    ] = None,
    budget: Budget,
    evaluation: Evaluation,
    driver: Driver,
    process: Process,
    json_: Json = False,
) -> int:
    """Run a study, or continue it.

    Complete runs are skipped, others are resumed.
    """
    from penfac import terminal
    from penfac.cli import study_answers
    from penfac.studies import runner, spec, tuning
    from penfac.training.place import check_place

    check_place("auto", driver.folder)
    with terminal.reserve_stdout(json_):  # a .py file may print
        chosen = spec.with_budget(
            find_study(name, fidelity), **budget.asked(), **evaluation.asked()
        )
    if settings is not None:
        chosen = tuning.with_settings(chosen, tuning.read(settings))
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


@command(study, examples="penfac study status studies/fig4-authors --watch")
def status(
    folder: Folder,
    watch: Annotated[bool, flag("Repeat every two seconds.")] = False,
    json_: Json = False,
) -> int:
    """Show the progress of a study, arm by arm."""
    from penfac.cli import study_answers
    from penfac.studies import progress

    work = lambda: progress.read_progress(folder)  # noqa: E731
    if not watch or json_:
        return reply(json_, work, study_answers.print_progress)
    from rich.live import Live

    from penfac import terminal

    with Live(console=terminal.console, refresh_per_second=2) as live:
        while True:
            found = work()
            live.update(study_answers.progress_table(found))
            if not found["running"] and not found["missing"]:
                return 0
            time.sleep(2)


@command(study, examples="penfac study report studies/fig4-authors")
def report(
    folder: Folder,
    into: Annotated[
        Path | None, option("FOLDER", "Folder to write.  [default: FOLDER/report]")
    ] = None,
    with_: Annotated[
        Path | None, option("FILE", "A curves.csv of runs that are not here.", "--with")
    ] = None,
    mixed: Mixed = False,
    json_: Json = False,
) -> int:
    """Write verdicts, figures, a page and Markdown of a study.

    A study that is not complete is reported as far as it is. The folder of a report
    (made.json, curves.csv) is reported again, by today's claims.
    """
    from penfac.cli import study_answers
    from penfac.studies import publish

    def work() -> dict[str, Any]:
        found = find_findings(folder, mixed, with_)
        files = publish.publish(found, into or folder / "report")
        return {"files": [str(f) for f in files], "findings": found}

    return reply(json_, work, study_answers.print_report)


def find_findings(folder: Path, mixed: bool, with_: Path | None) -> dict[str, Any]:
    """Of a study's runs, or of a report where the runs are not kept."""
    from penfac.studies import findings, plan, reported

    if (folder / plan.FILE).is_file() or not (folder / reported.FILE).is_file():
        return findings.findings(folder, mixed, with_)
    if with_ is not None:
        raise ConfigError(
            f"--with {with_}: {folder} is a report; give the folder of its study"
        )
    return reported.findings_again(folder)


@command(study, examples="penfac study claims results --into docs/claims.md")
def claims(
    results: Annotated[
        Path, argument("RESULTS", "Folder of reports, STUDY-FIDELITY each.")
    ] = Path("results"),
    into: Annotated[
        Path | None, option("FILE", "Write the page.  [default: print it]")
    ] = None,
) -> int:
    """List the paper's sentences with their verdicts, from reports."""
    from penfac.runs.storage import storage
    from penfac.studies.ledger import claims_page

    page = claims_page(results)
    if into is None:
        sys.stdout.write(page)
        return 0
    with storage(into):
        into.write_text(page, encoding="utf-8")
    return 0


def split_names(listed: str | None) -> tuple[str, ...]:
    return () if listed is None else tuple(n.strip() for n in listed.split(","))


def find_study(name: str, fidelity: str) -> Any:
    """Return a study of the paper, or of a file."""
    from penfac.studies import spec
    from penfac.studies.paper import paper_study

    if name.endswith((".toml", ".py")):
        return spec.read(Path(name))
    if "/" in name or Path(name).exists():
        raise ConfigError(
            f"{name}: must be a name from `penfac study list`, a .toml or a .py file"
        )
    return paper_study(name, fidelity)
