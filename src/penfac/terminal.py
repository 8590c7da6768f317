"""What a run prints: progress on a terminal, lines that can be parsed elsewhere."""

import contextlib
import ctypes
import datetime
import os
import shlex
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from penfac.errors import printable
from penfac.machine import device_name
from penfac.runs.config import RunConfig
from penfac.runs.learners import Learner
from penfac.training.listener import Listener
from penfac.training.place import place_of


class PlainConsole(Console):
    """Tables of what files say: no markup, no character that the terminal would obey."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


# a pipe has no width, and the 80 columns that rich assumes are few for a table
console = PlainConsole(
    highlight=False,
    markup=False,
    emoji=False,
    width=None if sys.stdout.isatty() else 120,
)


@contextlib.contextmanager
def reserve_stdout(wanted: bool):
    """Keep standard output for one JSON document: what environments print, even from C,
    goes to standard error."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)  # C's own buffer
        os.dup2(kept, 1)
        os.close(kept)


def say(text: str) -> None:
    text = printable(text)
    try:
        print(text, flush=True)  # rich would wrap long paths
    except UnicodeEncodeError:  # a path that this locale cannot encode
        say(text.encode(errors="surrogateescape").decode("ascii", "backslashreplace"))
    except OSError:  # nobody reads any more, but training continues
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def greet(text: str) -> None:
    """Tell whoever waits at a terminal what begins: libraries load for a second or two."""
    if sys.stdout.isatty():
        say(text)


def short(number: int) -> str:
    """1M, 300k, or the number itself."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if number % (size // 10) == 0 and number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:,}"


def listener(quiet: bool) -> "Plain":
    if quiet:
        return Plain(silent=True)
    return Live() if sys.stdout.isatty() else Plain()


class Plain(Listener):
    """Prints one line an evaluation, `key=value`, for logs and scripts."""

    def __init__(self, silent: bool = False):
        self.silent = silent
        self.best: dict[Learner, float] = {}
        self.began, self.done_before = time.monotonic(), 0

    def line(self, text: str) -> None:
        if not self.silent:
            say(text)

    def started(self, folder: Path, config: RunConfig, done: int) -> None:
        self.began, self.done_before = time.monotonic(), done
        arms = len(config.arms or (None,))
        self.total = config.steps * len(config.seeds) * arms
        self.steps: dict[Learner, int] = {}
        self.line(
            f"run={shlex.quote(str(folder))} algo={config.algo} "
            f"env={shlex.quote(config.env)} "
            f"seeds={len(config.seeds)} steps={config.steps}"
            + (f" arms={arms}" if config.arms else "")
            + f" engine={config.engine} device={shlex.quote(device_name())}"
        )

    def done(self) -> int:
        """Steps of all learners; those that this process has not heard of count too."""
        return max(sum(self.steps.values()), self.done_before)

    def left(self) -> str:
        """The time left, from the rate so far."""
        rate = self.rate()
        if rate <= 0:
            return "-"
        seconds = round(max(self.total - self.done(), 0) / rate)
        return str(datetime.timedelta(seconds=seconds))

    def percent(self) -> int:
        return min(100 * self.done() // max(self.total, 1), 100)

    def rate(self) -> float:
        elapsed = time.monotonic() - self.began
        done = self.done() - self.done_before
        return done / elapsed if elapsed > 0 else 0.0

    def updated(self, who, counters, progress) -> None:
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
    """Shows a bar with steps, rate, last and best evaluation, and the time left."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[Learner, float] = {}
        self.progress = Progress(
            BarColumn(bar_width=14),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[steps]} steps"),
            TextColumn("[bold]{task.fields[judged]}[/bold]"),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.fields[rate]}/s"),  # last: a narrow terminal cuts it off
            console=console,
        )

    def line(self, text: str) -> None:
        pass

    def started(self, folder, config, done) -> None:
        super().started(folder, config, done)
        seeds = config.seeds
        listed = ", ".join(map(str, seeds))
        several = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {listed}"
        if config.arms:
            several += f", {len(config.arms)} arms"
        say(f"{config.algo} on {config.env}, {several}")
        say(place_of(config))
        say(f"run: {folder}")
        self.task = self.progress.add_task(
            "",
            total=self.total,
            completed=done,
            steps=f"{done:,} of {short(self.total)}",
            rate="-",
            left="-",
            judged="compiling",
        )
        self.progress.start()

    def updated(self, who, counters, progress) -> None:
        super().updated(who, counters, progress)
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
        done = self.done()
        self.progress.update(
            self.task, completed=done, steps=f"{done:,} of {short(self.total)}",
            rate=f"{self.rate():,.0f}", left=self.left(), judged=judged,
        )  # fmt: skip

    def noted(self, text: str) -> None:
        if not text.startswith("compiled"):  # log.txt has those
            self.progress.console.print(text)

    def close(self) -> None:
        self.progress.stop()
