"""The commands. Heavy imports happen inside them: `penfac --help` must answer at once."""

from penfac.cli import learn, lists, look, share, study, theory  # noqa: F401  they join app
from penfac.cli.app import app, main

__all__ = ["app", "main"]
