"""`penfac study status`, `report` and `claims`: how studies stand, and what they found."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

from penfac.cli.app import command, reply
from penfac.cli.groups import argument, flag, option
from penfac.cli.options import Json
from penfac.cli.study import PAPER, study
from penfac.cli.study_options import Folder, Mixed
from penfac.errors import ConfigError


@command(
    study,
    examples="""\
penfac study status studies/fig4-authors --watch
penfac study status paper""",
)
def status(
    folder: Folder,
    watch: Annotated[bool, flag("Repeat every two seconds.")] = False,
    json_: Json = False,
) -> int:
    """Show the progress of a study, arm by arm, or of all studies in a folder."""
    from penfac.cli import study_answers
    from penfac.studies import progress
    from penfac.studies.campaign import report as whole

    folder = find_folder(folder)
    if whole.holds_studies(folder):
        every = lambda: progress.read_all(folder)  # noqa: E731
        return reply(json_, every, study_answers.print_all_progress)
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


@command(
    study,
    examples="""\
penfac study report studies/fig4-authors
penfac study report paper
penfac study report results --into build/paper""",
)
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
    (made.json, curves.csv) is reported again, by today's claims. Of a folder of studies
    or of reports, one page has every verdict and links a page for each.
    """
    from penfac.cli import study_answers
    from penfac.studies import publish
    from penfac.studies.campaign import report as whole

    folder = find_folder(folder)
    if whole.holds_studies(folder):
        if with_ is not None:
            raise ConfigError(f"--with {with_}: is for one study, not for {folder}")
        return reply(
            json_,
            lambda: report_all(folder, into or folder / "report", mixed),
            study_answers.print_all_reports,
        )

    def work() -> dict[str, Any]:
        found = find_findings(folder, mixed, with_)
        files = publish.publish(found, into or folder / "report")
        return {"files": [str(f) for f in files], "findings": found}

    return reply(json_, work, study_answers.print_report)


def find_folder(folder: Path) -> Path:
    """The folder, or that of the campaign where its name is given."""
    if folder == Path(PAPER) and not folder.exists():
        return Path("studies") / PAPER
    return folder


def report_all(folder: Path, into: Path, mixed: bool) -> dict[str, Any]:
    from penfac.studies.campaign import report as whole

    files, entries = whole.publish_all(folder, into, mixed)
    return {
        "files": [str(file) for file in files],
        "studies": [
            {"study": e.name, "report": e.link, "error": e.error, "claims": e.claims}
            for e in entries
        ],
    }


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

    page = claims_page(results, None if into is None else into.parent)
    if into is None:
        sys.stdout.write(page)
        return 0
    with storage(into):
        into.write_text(page, encoding="utf-8")
    return 0
