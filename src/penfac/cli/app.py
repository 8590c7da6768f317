"""The command line itself: commands join it, errors become one line and an exit code."""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn

import typer

from penfac.cli.groups import spread
from penfac.cli.help import Command, Group
from penfac.errors import PenfacError, StorageError, one_line
from penfac.process import close_stdout, keep_streams, recognise_ctrl_c

app = typer.Typer(
    cls=Group,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="penfac train --env Pendulum-v1 -n 300k\n"
    "penfac COMMAND --help                   the options of a command",
)

Answer = tuple[Callable[[Any], Any], Callable[[Any], None]]  # as JSON, and as text


def print_version(wanted: bool) -> None:
    if wanted:
        import penfac

        print(penfac.__version__)
        raise typer.Exit


@app.callback()
def penfac_(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=print_version,
        ),
    ] = False,
) -> None:
    """Learn deterministic controllers by following the sign of the advantage."""


def command(
    parent: typer.Typer, name: str | None = None, *, group: str = "", examples: str = ""
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add a command to `parent`, with a group on the first screen and examples."""

    def add(function: Callable[..., int]) -> Callable[..., int]:
        parent.command(
            name or function.__name__.rstrip("_"),
            cls=Command,
            epilog=examples,
            rich_help_panel=group or None,
        )(spread(function))
        return function

    return add


def main() -> NoReturn:
    """Run a command; a failure becomes one line on stderr and an exit code."""
    keep_streams()
    code = 1  # of a bug, whose traceback is told
    try:
        with recognise_ctrl_c():
            code = run_command()
    finally:
        try:
            close_stdout()
        except OSError as error:
            print_error(f"standard output: {error.strerror}")
            code = code or StorageError.exit_code
    sys.exit(code)


def run_command() -> int:
    """Run the command of `sys.argv`; return its exit code."""
    try:
        code = app(standalone_mode=False, prog_name="penfac")
        return code if isinstance(code, int) else 0
    except PenfacError as error:
        return fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return fail("interrupted", 128 + signal.SIGINT)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error)
            return 2
        if hasattr(error, "format_message"):  # a usage error that typer found
            where = getattr(getattr(error, "ctx", None), "command_path", "penfac")
            message = error.format_message().rstrip(".") + option_hint(error)  # type: ignore[attr-defined]
            return fail(f"{message} (see {where} --help)", 2)
        if isinstance(error, FileNotFoundError) and not is_somewhere():
            text = "the current folder was removed; change to one that is there"
            return fail(text, StorageError.exit_code)
        raise


def is_somewhere() -> bool:
    """Whether the folder in which the command was given still exists."""
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def option_hint(error: Exception) -> str:
    """What an option is here that another library has, or that is a setting."""
    from penfac.settings.declaration import known_fields
    from penfac.settings.registry import SETTINGS
    from penfac.settings.words import explain

    word = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
    algo = next(
        (a for a in sys.argv if a.removeprefix("--algo=") in SETTINGS), "penfac"
    )
    known = known_fields(SETTINGS[algo.removeprefix("--algo=")].config)
    if word in known:
        return f"; it is a setting, give it as --set {word}=VALUE"
    hint = explain(word, known)
    return (
        f"{hint}; settings are given as --set NAME=VALUE" if "it is" in hint else hint
    )


def fail(message: str, code: int) -> int:
    print_error(message)
    return code


def print_error(message: str) -> None:
    print(f"penfac: {one_line(message)}", file=sys.stderr)


def follow(work: Callable[[Any], Any], as_json: bool, answer: Answer) -> int:
    """Run `work` with a listener on the terminal, then print its outcome."""
    from penfac import terminal

    listener = terminal.listener(quiet=as_json)
    try:
        with terminal.reserve_stdout(as_json):
            outcome = work(listener)
    finally:
        listener.close()
    return print_outcome(outcome, getattr(outcome, "errors", {}), as_json, answer)


def print_outcome(
    outcome: Any, errors: Mapping[Any, str], as_json: bool, answer: Answer
) -> int:
    """Print an outcome and the errors of its learners; return its exit code."""
    as_document, show = answer
    if as_json:
        print(json.dumps(as_document(outcome), indent=2))
    else:
        show(outcome)
    for who, error in errors.items():
        print_error(f"{who}: {error}")
    return outcome.exit_code


def reply(as_json: bool, work: Callable[[], Any], show: Callable[[Any], None]) -> int:
    """Print what `work` returns: as JSON, or as `show` prints it."""
    from penfac import terminal

    with terminal.reserve_stdout(as_json):
        result = work()
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0
