"""The progress of a campaign: a bar for each study on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from penfac.studies.campaign.work import Row
from penfac.studies.runner import duration
from penfac.terminal import console, say

EVERY = 60.0  # seconds between two lines of a study where nobody sees bars


class Bars:
    """One bar or line per study, with the time left."""

    def __init__(self, rows: Sequence[Row], silent: bool = False):
        self.rows = {row.member.name: row for row in rows}
        self.silent, self.live = silent, sys.stdout.isatty() and not silent
        self.told: dict[str, float] = {}
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not self.live,
        )
        self.tasks = {
            name: self.progress.add_task(name, total=1.0, left=expected(row))
            for name, row in self.rows.items()
        }

    def __enter__(self) -> "Bars":
        self.progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.progress.stop()

    def tell(self, text: str) -> None:
        if self.live:
            self.progress.console.print(text)
        elif not self.silent:
            say(text)

    def advanced(self, name: str, share: float, left: float | None) -> None:
        """A study has done this share of its steps."""
        text = (
            "done" if share >= 1 else "" if left is None else f"{duration(left)} left"
        )
        if self.live:
            self.progress.update(self.tasks[name], completed=share, left=text)
            return
        now = time.monotonic()
        due = now - self.told.get(name, float("-inf")) >= EVERY
        if not self.silent and (due or share >= 1):
            self.told[name] = now
            say(f"{name}: {share:.0%}, {text}" if text else f"{name}: {share:.0%}")


def expected(row: Row) -> str:
    if not row.jobs:
        return "nothing to run"
    return "" if row.seconds is None else f"{duration(row.seconds)} expected"
