"""`penfac theory`: check the paper's statements numerically."""

import textwrap
from pathlib import Path
from typing import Annotated, Any

from penfac.cli.app import app, command, reply
from penfac.cli.groups import argument, option
from penfac.cli.options import Json
from penfac.errors import ConfigError, StorageError
from penfac.settings.suggest import did_you_mean


@command(
    app,
    group="Study",
    examples="""\
penfac theory
penfac theory theorem-5-2 --picture theorem.png""",
)
def theory(
    name: Annotated[
        str | None, argument("STATEMENT", "Explain one statement.  [default: all]")
    ] = None,
    picture: Annotated[
        Path | None, option("FILE", "Write the figure of the statement as .png.")
    ] = None,
    json_: Json = False,
) -> int:
    """Check the paper's statements numerically.

    Computes both sides of each and says which statements hold.
    """
    if name is None:
        if picture is not None:
            raise ConfigError(f"--picture {picture}: name one statement too")
        return reply(json_, lambda: check_all(quiet=json_), print_table)
    statement = find_statement(name)
    if picture is not None and picture.suffix.lower() != ".png":
        raise ConfigError(f"--picture {picture}: must end in .png")

    def work() -> dict[str, Any]:
        from penfac.theory.statements import as_document, timed_check

        document = as_document(statement, *timed_check(statement))
        if picture is not None:
            document["picture"] = str(draw(statement, picture))
        return document

    return reply(json_, work, print_one)


def find_statement(name: str) -> Any:
    from penfac.theory.statements import STATEMENTS

    if name not in STATEMENTS:
        hint = did_you_mean(name, STATEMENTS)
        raise ConfigError(
            f"{name}: no such statement{hint} (`penfac theory` lists all)"
        )
    return STATEMENTS[name]


def check_all(quiet: bool) -> list[dict[str, Any]]:
    """Check all statements; a terminal shows which one is being computed."""
    from penfac import terminal
    from penfac.theory.statements import STATEMENTS, as_document, timed_check

    documents = []
    with terminal.console.status("") as status:
        if quiet:
            status.stop()
        for statement in STATEMENTS.values():
            status.update(statement.name)
            documents.append(as_document(statement, *timed_check(statement)))
    return documents


def draw(statement: Any, file: Path) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(statement.picture())
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror}") from None
    return file


def verdict(document: dict[str, Any]) -> str:
    return "holds" if document["holds"] else "FAILS"


def print_table(documents: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from penfac import terminal

    table = Table(box=None, header_style="bold", pad_edge=False)
    for head in ("statement", "what it says", "", "", "", "", "", ""):
        table.add_column(head, no_wrap=head == "statement")
    for column, head in zip(
        table.columns[2:], ("left", "", "right", "gap", "verdict", "s"), strict=True
    ):
        column.header, column.no_wrap = head, True
        column.justify = "left" if head == "verdict" else "right"
    for d in documents:
        mark = "" if d["printed"] else " *"
        sides = (f"{d['left']:.4g}", d["relation"], f"{d['right']:.4g}")
        row = (d["name"] + mark, d["says"], *sides, f"{d['gap']:.1e}", verdict(d))
        table.add_row(*map(escape, row), f"{d['seconds']:.1f}")
    terminal.console.print(table)
    failed = sum(not d["holds"] for d in documents)
    spent = sum(d["seconds"] for d in documents)
    terminal.say(
        f"\n{len(documents)} statements, {failed} fail, {spent:.0f} s. "
        "* a sharper, wider or corrected form that the paper does not print.\n"
        "`penfac theory STATEMENT` explains one; docs/theory.md describes all."
    )


def print_one(document: dict[str, Any]) -> None:
    from penfac import terminal

    who = "printed" if document["printed"] else "not printed in the paper"
    lines = [
        f"{document['name']} ({document['where']}; {who}): {verdict(document)}",
        "",
        document["says"],
        "",
        *textwrap.wrap(document["about"], 96),
        "",
    ]
    sides = {
        f"left: {document['left_is']}": document["left"],
        f"right: {document['right_is']}": document["right"],
        "gap": document["gap"],
        **document["numbers"],
    }
    width = max(map(len, sides))
    lines += [f"  {key:<{width}}  {value:.6g}" for key, value in sides.items()]
    lines.append(f"\nclaimed: left {document['relation']} right")
    if "picture" in document:
        lines.append(f"picture: {document['picture']}")
    terminal.say("\n".join(lines))
