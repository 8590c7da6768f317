"""What `penfac study` prints, as text and as JSON."""

import shlex
from typing import Any

from rich.table import Table

from penfac.cli.answers import say_newer
from penfac.studies.runner import StudyOutcome
from penfac.studies.spec import Study
from penfac.terminal import console, say


def print_studies(rows: list[dict[str, Any]]) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else v for v in row.values()))
    console.print(table)


def print_study(study: Study) -> None:
    say(f"{study.name}: {study.title}" + f" ({study.paper})" * bool(study.paper))
    say(study.question)
    say(f"{study.steps:,} steps, {study.seeds} seeds, on {', '.join(study.envs)}")
    for arm in study.arms:
        line = f"  {arm.name}: {arm.algo}, preset {arm.preset}"
        settings = ", ".join(f"{k} = {v}" for k, v in arm.settings.items())
        say(line + f", {settings}" * bool(settings) + f"; {arm.note}" * bool(arm.note))
    for claim in study.claims:
        say(f'"{claim.words}" ({claim.measure} return)')
        for line in claim.compare:
            say(f"  {line}")
        for first, second in claim.changes:
            say(f"  from {first} to {second}")
        for need in claim.needs:
            say(f"  only if {need}")


def outcome_document(outcome: StudyOutcome) -> dict[str, Any]:
    return {
        "study": str(outcome.folder),
        "state": outcome.reason,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 3),
        "runs": outcome.counts,
        "failed": outcome.failed,
    }


def print_outcome(outcome: StudyOutcome) -> None:
    runs = ", ".join(f"{n} {state}" for state, n in outcome.counts.items() if n)
    say(f"{outcome.reason}: {runs}")
    say(f"report: penfac study report {shlex.quote(str(outcome.folder))}")


OUTCOME = (outcome_document, print_outcome)


def format_number(number: float) -> str:
    """Format a number with about four digits: 2,034.1 or 0.0123."""
    return f"{number:,.1f}" if abs(number) >= 100 else f"{number:.4g}"


def progress_table(progress: dict[str, Any]) -> Table:
    done = f"{progress['finished']} of {progress['runs']} runs finished"
    table = Table(title=f"{progress['study']}: {done}")
    for column in ("environment", "arm"):
        table.add_column(column)
    for column in ("finished", "running", "failed", "steps", "return"):
        table.add_column(column, justify="right")
    for row in progress["arms"]:
        value = "-" if row["return"] is None else format_number(row["return"])
        if row["std"] is not None:
            value += f" +- {format_number(row['std'])}"
        table.add_row(
            row["env"], row["arm"], f"{row['finished']}/{row['seeds']}", str(row["running"]),
            str(row["failed"]), f"{row['steps']:.0%}", value,
        )  # fmt: skip
    return table


def print_progress(progress: dict[str, Any]) -> None:
    console.print(progress_table(progress))
    say_newer(progress["newer"])


def print_report(report: dict[str, Any]) -> None:
    for claim in report["findings"]["claims"]:
        why = f"{claim['reason']}; {claim['budget']}"
        say(f'{claim["verdict"]}: "{claim["words"]}" ({why})')
        if claim["seeds_needed"] is not None:
            say(f"  {claim['power']}")
        if len(set(claim["by_measure"].values())) > 1:
            say(f"  {claim['sensitivity']}")
        for warning in claim["warnings"]:
            say(f"  warning: {warning}")
    say_newer(report["findings"]["newer"])
    say(f"page: {report['files'][0]}")
