"""Show progress in a notebook cell, a terminal, or a pipe."""

import html
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from penfac import terminal
from penfac.runs.config import RunConfig
from penfac.training.place import place_of

DRAW_EVERY = 0.2  # seconds


def bar() -> terminal.Plain:
    """Return the bar of a notebook, of a terminal, or lines for a pipe."""
    return Notebook() if in_notebook() else terminal.listener(quiet=False)


def in_notebook() -> bool:
    """Whether an IPython kernel runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return any(k.__name__ == "ZMQInteractiveShell" for k in type(shell).__mro__)


class Notebook(terminal.Plain):
    """A progress bar in the output of a cell; it needs IPython only."""

    def __init__(self) -> None:
        super().__init__(silent=True)
        self.handle: Any = None
        self.judged, self.notes, self.drawn = "compiling", [], 0.0

    def started(self, folder: Path, config: RunConfig, done: int) -> None:
        super().started(folder, config, done)
        self.notes.append(place_of(config))
        display = import_module("IPython.display").display
        self.handle = display(self.picture(), raw=True, display_id=True)

    def updated(self, who, counters, progress) -> None:
        super().updated(who, counters, progress)
        self.draw()

    def evaluated(self, who, counters, point) -> None:
        super().evaluated(who, counters, point)
        last = statistics.fmean(point.returns)
        self.judged = f"return {last:.1f}, best {self.best[who]:.1f}"
        self.draw(now=True)

    def noted(self, text: str) -> None:
        if not text.startswith(("compiled", "first update")):
            self.notes.append(text)

    def draw(self, now: bool = False) -> None:
        """Redraw at most every few tenths of a second."""
        if now or time.monotonic() - self.drawn >= DRAW_EVERY:
            self.drawn = time.monotonic()
            self.handle.update(self.picture(), raw=True)

    def picture(self) -> dict[str, str]:
        done = self.done()
        told = (
            f"{self.percent()} %, {done:,} of {self.total:,} steps, "
            f"{self.rate():,.0f}/s, {self.left()} left, {self.judged}"
        )
        meter = f'<progress value="{done}" max="{self.total}"></progress>'
        lines = [f"{meter} {html.escape(told)}", *map(html.escape, self.notes)]
        return {"text/plain": told, "text/html": "<br>".join(lines)}

    def close(self) -> None:
        if self.handle is not None:
            self.draw(now=True)
