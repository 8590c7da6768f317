"""Commands that give a policy away: to other programs, and to other people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penfac.cli.app import Json, Run, app, reply
from penfac.errors import ConfigError, CorruptFile

if TYPE_CHECKING:
    from penfac.export.check import Agreement
    from penfac.policy import Policy

NO_COMPILER = "not compiled: no C compiler here"


@app.command()
def export(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a policy folder or the file in it.")
    ],
    onnx: Annotated[Path | None, typer.Option(help="An .onnx file to write.")] = None,
    c: Annotated[Path | None, typer.Option("--c", help="A C header to write.")] = None,
    seed: Annotated[int | None, typer.Option(help="Whose policy; the first's.")] = None,
    name: Annotated[
        str | None, typer.Option(help="In C: NAME_act; default the environment's.")
    ] = None,
    json_: Json = False,
) -> int:
    """Write a policy as ONNX or as a C header; checked on 10 000 states before."""

    def work() -> dict[str, Any]:
        check_files(onnx, c, name)
        policy = policy_of(run, seed)
        made = [as_onnx(policy, onnx)] if onnx is not None else []
        made += [as_c(policy, c, name)] if c is not None else []
        for file, data, _ in made:
            write(file, data)
        return {"policy": str(run), "files": [told(*each) for each in made]}

    return reply(json_, work, print_exported)


@app.command()
def card(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(help="Default: README.md next to the policy.")
    ] = None,
    json_: Json = False,
) -> int:
    """Write a model card of a run: what was learned, how, and what it is worth."""

    def work() -> dict[str, Any]:
        from penfac.analysis.card import card, worth

        if out is not None:
            check_file(out, "--out", ".md")
        facts = facts_of(run)
        home = run if len(facts.judged) > 1 else run / "policy"
        file = home / "README.md" if out is None else out
        write(file, card(facts).encode())
        found = worth(facts.judged)
        return {"card": str(file), "seeds": len(facts.judged)} | found._asdict()

    return reply(json_, work, print_card)


# --- what is exported ------------------------------------------------------------------


def policy_of(path: Path, seed: int | None) -> "Policy":
    """The policy of a run's seed, or the one that a folder or file is."""
    from penfac.analysis.judge import load_policy
    from penfac.policy import Policy, PolicyFileError
    from penfac.runs.folder import read_config
    from penfac.runs.learners import one_of
    from penfac.training.request import check_document

    if not (path.is_file() or (path / "policy.safetensors").is_file()):
        document = read_config(path)
        check_document(path / "config.json", document)
        return load_policy(one_of(path, document, seed).path)
    try:
        policy = Policy.load(path)
    except PolicyFileError as error:
        raise CorruptFile(str(error)) from None
    if seed not in (None, policy.about.get("seed")):
        own = policy.about.get("seed")
        raise ConfigError(f"--seed {seed}: {path} is one policy, of seed {own}")
    return policy


Made = tuple[Path, bytes, "Agreement | None"]


def as_onnx(policy: "Policy", file: Path) -> Made:
    from penfac.export.onnx import check_onnx, onnx_bytes

    data = onnx_bytes(policy)
    return file, data, check_onnx(data, policy)


def as_c(policy: "Policy", file: Path, name: str | None) -> Made:
    from penfac.export.c import c_header, c_name
    from penfac.export.compiled import check_c

    if name is None:
        name = c_name(str(policy.about.get("environment", "")))
    header = c_header(policy, name)
    return file, header.encode("ascii"), check_c(header, name, policy)


def facts_of(run: Path) -> Any:
    """What the card of a run tells: every seed, none left out."""
    from penfac.analysis.card import Facts, last_evaluation
    from penfac.analysis.judge import load_policy
    from penfac.runs.folder import read_config
    from penfac.runs.learners import learners_of, one_of
    from penfac.training.request import check_document

    document = read_config(run)
    check_document(run / "config.json", document)
    first = one_of(run, document, None)  # refuses a run with arms
    judged = [last_evaluation(each) for each in learners_of(run, document)]
    return Facts(document, judged, load_policy(first.path), str(run))


# --- files -------------------------------------------------------------------------------


def check_files(onnx: Path | None, c: Path | None, name: str | None) -> None:
    """Before anything is computed."""
    if onnx is None and c is None:
        raise ConfigError("export: say where to, --onnx FILE.onnx or --c FILE.h")
    if name is not None and c is None:
        raise ConfigError(f"--name {name}: is for --c, which is not asked for")
    if onnx is not None:
        check_file(onnx, "--onnx", ".onnx")
    if c is not None:
        check_file(c, "--c", ".h")


def check_file(file: Path, option: str, ending: str) -> None:
    if file.suffix.lower() != ending:
        raise ConfigError(f"{option} {file}: ends in {ending}")
    if file.is_dir():
        raise ConfigError(f"{option} {file}: is a folder, needs a file")
    if not file.parent.is_dir():
        raise ConfigError(f"{option} {file}: no folder {file.parent}; make it first")


def write(file: Path, data: bytes) -> None:
    """Whole or not at all: readers see the old file or the new one."""
    from penfac.runs.folder import RunFolder

    RunFolder(file.parent).write(file.name, data)


# --- what is said ------------------------------------------------------------------------


def told(file: Path, data: bytes, found: "Agreement | None") -> dict[str, Any]:
    checked = {"worst": None, "states": 0, "settled": 0}
    return {"file": str(file), "bytes": len(data)} | (
        checked if found is None else found._asdict()
    )


def print_exported(report: dict[str, Any]) -> None:
    from penfac import terminal

    for made in report["files"]:
        size = f"{made['file']}: {made['bytes'] / 1000:.1f} kB"
        if made["worst"] is None:
            terminal.say(f"{size}, {NO_COMPILER}")
            continue
        worst = f"at most {made['worst']:.1e} of the range from the policy"
        terminal.say(f"{size}, {worst} on {made['states']:,} states")
        if made["settled"] < made["states"]:
            rest = made["states"] - made["settled"]
            terminal.say(f"  at {rest:,} of them, far away, float32 leaves more open")


def print_card(report: dict[str, Any]) -> None:
    from penfac import terminal

    terminal.say(
        f"{report['card']}: return {report['mean']:.2f} +/- {report['spread']:.2f} "
        f"over {report['over']}"
    )
