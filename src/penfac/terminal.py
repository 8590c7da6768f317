"""What a person sees: live progress on a terminal, parseable lines elsewhere, tables."""

import contextlib
import ctypes
import os
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from penfac.events import Listener, Outcome
from penfac.learners import Learner
from penfac.stats import welch
from penfac.tune import Found

# a pipe has no width: a table need not squeeze itself into what rich assumes
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


@contextlib.contextmanager
def nothing_else_said(as_json: bool):
    """With --json only the answer may reach standard output; what an environment prints
    there, from C even, goes to standard error."""
    if not as_json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)  # what C still holds back
        os.dup2(kept, 1)
        os.close(kept)


def say(text: str) -> None:
    try:
        print(text, flush=True)  # not through rich: a path must not be wrapped
    except UnicodeEncodeError:  # a path that is no text in this locale
        say(text.encode(errors="surrogateescape").decode("ascii", "backslashreplace"))
    except OSError:  # nobody reads any more: what is being learned goes on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def listener(quiet: bool) -> "Plain":
    if quiet:
        return Plain(silent=True)
    return Live() if sys.stdout.isatty() else Plain()


class Plain(Listener):
    """One line an evaluation, `key=value`, for logs and scripts."""

    def __init__(self, silent: bool = False):
        self.silent = silent
        self.best: dict[Learner, float] = {}
        self.began, self.done_before = time.monotonic(), 0

    def line(self, text: str) -> None:
        if not self.silent:
            say(text)

    def started(self, folder: Path, document: dict[str, Any], done: int) -> None:
        self.began, self.done_before = time.monotonic(), done
        arms = len(document.get("arms", [None]))
        self.total = document["steps"] * len(document["seeds"]) * arms
        self.steps: dict[Learner, int] = {}
        self.line(
            f"run={shlex.quote(str(folder))} algo={document['algo']} "
            f"env={shlex.quote(document['env'])} "
            f"seeds={len(document['seeds'])} steps={document['steps']}"
            + (f" arms={arms}" if "arms" in document else "")
        )

    def rate(self) -> float:
        elapsed = time.monotonic() - self.began
        done = sum(self.steps.values()) - self.done_before
        return max(done, 0) / elapsed if elapsed > 0 else 0.0

    def updated(self, who, counters, event) -> None:
        self.steps[who] = counters.step

    def evaluated(self, who, counters, point) -> None:
        self.steps[who] = counters.step
        mean = statistics.fmean(point.returns)
        self.best[who] = max(mean, self.best.get(who, mean))
        arm = "" if who.arm is None else f"arm={who.arm} "
        self.line(
            f"{arm}seed={who.seed} step={point.step} update={point.update} "
            f"return={mean:.1f} best={self.best[who]:.1f} "
            f"length={statistics.fmean(point.lengths):.1f} "
            f"steps_per_second={self.rate():.0f}"
        )

    def noted(self, text: str) -> None:
        if not self.silent:
            say(f"# {' '.join(text.split())}")

    def close(self) -> None:
        pass


class Live(Plain):
    """A bar with steps, rate, last and best evaluation, and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[Learner, float] = {}
        self.progress = Progress(
            BarColumn(bar_width=28),
            TextColumn("{task.fields[steps]} steps"),
            TextColumn("{task.fields[rate]}/s"),
            TextColumn("[bold]{task.fields[judged]}[/bold]"),
            TimeRemainingColumn(),
            console=console,
        )

    def line(self, text: str) -> None:
        pass

    def started(self, folder, document, done) -> None:
        super().started(folder, document, done)
        seeds = len(document["seeds"])
        several = f", {seeds} seeds" if seeds > 1 else ""
        if "arms" in document:
            several += f", {len(document['arms'])} arms"
        say(f"{document['algo']} on {document['env']}{several} -> {folder}")
        self.task = self.progress.add_task(
            "",
            total=self.total,
            completed=done,
            steps="0",
            rate="-",
            judged="compiling",
        )
        self.progress.start()

    def updated(self, who, counters, event) -> None:
        super().updated(who, counters, event)
        self.show()

    def evaluated(self, who, counters, point) -> None:
        super().evaluated(who, counters, point)
        self.last[who] = statistics.fmean(point.returns)
        self.show()

    def show(self) -> None:
        judged = "compiling"
        if self.last:
            last = statistics.fmean(self.last.values())
            judged = (
                f"return {last:.0f}, best {statistics.fmean(self.best.values()):.0f}"
            )
        done = sum(self.steps.values())
        self.progress.update(
            self.task, completed=done, steps=f"{done:,}", rate=f"{self.rate():,.0f}",
            judged=judged,
        )  # fmt: skip

    def noted(self, text: str) -> None:
        if not text.startswith("compiled"):  # those are for the log
            self.progress.console.print(text, markup=False)

    def close(self) -> None:
        self.progress.stop()


# --- results -----------------------------------------------------------------------------


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "run": str(outcome.folder),
        "state": outcome.reason,
        "exit_code": outcome.exit_code,
        "steps": outcome.steps,
        "seconds": round(outcome.seconds, 3),
        "seeds": [
            named(who)
            | {
                "step": point.step,
                "return": statistics.fmean(point.returns),
                "std_over_episodes": statistics.pstdev(point.returns),
                "length": statistics.fmean(point.lengths),
                "authors_score": outcome.scores[who],
            }
            for who, point in outcome.finals.items()
        ],
        "errors": {
            str(who.seed if who.arm is None else who): error
            for who, error in outcome.errors.items()
        },
    }


def named(who: Learner) -> dict[str, Any]:
    return ({} if who.arm is None else {"arm": who.arm}) | {"seed": who.seed}


def print_outcome(outcome: Outcome) -> None:
    """The return of the learned policy, where the run lies, what to try next."""
    finals = [statistics.fmean(p.returns) for p in outcome.finals.values()]
    rate = outcome.steps_now / outcome.seconds if outcome.seconds > 0 else 0
    took = (
        f"{outcome.steps_now:,} steps in {outcome.seconds:.0f} s ({rate:,.0f} steps/s)"
    )
    # a run that was stopped was judged some steps before
    judged = max((p.step for p in outcome.finals.values()), default=0)
    behind = "" if outcome.reason == "finished" else f" at step {judged:,}"
    say("")
    arms = dict.fromkeys(who.arm for who in outcome.finals)
    if len(arms) > 1:
        print_arms(outcome, behind)
    elif len(finals) == 1:
        point = next(iter(outcome.finals.values()))
        say(
            f"return of the learned policy{behind}: {finals[0]:.1f}  (mu without noise, mean of "
            f"{len(point.returns)} episodes, std {statistics.pstdev(point.returns):.1f})"
        )
    elif finals:
        spread = statistics.stdev(finals)
        say(
            f"return of the learned policies{behind}: {finals and statistics.fmean(finals):.1f} "
            f"+- {spread:.1f} over {len(finals)} seeds (worst {min(finals):.1f})"
        )
    say(f"{outcome.reason}: {took}")
    folder = shlex.quote(str(outcome.folder))
    if outcome.folder.suffix == ".safetensors":
        say(f"bundle: {outcome.folder} and its .csv")
        say(f"folders: penfac runs unpack {folder}")
    else:
        say(f"run: {outcome.folder}   curve: {outcome.folder / 'curve.png'}")
    if outcome.folder.suffix == ".safetensors" and outcome.reason == "finished":
        return
    if outcome.reason == "finished":
        say(f"next: penfac eval {folder}")
    else:
        say(f"go on: penfac resume {folder}")


def print_arms(outcome: Outcome, behind: str) -> None:
    """One line an arm, each but the first with how far it is from that one."""
    found: dict[str | None, list[float]] = {}
    for who, point in outcome.finals.items():
        found.setdefault(who.arm, []).append(statistics.fmean(point.returns))
    say(f"return of the learned policies{behind}, mean over seeds:")
    first = next(iter(found))
    for arm, means in found.items():
        spread = f" +- {statistics.stdev(means):.1f}" if len(means) > 1 else ""
        told = f"  {arm}: {statistics.fmean(means):.1f}{spread} ({len(means)} seeds)"
        if arm != first and min(len(means), len(found[first])) > 1:
            d = welch(means, found[first])
            told += f", {d.difference:+.1f} [{d.low:+.1f}, {d.high:+.1f}] to {first}"
        say(told)


OUTCOME = (outcome_document, print_outcome)


def found_document(found: Found) -> dict[str, Any]:
    """A search as JSON can hold it."""
    return {
        "search": str(found.folder),
        "state": found.reason,
        "exit_code": found.exit_code,
        "best": found.best,
        "preset": None if found.preset is None else str(found.preset),
        "configs": [
            {
                "config": row.config,
                "steps": row.steps,
                "score": None if row.failed else row.score,
                "kept": row.kept,
                "seeds": {str(s): x for s, x in row.scores.items()},
                "failed": {str(s): x for s, x in row.failed.items()},
                "settings": found.settings[row.config],
            }
            for row in found.rows
        ],
    }


def print_found(found: Found) -> None:
    """The best ten of the last rung, and where everything lies."""
    last = max((row.rung for row in found.rows), default=0)
    rows = [row for row in found.rows if row.rung == last]
    say("")
    if rows:
        table = Table(title=f"the best at {rows[0].steps:,} steps")
        for column in ("config", "score", "seeds", "settings"):
            table.add_column(column)
        for row in rows[:10]:
            score = "failed" if row.failed else f"{row.score:.1f}"
            seeds = ", ".join(f"{x:.0f}" for x in row.scores.values())
            settings = found.settings[row.config]
            told = ", ".join(f"{k} {_cell(v)}" for k, v in settings.items())
            table.add_row(row.config, score, seeds, told)
        console.print(table)
    failed = sum(bool(row.failed) for row in found.rows)
    say(f"{found.reason}: {len(found.settings)} configs, {failed} failed")
    say(f"table: {found.folder / 'search.csv'}")
    folder = shlex.quote(str(found.folder))
    if found.preset is None:
        say(f"go on: penfac resume {folder}")
    else:
        say(f"preset: {found.preset}   (train with --preset, on other seeds)")


FOUND = (found_document, print_found)


def print_judgement(report: dict[str, Any]) -> None:
    table = Table(
        title=f"{report['algo']} on {report['env']} ({report['mode']} action)"
    )
    arms = ["arm"] if "arms" in report else []
    for column in (
        *arms,
        "seed",
        "step",
        "return",
        "std",
        "min",
        "max",
        "length",
        "terminated",
    ):
        table.add_column(column, justify="right")
    for row in report["seeds"]:
        ended = f"{row['terminated']}/{report['episodes']}"
        numbers = (row[k] for k in ("mean", "std", "min", "max", "mean_length"))
        table.add_row(
            *(row[k] for k in arms),
            str(row["seed"]),
            f"{row['step']:,}",
            *(f"{x:.1f}" for x in numbers),
            ended,
        )
    console.print(table)
    for arm, found in report.get("arms", {}).items():
        spread = found["std_over_seeds"]
        say(f"{arm}: {found['mean']:.1f}" + (f" +- {spread:.1f}" if spread else ""))
    if not arms and report["std_over_seeds"] is not None:
        say(
            f"mean over {len(report['seeds'])} seeds: {report['mean']:.1f} "
            f"+- {report['std_over_seeds']:.1f}"
        )


def print_played(report: dict[str, Any]) -> None:
    end = f"{report['length']} steps, {report['ended']}"
    say(f"return {report['return']:.1f} ({end}): {', '.join(report['files'])}")


def print_run(report: dict[str, Any]) -> None:
    say(f"run: {report['run']}")
    say(f"next: penfac eval {shlex.quote(report['run'])}")


def print_files(report: dict[str, Any]) -> None:
    say(f"bundle: {' and '.join(report['files'])}")


def print_presets(rows: list[dict[str, Any]], algo: str, env: str) -> None:
    table = Table(title=f"{algo} on {env}: presets, and the paper's tables")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_cell(v) for v in value) or "none"
    # escaped: rich would take the [device] of a pip command for a style of its own
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def print_environments(rows: list[dict[str, Any]]) -> None:
    table = Table()
    for column in ("id", "observations", "actions", "time limit", "engine", "note"):
        table.add_column(column, no_wrap=column == "id")  # an id is there to be copied
    for row in rows:
        table.add_row(*(_cell(v) for v in row.values()))
    console.print(table)
    say("Any other Gymnasium id with a Box of actions works too: --env module:Id")


def print_algorithms(rows: list[dict[str, str]]) -> None:
    table = Table()
    for column in ("algorithm", "paper", "what it is"):
        table.add_column(column)
    for row in rows:
        table.add_row(row["name"], row["section"], row["summary"])
    console.print(table)


def print_bench(report: dict[str, Any], what: str) -> None:
    where = f" on {report['device']}" if "device" in report else ""
    table = Table(title=f"penfac bench {what}{where}")
    for column in ("figure", "measured", "aim"):
        table.add_column(column)
    for row in report["figures"]:
        table.add_row(row["figure"], row["measured"], row["aim"])
    console.print(table)
