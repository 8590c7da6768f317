"""The commands. Heavy imports happen inside them: `penfac --help` must answer at once."""

from penfac.cli import learn, look, share, study, theory  # noqa: F401  their commands join the app
from penfac.cli.app import app, main

__all__ = ["app", "main"]
