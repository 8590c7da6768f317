"""Commands of the zoo: policies that come with penfac."""

from typing import Annotated, Any

import typer

from penfac.cli.app import app, command, reply
from penfac.cli.arguments import picture_size, positive, whole
from penfac.cli.groups import argument, option
from penfac.cli.help import Group
from penfac.cli.options import Episode, Json, PictureSize, PlaySteps, Strip, Video

zoo = typer.Typer(
    cls=Group, no_args_is_help=True, help="Learned policies that come with penfac."
)
app.add_typer(zoo, name="zoo", rich_help_panel="Look")
Name = Annotated[str, argument("NAME", "Entry; `penfac zoo list` lists them.")]


@command(zoo, "list", examples="penfac zoo list")
def list_(json_: Json = False) -> int:
    """List the policies: task, algorithm, steps, return."""
    from penfac.zoo import document

    return reply(json_, document, print_entries)


@command(zoo, examples="penfac zoo eval cartpole-penfac --episodes 20")
def eval_(
    name: Name,
    episodes: Annotated[str, option("N", "Number of episodes.")] = "100",
    json_: Json = False,
) -> int:
    """Evaluate a policy on new initial states, beside what it reached before."""
    count = positive(episodes, "--episodes")

    def work() -> dict[str, Any]:
        from penfac.analysis.evaluate import evaluate_run
        from penfac.zoo import entries, folder_of

        report = evaluate_run(folder_of(name), count)
        known = entries()[name]
        stated = {"mean": known.mean, "std": known.std, "episodes": known.episodes}
        return report | {"run": name, "stated": stated}

    return reply(json_, work, print_judged)


@command(zoo, examples="penfac zoo play cartpole-penfac --video cart.mp4")
def play(
    name: Name,
    video: Video = None,
    strip: Strip = None,
    episode: Episode = 0,
    steps: PlaySteps = "1000",
    size: PictureSize = "480x360",
    json_: Json = False,
) -> int:
    """Show an episode of a policy: in a window, as a video or a row of pictures."""
    from penfac.analysis.play import Wish
    from penfac.analysis.play import play as play_runs
    from penfac.cli import answers
    from penfac.zoo import folder_of

    wish = Wish(
        video=video,
        strip=strip,
        episode=episode,
        steps=whole(steps, "--steps"),
        size=picture_size(size),
    )

    def work() -> dict[str, Any]:
        report = play_runs([folder_of(name)], wish)
        named = [row | {"run": name} for row in report["episodes"]]
        return report | {"episodes": named}

    return reply(json_, work, answers.print_played)


def print_entries(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from penfac import terminal

    table = Table("name", "task", "algorithm", "steps", "return")
    for row in rows:
        reached = f"{row['mean']:.1f} +- {row['std']:.1f} ({row['episodes']} episodes)"
        steps = f"{row['steps']:,}"
        table.add_row(row["name"], row["env"], row["algo"], steps, reached)
    terminal.console.print(table)
    if rows:
        terminal.say(f"look at one: penfac zoo play {rows[0]['name']} --video play.mp4")


def print_judged(report: dict[str, Any]) -> None:
    from penfac import terminal
    from penfac.cli import answers

    answers.print_judgement(report)
    known = report["stated"]
    terminal.say(
        f"zoo: {known['mean']:.1f} +- {known['std']:.1f} over {known['episodes']} episodes"
    )
