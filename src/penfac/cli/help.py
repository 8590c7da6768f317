"""What --help looks like: options and commands in groups, examples at the end."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

GROUPS = (
    "Learn",
    "Look",
    "Share",
    "Study",
    "Catalogue",
)  # the order of the first screen


class Command(TyperCommand):
    """A command whose --help shows its options under headings, then examples."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_sections(formatter, options_by_heading(self, ctx))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(formatter, self.epilog)


class Group(TyperGroup):
    """A command with commands of its own, which --help lists in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        write_sections(formatter, options_by_heading(self, ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = sorted(self.commands.items(), key=lambda item: rank(item[1]))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands:
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            row = (name, command.get_short_help_str(formatter.width))
            sections.setdefault(heading, []).append(row)
        write_sections(formatter, sections)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        write_examples(formatter, self.epilog)


def rank(command: Any) -> int:
    heading = getattr(command, "rich_help_panel", None)
    return GROUPS.index(heading) if heading in GROUPS else len(GROUPS)


def options_by_heading(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        row = param.get_help_record(ctx)
        if row is not None:
            plain = "Arguments" if param.param_type_name == "argument" else "Options"
            heading = getattr(param, "rich_help_panel", None) or plain
            # without --no-FLAG, which is the default, and the type of an argument
            name = row[0].split(" / --no-")[0].split(" <")[0]
            sections.setdefault(heading, []).append((name, row[1]))
    sections["Options"] = sections.pop("Options")  # with --help, so always there; last
    return sections


def write_sections(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    """Write one list a heading; the second column starts at the same place in all."""
    names = [name for rows in sections.values() for name, _ in rows]
    width = max((len(name) for name in names if len(name) <= 26), default=0)
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl([(name.ljust(width), text) for name, text in rows])


def write_examples(formatter: Any, examples: str | None) -> None:
    if examples:
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
