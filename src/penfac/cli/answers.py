"""What commands answer, as people read it and as JSON holds it."""

import shlex
import statistics
from typing import Any

from rich.markup import escape
from rich.table import Table

from penfac.runs.learners import Learner
from penfac.search.halving import Found
from penfac.stats import welch
from penfac.terminal import console, say
from penfac.training.events import Outcome


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "run": str(outcome.folder),
        "state": outcome.reason,
        "exit_code": outcome.exit_code,
        "steps": outcome.steps,
        "seconds": round(outcome.seconds, 3),
        "seeds": [
            named(who)
            | {
                "step": point.step,
                "return": statistics.fmean(point.returns),
                "std_over_episodes": statistics.pstdev(point.returns),
                "length": statistics.fmean(point.lengths),
                "authors_score": outcome.scores[who],
            }
            for who, point in outcome.finals.items()
        ],
        "errors": {
            str(who.seed if who.arm is None else who): error
            for who, error in outcome.errors.items()
        },
    }


def named(who: Learner) -> dict[str, Any]:
    return ({} if who.arm is None else {"arm": who.arm}) | {"seed": who.seed}


def print_outcome(outcome: Outcome) -> None:
    """The return of the learned policy, where the run lies, what to try next."""
    finals = [statistics.fmean(p.returns) for p in outcome.finals.values()]
    rate = outcome.steps_now / outcome.seconds if outcome.seconds > 0 else 0
    took = (
        f"{outcome.steps_now:,} steps in {outcome.seconds:.0f} s ({rate:,.0f} steps/s)"
    )
    # a run that was stopped was judged some steps before
    judged = max((p.step for p in outcome.finals.values()), default=0)
    behind = "" if outcome.reason == "finished" else f" at step {judged:,}"
    say("")
    arms = dict.fromkeys(who.arm for who in outcome.finals)
    if len(arms) > 1:
        print_arms(outcome, behind)
    elif len(finals) == 1:
        point = next(iter(outcome.finals.values()))
        say(
            f"return of the learned policy{behind}: {finals[0]:.1f}  (mu without noise, mean of "
            f"{len(point.returns)} episodes, std {statistics.pstdev(point.returns):.1f})"
        )
    elif finals:
        spread = statistics.stdev(finals)
        say(
            f"return of the learned policies{behind}: {finals and statistics.fmean(finals):.1f} "
            f"+- {spread:.1f} over {len(finals)} seeds (worst {min(finals):.1f})"
        )
    say(f"{outcome.reason}: {took}")
    folder = shlex.quote(str(outcome.folder))
    if outcome.folder.suffix == ".safetensors":
        say(f"bundle: {outcome.folder} and its .csv")
        say(f"folders: penfac runs unpack {folder}")
    else:
        say(f"run: {outcome.folder}   curve: {outcome.folder / 'curve.png'}")
    if outcome.folder.suffix == ".safetensors" and outcome.reason == "finished":
        return
    if outcome.reason == "finished":
        say(f"next: penfac eval {folder}")
    else:
        say(f"go on: penfac resume {folder}")


def print_arms(outcome: Outcome, behind: str) -> None:
    """One line an arm, each but the first with how far it is from that one."""
    found: dict[str | None, list[float]] = {}
    for who, point in outcome.finals.items():
        found.setdefault(who.arm, []).append(statistics.fmean(point.returns))
    say(f"return of the learned policies{behind}, mean over seeds:")
    first = next(iter(found))
    for arm, means in found.items():
        spread = f" +- {statistics.stdev(means):.1f}" if len(means) > 1 else ""
        told = f"  {arm}: {statistics.fmean(means):.1f}{spread} ({len(means)} seeds)"
        if arm != first and min(len(means), len(found[first])) > 1:
            d = welch(means, found[first])
            told += f", {d.difference:+.1f} [{d.low:+.1f}, {d.high:+.1f}] to {first}"
        say(told)


OUTCOME = (outcome_document, print_outcome)


def found_document(found: Found) -> dict[str, Any]:
    """A search as JSON can hold it."""
    return {
        "search": str(found.folder),
        "state": found.reason,
        "exit_code": found.exit_code,
        "best": found.best,
        "preset": None if found.preset is None else str(found.preset),
        "configs": [
            {
                "config": row.config,
                "steps": row.steps,
                "score": None if row.failed else row.score,
                "kept": row.kept,
                "seeds": {str(s): x for s, x in row.scores.items()},
                "failed": {str(s): x for s, x in row.failed.items()},
                "settings": found.settings[row.config],
            }
            for row in found.rows
        ],
    }


def print_found(found: Found) -> None:
    """The best ten of the last rung, and where everything lies."""
    last = max((row.rung for row in found.rows), default=0)
    rows = [row for row in found.rows if row.rung == last]
    say("")
    if rows:
        table = Table(title=f"the best at {rows[0].steps:,} steps")
        for column in ("config", "score", "seeds", "settings"):
            table.add_column(column)
        for row in rows[:10]:
            score = "failed" if row.failed else f"{row.score:.1f}"
            seeds = ", ".join(f"{x:.0f}" for x in row.scores.values())
            settings = found.settings[row.config]
            told = ", ".join(f"{k} {_cell(v)}" for k, v in settings.items())
            table.add_row(row.config, score, seeds, told)
        console.print(table)
    failed = sum(bool(row.failed) for row in found.rows)
    say(f"{found.reason}: {len(found.settings)} configs, {failed} failed")
    say(f"table: {found.folder / 'search.csv'}")
    folder = shlex.quote(str(found.folder))
    if found.preset is None:
        say(f"go on: penfac resume {folder}")
    else:
        say(f"preset: {found.preset}   (train with --preset, on other seeds)")


FOUND = (found_document, print_found)


def print_judgement(report: dict[str, Any]) -> None:
    table = Table(
        title=f"{report['algo']} on {report['env']} ({report['mode']} action)"
    )
    arms = ["arm"] if "arms" in report else []
    for column in (
        *arms,
        "seed",
        "step",
        "return",
        "std",
        "min",
        "max",
        "length",
        "terminated",
    ):
        table.add_column(column, justify="right")
    for row in report["seeds"]:
        ended = f"{row['terminated']}/{report['episodes']}"
        numbers = (row[k] for k in ("mean", "std", "min", "max", "mean_length"))
        table.add_row(
            *(row[k] for k in arms),
            str(row["seed"]),
            f"{row['step']:,}",
            *(f"{x:.1f}" for x in numbers),
            ended,
        )
    console.print(table)
    for arm, found in report.get("arms", {}).items():
        spread = found["std_over_seeds"]
        say(f"{arm}: {found['mean']:.1f}" + (f" +- {spread:.1f}" if spread else ""))
    if not arms and report["std_over_seeds"] is not None:
        say(
            f"mean over {len(report['seeds'])} seeds: {report['mean']:.1f} "
            f"+- {report['std_over_seeds']:.1f}"
        )


def print_comparison(report: dict[str, Any]) -> None:
    for judged in report["runs"]:
        print_judgement(judged)
    first, second = (judged["run"] for judged in report["runs"])
    chance, unit = report["probability_of_improvement"], report["unit"]
    say(
        f"{first} minus {second}: {report['difference']:.1f}, 95 % interval "
        f"{report['low']:.1f} to {report['high']:.1f} ({unit}s are the unit)"
    )
    say(
        f"probability that the first is better: {chance['p']:.2f}, "
        f"{chance['low']:.2f} to {chance['high']:.2f}"
    )
    if unit == "episode":
        say("of these two policies; how their algorithms compare takes several seeds")


def print_plotted(report: dict[str, Any]) -> None:
    for row in report["curves"]:
        spread = "" if row["std"] is None else f" +- {row['std']:.1f}"
        seeds = f"{row['seeds']} of {row['of']} seeds"
        say(
            f"{row['env']} {row['label']}: {row['score']:.1f}{spread} "
            f"at {row['steps']:,} steps, {seeds}"
        )
    say(f"figure: {report['file']}")


def print_played(report: dict[str, Any]) -> None:
    for row in report["episodes"]:
        end = f"{row['length']} steps, {row['ended']}"
        say(f"{row['run']} seed {row['seed']}: return {row['return']:.1f} ({end})")
    for file in report["files"]:
        say(f"written: {file}")


def print_run(report: dict[str, Any]) -> None:
    say(f"run: {report['run']}")
    say(f"next: penfac eval {shlex.quote(report['run'])}")


def print_files(report: dict[str, Any]) -> None:
    say(f"bundle: {' and '.join(report['files'])}")


def print_presets(rows: list[dict[str, Any]], algo: str, env: str) -> None:
    table = Table(title=f"{algo} on {env}: presets, and the paper's tables")
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_cell(v) for v in value) or "none"
    # escaped: rich would take the [device] of a pip command for a style of its own
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def print_environments(rows: list[dict[str, Any]]) -> None:
    table = Table()
    for column in ("id", "observations", "actions", "time limit", "engine", "note"):
        table.add_column(column, no_wrap=column == "id")  # an id is there to be copied
    for row in rows:
        table.add_row(*(_cell(v) for v in row.values()))
    console.print(table)
    say("Any other Gymnasium id with a Box of actions works too: --env module:Id")


def print_algorithms(rows: list[dict[str, str]]) -> None:
    table = Table()
    for column in ("algorithm", "paper", "what it is"):
        table.add_column(column)
    for row in rows:
        table.add_row(row["name"], row["section"], row["summary"])
    console.print(table)


def print_bench(report: dict[str, Any], what: str) -> None:
    where = f" on {report['device']}" if "device" in report else ""
    table = Table(title=f"penfac bench {what}{where}")
    for column in ("figure", "measured", "aim"):
        table.add_column(column)
    for row in report["figures"]:
        table.add_row(row["figure"], row["measured"], row["aim"])
    console.print(table)
