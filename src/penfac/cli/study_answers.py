"""What `penfac study` prints, as text and as JSON."""

import shlex
from typing import Any

from rich.table import Table

from penfac.cli.answers import say_newer
from penfac.studies.campaign.work import Row
from penfac.studies.runner import StudyOutcome
from penfac.studies.spec import Study
from penfac.terminal import console, say


def print_studies(rows: list[dict[str, Any]]) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else v for v in row.values()))
    console.print(table)
    say("all of them at once: penfac study plan paper")


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


PLAN = (
    "study", "arms", "seeds", "verdicts", "runs", "made or shared", "steps", "hours",
    "size", "rate from",
)  # fmt: skip
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


def print_all_progress(rows: list[dict[str, Any]]) -> None:
    table = Table("study")
    for column in ("finished", "running", "failed", "steps"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["study"], f"{row['finished']:,} of {row['runs']:,}", str(row["running"]),
            str(row["failed"]), f"{row['steps']:.0%}",
        )  # fmt: skip
    console.print(table)


def print_all_reports(report: dict[str, Any]) -> None:
    """Every verdict, and where the page is."""
    for entry in report["studies"]:
        for claim in entry["claims"]:
            verdict = claim.get("verdict", "not run")
            say(f'{entry["study"]}: {verdict}: "{claim["words"]}"')
        if entry["error"]:
            say(f"{entry['study']}: {entry['error']}")
    say(f"page: {report['files'][0]}")


def plan_document(row: Row) -> dict[str, Any]:
    """A study of a plan, as JSON."""
    return {
        "study": row.member.name,
        "arms": len(row.member.study.arms),
        "seeds": len(row.member.seeds),
        "runs": len(row.jobs),
        "shared": row.shared,
        "steps": sum(job.steps for job in row.jobs),
        "hours": None if row.seconds is None else round(row.seconds / 3600, 4),
        "bytes": None if row.size is None else round(row.size),
        "rate": " and ".join(row.sources),
        "verdicts": row.verdicts,
        "fits": row.fits,
    }


def print_plan(rows: list[dict[str, Any]]) -> None:
    """A line a study, in the order in which they run, and the sum."""
    table = Table()
    for k, column in enumerate(PLAN):
        table.add_column(column, justify="left" if k in (0, 9) else "right")
    if not all(row["fits"] for row in rows):
        table.add_column("in the budget")
    for row in rows:
        cells = [
            row["study"], str(row["arms"]), str(row["seeds"]), str(row["verdicts"]),
            f"{row['runs']:,}", f"{row['shared']:,}", f"{row['steps']:,}",
            *costs(row["hours"], row["bytes"]), row["rate"] or "-",
            "yes" if row["fits"] else "as far as it goes",
        ]  # fmt: skip
        table.add_row(*cells[: len(table.columns)])
    console.print(table)
    total = {
        key: None
        if any(row[key] is None for row in rows)
        else sum(r[key] for r in rows)
        for key in ("runs", "steps", "hours", "bytes", "verdicts")
    }
    hours, size = costs(total["hours"], total["bytes"])
    say(
        f"{total['verdicts']} verdicts, {total['runs']:,} runs, {total['steps']:,} steps: "
        f"{hours} hours, {size}"
    )
    if total["hours"] is None:
        say("hours are not known (-) where no rate is: --trial 10s measures them")


def costs(hours: float | None, size: float | None) -> tuple[str, str]:
    told = "-" if hours is None else f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"
    return told, "-" if size is None else format_bytes(size)


def format_bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


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
