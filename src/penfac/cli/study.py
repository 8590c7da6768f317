"""`penfac study`: experiments as data, run anywhere, judged, and told on a page."""

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from penfac.cli.app import (
    CheckpointEvery,
    EnvTimeout,
    Json,
    Slice,
    StopAfter,
    app,
    reply,
)
from penfac.cli.arguments import (
    at_once,
    check_place,
    duration,
    if_given,
    seed_list,
    timeout,
    whole,
)
from penfac.errors import ConfigError

study = typer.Typer(no_args_is_help=True, help="Experiments: run, judge, report.")
app.add_typer(study, name="study")

Name = Annotated[
    str, typer.Argument(help="See `penfac study list`; or a .toml or .py.")
]
Folder = Annotated[Path, typer.Argument(help="A study folder.")]
Fidelity = Annotated[
    str, typer.Option(help="Of the paper's: authors (as they ran it) or tuned.")
]
Mixed = Annotated[bool, typer.Option(help="Take runs that other versions made.")]


@study.command("list")
def list_(json_: Json = False) -> int:
    """The paper's experiments."""
    from penfac.studies.paper import PAPER, paper_study

    def work() -> list[dict[str, Any]]:
        every = [paper_study(name, "authors") for name in PAPER]
        return [
            {
                "name": s.name,
                "paper": s.paper,
                "title": s.title,
                "arms": len(s.arms),
                "environments": len(s.envs),
                "seeds": s.seeds,
                "steps": s.steps,
            }
            for s in every
        ]

    return reply(json_, work, lambda rows: table(rows))


@study.command()
def show(
    name: Name, fidelity: Fidelity = "authors", json_: Json = False
) -> int:  # fmt: skip
    """What a study runs, and what it is to show."""
    from penfac import terminal
    from penfac.studies import spec

    with terminal.nothing_else_said(json_):  # a .py file may print
        found = named(name, fidelity)
    return reply(json_, lambda: spec.to_table(found), lambda _: print_study(found))


@study.command("tune")
def tune_(
    name: Name,
    fidelity: Fidelity = "tuned",
    steps: Annotated[
        str | None, typer.Option("-n", "--steps", help="Of a run; default the study's.")
    ] = None,
    configs: Annotated[int, typer.Option(help="Of each arm on each task.")] = 64,
    halvings: Annotated[int, typer.Option(help="As in `penfac tune`.")] = 1,
    seeds: Annotated[
        str, typer.Option(help="first-last; apart from those you will report on.")
    ] = "1000-1002",
    space: Annotated[
        str, typer.Option(help="default (of each algorithm), paper, or a .toml file.")
    ] = "default",
    draw: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    on: Annotated[str, typer.Option(help="auto, cpu or device.")] = "auto",
    processes: Annotated[
        int | None, typer.Option(help="Without an accelerator; default one a core.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where its folder goes.")] = Path("studies"),
    arms: Annotated[str | None, typer.Option(help="a,b: these alone.")] = None,
    slice_: Slice = None,
    stop_after: StopAfter = None,
) -> int:
    """The same search for every arm on every task; leaves settings for `study run`."""
    from penfac import terminal
    from penfac.search.halving import Search
    from penfac.studies import plan, tuning
    from penfac.training.events import Limits

    check_place(on, None)
    chosen = plan.at(named(name, fidelity), steps=if_given(whole, steps, "--steps"))
    limits = Limits(
        stop_after=if_given(duration, stop_after, "--stop-after"),
        checkpoint_every=60.0,
        command=shlex.join(["penfac", *sys.argv[1:]]),
        at_once=at_once(slice_),
    )
    home = out / f"{chosen.name}-tune"
    search = Search(configs, halvings, space, draw, processes)
    which = seed_list("1000", seeds)
    found, code = tuning.tune_study(
        chosen, which, home, search, on, limits, terminal.say, names(arms)
    )
    done = sum(map(len, found.values()))
    terminal.say(f"{done} of {len(chosen.envs) * len(chosen.arms)} searches are done")
    if done:
        how = f" --fidelity {chosen.fidelity}" * bool(chosen.fidelity)
        terminal.say(
            f"next: penfac study run {name}{how} --settings {home / tuning.FILE}"
        )
    return code


@study.command()
def run(
    name: Name,
    fidelity: Fidelity = "authors",
    seeds: Annotated[
        str | None, typer.Option(help="8 is 0 to 7; 10-19; 3,5,8. Default: the study's.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option("-n", "--steps", help="Default: the study's.")
    ] = None,
    eval_every: Annotated[
        str | None, typer.Option(help="Steps; default a twentieth.")
    ] = None,
    eval_episodes: Annotated[
        str | None, typer.Option(help="Episodes of mu an evaluation.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="local (a process a core), ray or device.")
    ] = "local",
    processes: Annotated[
        int | None, typer.Option(help="With local; default one a core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; default one of this machine.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where its folder goes.")] = Path("studies"),
    folder: Annotated[
        str | None, typer.Option("--name", help="The folder's name; default STUDY-FIDELITY.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="What `penfac study tune` left.")
    ] = None,
    arms: Annotated[
        str | None, typer.Option(help="a,b: these alone; the others stay missing.")
    ] = None,
    retry: Annotated[bool, typer.Option(help="Try failed runs again.")] = False,
    mixed: Mixed = False,
    slice_: Slice = None,
    stop_after: StopAfter = None,
    checkpoint_every: CheckpointEvery = "15s",
    env_timeout: EnvTimeout = "300s",
    json_: Json = False,
) -> int:  # fmt: skip
    """Run a study, or go on with it: complete runs are skipped, others resumed."""
    from penfac import terminal
    from penfac.studies import plan, runner, tuning
    from penfac.training.events import Limits

    check_place("auto", folder)
    with terminal.nothing_else_said(json_):  # a .py file may print
        found = named(name, fidelity)
    chosen = plan.at(
        found,
        steps=if_given(whole, steps, "--steps"),
        eval_every=if_given(whole, eval_every, "--eval-every"),
        eval_episodes=if_given(whole, eval_episodes, "--eval-episodes"),
    )
    if settings is not None:
        chosen = tuning.with_settings(chosen, tuning.read(settings))
    which = seed_list("0", seeds or str(chosen.seeds))
    limits = Limits(
        stop_after=if_given(duration, stop_after, "--stop-after"),
        checkpoint_every=duration(checkpoint_every, "--checkpoint-every"),
        env_timeout=timeout(env_timeout),
        command=shlex.join(["penfac", *sys.argv[1:]]),
        at_once=at_once(slice_),
    )
    home = out / (folder or "-".join(filter(None, (chosen.name, chosen.fidelity))))
    how = runner.How(on, processes, address, mixed, retry, names(arms))
    tell = (lambda _: None) if json_ else terminal.say
    with terminal.nothing_else_said(json_):
        told = runner.start(chosen, which, home, how, limits, tell)
    if json_:
        print(json.dumps(told_document(told), indent=2))
    else:
        print_told(told)
    for who, error in told.failed.items():
        print(f"penfac: {who}: {' '.join(error.split())}", file=sys.stderr)
    return told.exit_code


@study.command()
def status(
    folder: Folder,
    watch: Annotated[bool, typer.Option(help="Again every two seconds.")] = False,
    json_: Json = False,
) -> int:
    """How far a study is, arm by arm."""
    from penfac.studies import progress

    work = lambda: progress.standing(folder)  # noqa: E731
    if not watch or json_:
        return reply(json_, work, print_standing)
    from rich.live import Live

    from penfac import terminal

    with Live(console=terminal.console, refresh_per_second=2) as live:
        while True:
            found = work()
            live.update(standing_table(found))
            if not found["running"] and not found["missing"]:
                return 0
            time.sleep(2)


@study.command()
def report(
    folder: Folder,
    into: Annotated[
        Path | None, typer.Option(help="Where to write; default FOLDER/report.")
    ] = None,
    with_: Annotated[
        Path | None,
        typer.Option("--with", help="A curves.csv: runs that are elsewhere by now."),
    ] = None,
    mixed: Mixed = False,
    json_: Json = False,
) -> int:
    """Verdicts, figures, a page and Markdown of what a study found so far."""
    from penfac.studies import findings, publish

    def work() -> dict[str, Any]:
        found = findings.findings(folder, mixed, with_)
        files = publish.publish(found, into or folder / "report")
        return {"files": [str(f) for f in files], "findings": found}

    return reply(json_, work, print_report)


@study.command("claims")
def claims_(
    results: Annotated[
        Path, typer.Argument(help="A folder of reports, STUDY-FIDELITY each.")
    ] = Path("results"),
    into: Annotated[
        Path | None, typer.Option(help="Write the page here; default: print it.")
    ] = None,
) -> int:
    """Every sentence of the paper with its verdicts, from the files of reports."""
    from penfac.runs.folder import storage
    from penfac.studies.ledger import claims_page

    page = claims_page(results)
    if into is None:
        sys.stdout.write(page)
        return 0
    with storage(into):
        into.write_text(page, encoding="utf-8")
    return 0


def names(listed: str | None) -> tuple[str, ...]:
    return () if listed is None else tuple(n.strip() for n in listed.split(","))


def named(name: str, fidelity: str) -> Any:
    """A study of the paper, or of a file."""
    from penfac.studies import spec
    from penfac.studies.paper import paper_study

    if name.endswith((".toml", ".py")):
        return spec.read(Path(name))
    if "/" in name or Path(name).exists():
        raise ConfigError(f"{name}: a study is a name, a .toml or a .py file")
    return paper_study(name, fidelity)


# --- what is said ------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from penfac import terminal

    shown = Table()
    for column in rows[0]:
        shown.add_column(column)
    for row in rows:
        shown.add_row(*(f"{v:,}" if isinstance(v, int) else v for v in row.values()))
    terminal.console.print(shown)


def print_study(found: Any) -> None:
    from penfac.terminal import say

    say(f"{found.name}: {found.title}" + f" ({found.paper})" * bool(found.paper))
    say(found.question)
    say(f"{found.steps:,} steps, {found.seeds} seeds, on {', '.join(found.envs)}")
    for arm in found.arms:
        settings = ", ".join(f"{k} = {v}" for k, v in arm.settings.items())
        note = f"; {arm.note}" * bool(arm.note)
        say(
            f"  {arm.name}: {arm.algo}, preset {arm.preset}"
            + f", {settings}" * bool(settings)
            + note
        )
    for claim in found.claims:
        say(f'"{claim.words}" ({claim.measure} return)')
        for line in claim.compare:
            say(f"  {line}")
        for first, second in claim.changes:
            say(f"  in the change from {first} to {second}")
        for need in claim.needs:
            say(f"  rests on {need}")


def told_document(told: Any) -> dict[str, Any]:
    return {
        "study": str(told.folder),
        "state": told.reason,
        "exit_code": told.exit_code,
        "seconds": round(told.seconds, 3),
        "runs": told.counts,
        "failed": told.failed,
    }


def print_told(told: Any) -> None:
    from penfac.terminal import say

    runs = ", ".join(f"{n} {state}" for state, n in told.counts.items() if n)
    say(f"{told.reason}: {runs}")
    say(f"report: penfac study report {told.folder}")


def short(number: float) -> str:
    """2,034.1 and 0.0123: four digits that say something."""
    return f"{number:,.1f}" if abs(number) >= 100 else f"{number:.4g}"


def standing_table(found: dict[str, Any]) -> Any:
    from rich.table import Table

    shown = Table(
        title=f"{found['study']}: {found['finished']} of {found['runs']} runs finished"
    )
    for column in (
        "environment",
        "arm",
        "finished",
        "running",
        "failed",
        "steps",
        "return",
    ):
        shown.add_column(
            column, justify="left" if column in ("environment", "arm") else "right"
        )
    for row in found["arms"]:
        value = "-" if row["return"] is None else short(row["return"])
        if row["std"] is not None:
            value += f" +- {short(row['std'])}"
        shown.add_row(
            row["env"], row["arm"], f"{row['finished']}/{row['seeds']}", str(row["running"]),
            str(row["failed"]), f"{row['steps']:.0%}", value,
        )  # fmt: skip
    return shown


def print_standing(found: dict[str, Any]) -> None:
    from penfac import terminal

    terminal.console.print(standing_table(found))


def print_report(report: dict[str, Any]) -> None:
    from penfac.terminal import say

    for claim in report["findings"]["claims"]:
        say(
            f'{claim["verdict"]}: "{claim["words"]}" ({claim["reason"]}; {claim["budget"]})'
        )
        for warning in claim["warnings"]:
            say(f"  warning: {warning}")
    say(f"page: {report['files'][0]}")
