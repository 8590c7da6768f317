"""Report every study of a folder, and all their verdicts on one page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penfac.errors import ConfigError, PenfacError
from penfac.machine import usable_cores
from penfac.report.overview import Entry, overview_markdown, overview_page
from penfac.runs.folder import RunFolder
from penfac.runs.storage import make_folder
from penfac.studies import findings, plan, publish, reported
from penfac.studies.paper import PAPER, fidelities_of, paper_study
from penfac.workers import Task, run_tasks

TITLE = "The paper's claims, and what we see"
FAILED = "no report: `penfac study report` of its folder says why"


def holds_studies(folder: Path) -> bool:
    """Whether a folder is none of a study, but has some in it."""
    if (folder / plan.FILE).is_file() or (folder / reported.FILE).is_file():
        return False
    return bool(studies_in(folder))


def studies_in(folder: Path) -> list[Path]:
    """Folders of studies or of reports, in the order of the paper, then by name."""
    found = {
        file.parent.name: file.parent
        for name in (reported.FILE, plan.FILE)
        for file in folder.glob(f"*/{name}")
    }
    known = [f"{name}-{fidelity}" for name in PAPER for fidelity in fidelities_of(name)]
    order = {name: k for k, name in enumerate(known)}
    return sorted(found.values(), key=lambda p: (order.get(p.name, len(order)), p.name))


def find(folder: Path, mixed: bool = False) -> dict[str, Any]:
    """The findings of a study's runs, or of its report where the runs are not kept."""
    if (folder / plan.FILE).is_file():
        return findings.findings(folder, mixed)
    return reported.findings_again(folder)


def publish_all(
    folder: Path, into: Path, mixed: bool, poll: Callable[[], None] = lambda: None
) -> tuple[list[Path], list[Entry]]:
    """Write a report of every study and the page of all; return the files of the latter,
    and what they tell."""
    homes = studies_in(folder)
    if not homes:
        raise ConfigError(f"{folder}: has no study and no report in it")
    tasks = [
        Task(home.name, publish_one, (home, into / home.name, mixed)) for home in homes
    ]
    cores = min(len(usable_cores()), len(tasks))
    codes = dict(run_tasks(tasks, cores, poll))
    entries = entries_of(
        {home.name: told(into / home.name, codes[home.name]) for home in homes}
    )
    return write(into, entries), entries


def publish_one(home: Path, into: Path, mixed: bool) -> int:
    """Write the report of a study, in a worker process."""
    try:
        publish.publish(find(home, mixed), into)
    except PenfacError as error:
        return error.exit_code
    return 0


def told(into: Path, code: int) -> dict[str, Any] | None:
    if code:
        return None
    return json.loads((into / "findings.json").read_text(encoding="utf-8"))


def write(into: Path, entries: list[Entry]) -> list[Path]:
    make_folder(into)
    home = RunFolder(into)
    home.write("index.html", overview_page(TITLE, entries).encode())
    home.write("report.md", overview_markdown(TITLE, entries).encode())
    return [into / "index.html", into / "report.md"]


def entries_of(found: dict[str, dict[str, Any] | None]) -> list[Entry]:
    """An entry for each report; where one is of the paper, also for its other studies."""
    entries = {
        name: Entry(name, f["title"], f"{name}/index.html", f["claims"])
        if f
        else Entry(name, "", None, (), FAILED)
        for name, f in found.items()
    }
    missing = [
        (f"{name}-{fidelity}", paper_study(name, fidelity))
        for name in PAPER
        for fidelity in fidelities_of(name)
    ]
    known = [name for name, _ in missing]
    if not set(known) & set(entries):
        return list(entries.values())
    for name, study in missing:
        claims = [{"words": c.words, "where": c.where} for c in study.claims]
        entries.setdefault(name, Entry(name, study.title, None, claims))
    others = [name for name in entries if name not in known]
    return [entries[name] for name in (*known, *others)]
