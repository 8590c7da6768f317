"""What commands print when they are done, as text and as JSON."""

import shlex
import statistics
from typing import Any

from rich.table import Table

from penfac.runs.learners import Learner
from penfac.search.rungs import SearchOutcome
from penfac.terminal import console, say
from penfac.training.limits import Outcome


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "run": str(outcome.folder),
        "state": outcome.reason,
        "exit_code": outcome.exit_code,
        "steps": outcome.steps,
        "seconds": round(outcome.seconds, 3),
        "seeds": [
            learner_document(who)
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


def learner_document(who: Learner) -> dict[str, Any]:
    return ({} if who.arm is None else {"arm": who.arm}) | {"seed": who.seed}


def print_outcome(outcome: Outcome) -> None:
    """Print the return of the learned policies, where the run is, what to do next."""
    say("")
    print_returns(outcome)
    rate = outcome.steps_now / outcome.seconds if outcome.seconds > 0 else 0
    took = f"{outcome.steps_now:,} steps in {outcome.seconds:.0f} s"
    say(f"{outcome.reason}: {took} ({rate:,.0f} steps/s)")
    folder = shlex.quote(str(outcome.folder))
    trust = trust_option(outcome.env)
    bundle = outcome.folder.suffix == ".safetensors"
    if bundle:
        say(f"bundle: {outcome.folder} and its .csv")
        say(f"folders: penfac runs unpack {folder}")
    else:
        say(f"run: {outcome.folder}   curve: {outcome.folder / 'curve.png'}")
    if outcome.reason != "finished":
        say(f"continue: penfac resume {folder}{trust}")
    elif not bundle:
        say(f"next: penfac eval {folder}{trust}")


def trust_option(env: str) -> str:
    """What a command needs that is to import the environment's module."""
    return " --trust" * (":" in env)


def print_returns(outcome: Outcome) -> None:
    points = outcome.finals
    # a run that was stopped was evaluated some steps earlier
    last = max((point.step for point in points.values()), default=0)
    when = "" if outcome.reason == "finished" else f" at step {last:,}"
    returns: dict[str | None, list[float]] = {}
    for who, point in points.items():
        returns.setdefault(who.arm, []).append(statistics.fmean(point.returns))
    if len(returns) > 1:
        say(f"return of the learned policies{when}, mean over seeds:")
        print_arms(returns)
    elif len(points) > 1:
        (means,) = returns.values()
        say(
            f"return of the learned policies{when}: {mean_and_spread(means)} "
            f"over {len(means)} seeds (worst {min(means):.1f})"
        )
    elif points:
        (point,) = points.values()
        say(
            f"return of the learned policy{when}: {statistics.fmean(point.returns):.1f}  "
            f"(without noise, mean of {len(point.returns)} episodes, "
            f"std {statistics.pstdev(point.returns):.1f})"
        )


def print_arms(returns: dict[str | None, list[float]]) -> None:
    """Print one line an arm, with its difference to the first arm."""
    first = next(iter(returns))
    for arm, means in returns.items():
        line = f"  {arm}: {mean_and_spread(means)} ({len(means)} seeds)"
        if arm != first and min(len(means), len(returns[first])) > 1:
            from penfac.stats import welch  # scipy's statistics load for long

            d = welch(means, returns[first])
            line += f", {d.difference:+.1f} [{d.low:+.1f}, {d.high:+.1f}] to {first}"
        say(line)


def mean_and_spread(values: list[float]) -> str:
    spread = f" +- {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{spread}"


OUTCOME = (outcome_document, print_outcome)


def search_document(found: SearchOutcome) -> dict[str, Any]:
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


def print_search(found: SearchOutcome) -> None:
    """Print the best ten configurations of the last round, and where the files are."""
    last = max((row.rung for row in found.rows), default=0)
    rows = [row for row in found.rows if row.rung == last]
    say("")
    if rows:
        title = f"best configurations at {rows[0].steps:,} steps"
        table = Table("config", "score", "seeds", "settings", title=title)
        for row in rows[:10]:
            score = "failed" if row.failed else f"{row.score:.1f}"
            seeds = ", ".join(f"{x:.0f}" for x in row.scores.values())
            table.add_row(row.config, score, seeds, _cell(found.settings[row.config]))
        console.print(table)
    failed = sum(bool(row.failed) for row in found.rows)
    say(f"{found.reason}: {len(found.settings)} configs, {failed} failed")
    say(f"table: {found.folder / 'search.csv'}")
    folder = shlex.quote(str(found.folder))
    if found.preset is None:
        say(f"continue: penfac resume {folder}{trust_option(found.env)}")
    else:
        say(f"preset: {found.preset}   (train with --preset, on other seeds)")


SEARCH = (search_document, print_search)


def print_judgement(report: dict[str, Any]) -> None:
    table = Table(
        title=f"{report['algo']} on {report['env']} ({report['mode']} action, "
        f"{'best' if report['policy'] == 'policy-best' else 'last'} policy)"
    )
    arms = ["arm"] if "arms" in report else []
    columns = ("seed", "step", "return", "std", "min", "max", "length", "terminated")
    for column in (*arms, *columns):
        table.add_column(column, justify="right")
    for row in report["seeds"]:
        ended = f"{row['terminated']}/{report['episodes']}"
        numbers = (row[k] for k in ("mean", "std", "min", "max", "mean_length"))
        table.add_row(
            *(row[k] for k in arms),
            str(row["seed"]),
            "-" if row["step"] is None else f"{row['step']:,}",
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
        f"{report['low']:.1f} to {report['high']:.1f} (over {unit}s)"
    )
    say(
        f"probability that the first is better: {chance['p']:.2f}, "
        f"{chance['low']:.2f} to {chance['high']:.2f}"
    )
    if unit == "episode":
        say("this compares two policies; to compare algorithms, train several seeds")


def print_plotted(report: dict[str, Any]) -> None:
    for row in report["curves"]:
        spread = "" if row["std"] is None else f" +- {row['std']:.1f}"
        seeds = f"{row['seeds']} of {row['of']} seeds"
        say(
            f"{' '.join(filter(None, (row['env'], row['label'])))}: "
            f"{row['score']:.1f}{spread} "
            f"at {row['steps']:,} steps, {seeds}"
        )
    say_newer(sum(row["newer"] for row in report["curves"]))
    say(f"figure: {report['file']}")


def say_newer(rows: int) -> None:
    """Tell of figures that may go when a run is resumed."""
    if rows:
        say(f"{rows:,} rows newer than the checkpoint of their run are among these")


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
    """Print the values of each setting, then what each means."""
    last = ("takes", "means")
    values = [name for name in rows[0] if name not in last]
    table = Table(*values, title=f"{algo} on {env}: presets, and the paper's tables")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in values))
    console.print(table)
    table = Table("setting", *last, title="what they mean")
    for row in rows:
        table.add_row(row["setting"], *(_cell(row[name]) for name in last))
    console.print(table)
    say(f"change one: penfac train --algo {algo} --set {rows[0]['setting']}=VALUE")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_cell(v) for v in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def print_environments(rows: list[dict[str, Any]]) -> None:
    table = Table()
    for column in ("id", "observations", "actions", "time limit", "engine", "note"):
        table.add_column(column, no_wrap=column == "id")  # so that it can be copied
    for row in rows:
        table.add_row(*(_cell(v) for v in row.values()))
    console.print(table)
    say("Any other Gymnasium id with continuous actions works: --env MODULE:ID")


def print_algorithms(rows: list[dict[str, str]]) -> None:
    table = Table("algorithm", "paper", "what it is")
    for row in rows:
        table.add_row(row["name"], row["section"], row["summary"])
    console.print(table)


def print_bench(report: dict[str, Any], what: str) -> None:
    where = f" on {report['device']}" if "device" in report else ""
    table = Table("figure", "measured", "aim", title=f"penfac bench {what}{where}")
    for row in report["figures"]:
        table.add_row(row["figure"], row["measured"], row["aim"])
    console.print(table)
