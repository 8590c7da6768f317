"""The command line itself: errors become one line and an exit code, answers are told."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from penfac.errors import PenfacError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Learn deterministic controllers by following the sign of the advantage.",
)

DEFAULT_ENV = "RoboschoolHalfCheetah-v2"


def main() -> NoReturn:
    """Run a command; whatever fails becomes one line and the right exit code."""
    try:
        code = app(standalone_mode=False, prog_name="penfac")
        sys.exit(code if isinstance(code, int) else 0)
    except PenfacError as error:
        leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        leave("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error)
            sys.exit(2)
        if hasattr(error, "format_message"):  # the command line's own usage errors
            where = getattr(getattr(error, "ctx", None), "command_path", "penfac")
            message = f"{error.format_message().rstrip('.')} (see {where} --help)"  # type: ignore[attr-defined]
            leave(message, 2)
        raise


def leave(message: str, code: int) -> NoReturn:
    print(f"penfac: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


StopAfter = Annotated[
    str | None, typer.Option(help="Stop in time and save: 90s, 9m, 2h.")
]
CheckpointEvery = Annotated[str, typer.Option(help="Time between two checkpoints.")]
EnvTimeout = Annotated[
    str, typer.Option(help="A call of the environment may last this long.")
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", help="So many learners share a program on a device."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, nothing else.")
]
Run = Annotated[Path, typer.Argument(help="A run folder.")]


def follow(go: Any, as_json: bool, told: Any = None) -> int:
    """Run something with someone watching; its outcome is the last thing said."""
    from penfac import terminal
    from penfac.cli import answers

    document, show = told or answers.OUTCOME
    listener = terminal.listener(quiet=as_json)
    try:
        with terminal.nothing_else_said(as_json):
            outcome = go(listener)
    finally:
        listener.close()
    if as_json:
        print(json.dumps(document(outcome), indent=2))
    else:
        show(outcome)
    for who, error in getattr(outcome, "errors", {}).items():
        print(f"penfac: {who}: {' '.join(error.split())}", file=sys.stderr)
    return outcome.exit_code


def reply(as_json: bool, work: Any, show: Any) -> int:
    """Answer with what `work` found: as JSON, or as `show` prints it."""
    from penfac import terminal

    with terminal.nothing_else_said(as_json):
        found = work()
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0
