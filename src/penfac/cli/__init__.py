"""The commands. Heavy imports happen inside them: `penfac --help` must answer at once."""

from penfac.cli import (  # noqa: F401  they join app
    learn,
    lists,
    look,
    share,
    study,
    study_results,
    theory,
    zoo,
)
from penfac.cli.app import app, main

__all__ = ["app", "main"]
