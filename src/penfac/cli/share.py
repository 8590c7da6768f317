"""Commands that share: a policy as code, a model card, a run as two files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penfac.cli.app import app, command, reply
from penfac.cli.groups import argument, option
from penfac.cli.help import Group
from penfac.cli.options import Best, Json, PolicySeed, Run
from penfac.errors import ConfigError, CorruptFile

if TYPE_CHECKING:
    from penfac.export.check import Agreement
    from penfac.policy import Policy

NO_COMPILER = "not compiled: no C compiler here"


@command(
    app,
    group="Share",
    examples="""\
penfac export runs/penfac/RoboschoolHopper-v2_1 --onnx hop.onnx
penfac export runs/penfac/RoboschoolHopper-v2_1 --c hop.h --name hop""",
)
def export(
    run: Annotated[
        Path, argument("RUN", "Run folder, policy folder or policy.safetensors.")
    ],
    onnx: Annotated[Path | None, option("FILE", "Write an .onnx file.")] = None,
    c: Annotated[Path | None, option("FILE", "Write a C header (.h).", "--c")] = None,
    seed: PolicySeed = None,
    best: Best = False,
    name: Annotated[
        str | None,
        option("NAME", "Name of the C function, NAME_act.  [default: the environment]"),
    ] = None,
    json_: Json = False,
) -> int:
    """Write a policy as an ONNX file or a C header.

    The files are compared with the policy on 10 000 states before they are written.
    """

    def work() -> dict[str, Any]:
        check_files(onnx, c, name)
        policy = load_policy_at(run, seed, best)
        made = [make_onnx(policy, onnx)] if onnx is not None else []
        made += [make_c(policy, c, name)] if c is not None else []
        for file, data, _ in made:
            write(file, data)
        return {"policy": str(run), "files": [file_document(*each) for each in made]}

    return reply(json_, work, print_exported)


@command(app, group="Share", examples="penfac card runs/penfac/RoboschoolHopper-v2_1")
def card(
    run: Run,
    out: Annotated[
        Path | None,
        option("FILE", "The .md to write.  [default: README.md by the policy]"),
    ] = None,
    json_: Json = False,
) -> int:
    """Write a model card of a run.

    It says what was learned, how, and which return the policies reach.
    """

    def work() -> dict[str, Any]:
        from penfac.analysis.card import card, mean_return

        if out is not None:
            check_file(out, "--out", ".md")
        facts = facts_of(run)
        home = run if len(facts.evaluations) > 1 else run / "policy"
        file = home / "README.md" if out is None else out
        write(file, card(facts).encode())
        result = mean_return(facts.evaluations)
        newer = newer_of(run)
        seeds = {"seeds": len(facts.evaluations), "newer": newer}
        return {"card": str(file)} | seeds | result._asdict()

    return reply(json_, work, print_card)


# --- runs as files ---------------------------------------------------------------------

runs = typer.Typer(
    cls=Group, no_args_is_help=True, help="Pack a run into two files, and unpack it."
)
app.add_typer(runs, name="runs", rich_help_panel="Share")


@command(runs, examples="penfac runs pack runs/penfac/RoboschoolHopper-v2_1 hop")
def pack(
    run: Run,
    file: Annotated[Path, argument("FILE", "Name of the two files, without ending.")],
    json_: Json = False,
) -> int:
    """Pack a run into two files: all rows and the newest checkpoints."""
    from penfac.cli import answers
    from penfac.training import bundle

    work = lambda: {"files": [str(f) for f in bundle.pack_run(run, file)]}  # noqa: E731
    return reply(json_, work, answers.print_files)


@command(runs, examples="penfac runs unpack hop --out runs")
def unpack(
    file: Annotated[Path, argument("FILE", "Bundle: either of its two files.")],
    out: Annotated[Path, option("FOLDER", "Folder that holds the run folders.")] = Path(
        "runs"
    ),
    json_: Json = False,
) -> int:
    """Write the run folders of a bundle, with curves and TensorBoard files."""
    from penfac.cli import answers
    from penfac.training import unpack

    work = lambda: {"run": str(unpack.unpack(file, out))}  # noqa: E731
    return reply(json_, work, answers.print_run)


# --- what is exported ------------------------------------------------------------------


def load_policy_at(path: Path, seed: int | None, best: bool = False) -> "Policy":
    """Load the policy of a run's seed, of a policy folder or of a policy file."""
    from penfac.analysis.evaluate import load_policy
    from penfac.policy import Policy, PolicyFileError
    from penfac.runs.run import Run

    if not (path.is_file() or (path / "policy.safetensors").is_file()):
        run = Run.open(path)
        learner = run.learner(seed)
        run.refuse_changed()
        return load_policy(learner.path, best)
    if best:
        raise ConfigError(f"--best: {path} is one policy; give its run folder")
    try:
        policy = Policy.load(path)
    except PolicyFileError as error:
        raise CorruptFile(str(error)) from None
    there = policy.about.get("seed")
    if seed not in (None, there):
        raise ConfigError(
            f"--seed {seed}: {path} is the policy of seed {there}; leave --seed out"
        )
    return policy


Made = tuple[Path, bytes, "Agreement | None"]


def make_onnx(policy: "Policy", file: Path) -> Made:
    from penfac.export.onnx import check_onnx, onnx_bytes

    data = onnx_bytes(policy)
    return file, data, check_onnx(data, policy)


def make_c(policy: "Policy", file: Path, name: str | None) -> Made:
    from penfac.export.c import c_header, c_name
    from penfac.export.compiled import check_c

    if name is None:
        name = c_name(str(policy.about.get("environment", "")))
    header = c_header(policy, name)
    return file, header.encode("ascii"), check_c(header, name, policy)


def facts_of(run: Path) -> Any:
    """Collect what the card of a run says, of every seed."""
    from penfac.analysis.card import Facts, last_evaluation
    from penfac.analysis.evaluate import load_policy
    from penfac.runs.run import Run

    opened = Run.open(run)
    first = opened.learner(None)  # refuses a run with arms
    opened.refuse_changed()
    last = [last_evaluation(learner) for learner in opened.learners]
    return Facts(opened.config, last, load_policy(first.path), str(run))


def newer_of(run: Path) -> int:
    """Rows of evaluations.csv that no checkpoint vouches for yet."""
    from penfac.runs.evaluations import FILE
    from penfac.runs.run import Run
    from penfac.runs.sealed import newer_rows

    return sum(newer_rows(learner.path, FILE) for learner in Run.open(run).learners)


# --- files -------------------------------------------------------------------------------


def check_files(onnx: Path | None, c: Path | None, name: str | None) -> None:
    """Check what is to be written, before anything is computed."""
    if onnx is None and c is None:
        raise ConfigError(
            "export: no file to write; give --onnx FILE.onnx or --c FILE.h"
        )
    if name is not None and c is None:
        raise ConfigError(f"--name {name}: names a C function; give --c FILE.h too")
    if onnx is not None:
        check_file(onnx, "--onnx", ".onnx")
    if c is not None:
        check_file(c, "--c", ".h")


def check_file(file: Path, option: str, ending: str) -> None:
    if file.suffix.lower() != ending:
        raise ConfigError(f"{option} {file}: must end in {ending}")
    if file.is_dir():
        raise ConfigError(f"{option} {file}: is a folder, must be a file")
    if not file.parent.is_dir():
        raise ConfigError(
            f"{option} {file}: there is no folder {file.parent}; make it first"
        )


def write(file: Path, data: bytes) -> None:
    """Write a file whole or not at all: readers see the old one or the new one."""
    from penfac.runs.folder import RunFolder

    RunFolder(file.parent).write(file.name, data)


# --- output --------------------------------------------------------------------------


def file_document(file: Path, data: bytes, found: "Agreement | None") -> dict[str, Any]:
    unchecked = {"worst": None, "states": 0, "settled": 0}
    checked = unchecked if found is None else found._asdict()
    return {"file": str(file), "bytes": len(data)} | checked


def print_exported(report: dict[str, Any]) -> None:
    from penfac import terminal

    for made in report["files"]:
        size = f"{made['file']}: {made['bytes'] / 1000:.1f} kB"
        if made["worst"] is None:
            terminal.say(f"{size}, {NO_COMPILER}")
            continue
        worst = f"differs from the policy by at most {made['worst']:.1e} of the range"
        terminal.say(f"{size}, {worst} on {made['states']:,} states")
        if made["settled"] < made["states"]:
            rest = made["states"] - made["settled"]
            terminal.say(f"  on {rest:,} extreme ones more is allowed: float32 rounds")


def print_card(report: dict[str, Any]) -> None:
    from penfac import terminal
    from penfac.cli import answers

    terminal.say(
        f"{report['card']}: return {report['mean']:.2f} +/- {report['spread']:.2f} "
        f"over {report['over']}"
    )
    answers.say_newer(report["newer"])
