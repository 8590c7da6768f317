"""Groups of options: a dataclass whose fields are options that several commands share."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from copy import copy
from inspect import Parameter
from typing import Annotated, Any, get_args, get_type_hints

import typer


def spread(command: Callable[..., int]) -> Callable[..., int]:
    """Return `command` with one option for each field of its groups, as typer reads it."""
    hints = get_type_hints(command, include_extras=True)
    parameters, groups = [], {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if dataclasses.is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += options_of(kind)
        else:
            alone = parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY)
            parameters.append(alone)

    @functools.wraps(command)
    def run(**typed: Any) -> int:
        for name, group in groups.items():
            names = [field.name for field in dataclasses.fields(group)]
            typed[name] = group(**{name: typed.pop(name) for name in names})
        return command(**typed)

    del run.__wrapped__  # typer would read the signature behind it
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def options_of(group: Any) -> list[Parameter]:
    """The options of a group, under its docstring as their heading."""
    hints = get_type_hints(group, include_extras=True)
    options = []
    for field in dataclasses.fields(group):
        kind, option = get_args(hints[field.name])
        option = copy(option)
        option.rich_help_panel = inspect.getdoc(group).rstrip(".")  # type: ignore[union-attr]
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        options.append(
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, option],
            )
        )
    return options


def option(metavar: str, help: str, *names: str, under: str | None = None) -> Any:
    """Declare an option with a value; `under` is its heading in --help."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=under)


def flag(help: str, *names: str, under: str | None = None, **more: Any) -> Any:
    """Declare an option without a value, which is off by default."""
    return typer.Option(
        *names, help=help, show_default=False, rich_help_panel=under, **more
    )


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help)
