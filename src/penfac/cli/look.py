"""Commands that look: at a policy, at what there is, at how fast it runs."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from penfac.cli.app import DEFAULT_ENV, Json, app, reply
from penfac.cli.arguments import picture_size, whole
from penfac.errors import ConfigError

Runs = Annotated[list[Path], typer.Argument(help="Run folders.")]


@app.command("eval")
def evaluate(
    runs: Runs,
    episodes: Annotated[str, typer.Option(help="Episodes to play.")] = "100",
    stochastic: Annotated[
        bool, typer.Option(help="With the exploration of training.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two runs: the difference, its interval.")
    ] = False,
    json_: Json = False,
) -> int:
    """Play a learned policy on fresh initial states and say what it is worth."""
    from penfac.analysis.compare import compare as compared
    from penfac.analysis.judge import judge
    from penfac.cli import answers

    count = whole(episodes, "--episodes")
    if count < 1:
        raise ConfigError(f"--episodes {episodes}: needs at least 1")
    mode = "sampled" if stochastic else "mean"
    if compare:
        work = lambda: compared(runs, count, mode)  # noqa: E731
        return reply(json_, work, answers.print_comparison)
    if len(runs) > 1:
        raise ConfigError(
            f"eval: one run at a time, or two with --compare; {len(runs)}"
        )
    return reply(json_, lambda: judge(runs[0], count, mode), answers.print_judgement)


@app.command()
def plot(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="A .png, .svg or .pdf.")] = Path("plot.png"),
    json_: Json = False,
) -> int:
    """Learning curves of runs beside each other, with bands and numbers of seeds."""
    from penfac.analysis.compare import plot as draw
    from penfac.cli import answers

    return reply(json_, lambda: draw(runs, out), answers.print_plotted)


@app.command()
def play(
    runs: Runs,
    video: Annotated[Path | None, typer.Option(help="A .mp4, .webm or .gif.")] = None,
    strip: Annotated[
        Path | None, typer.Option(help="A .png of several moments.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Whose policy; the first's.")] = None,
    episode: Annotated[int, typer.Option(help="Which initial state.")] = 0,
    steps: Annotated[str, typer.Option(help="At most so many steps.")] = "1000",
    pictures: Annotated[int, typer.Option(help="How many a strip has.")] = 8,
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT of a picture.")] = "480x360",
    json_: Json = False,
) -> int:
    """Play an episode of learned policies, side by side: in a window, or into a file."""
    from penfac.analysis.play import Wish, play
    from penfac.cli import answers

    wish = Wish(
        video=video,
        strip=strip,
        seed=seed,
        episode=episode,
        steps=whole(steps, "--steps"),
        pictures=pictures,
        size=picture_size(size),
    )
    return reply(json_, lambda: play(runs, wish), answers.print_played)


@app.command()
def presets(
    algo: Annotated[str, typer.Argument(help="See `penfac algos`.")] = "penfac",
    env: Annotated[
        str, typer.Argument(help="Presets may differ by task.")
    ] = DEFAULT_ENV,
    json_: Json = False,
) -> int:
    """Every setting of an algorithm, by preset, beside what the paper kept and searched."""
    from penfac.cli import answers, catalogue

    return reply(
        json_,
        lambda: catalogue.presets_table(algo, env),
        lambda table: answers.print_presets(table, algo, env),
    )


@app.command()
def envs(json_: Json = False) -> int:
    """Environments that work out of the box; any other Gymnasium id works too."""
    from penfac.cli import answers, catalogue

    return reply(json_, catalogue.environments, answers.print_environments)


@app.command()
def algos(json_: Json = False) -> int:
    """The algorithms and where the paper has them."""
    from penfac.cli import answers, catalogue

    return reply(json_, catalogue.algorithms, answers.print_algorithms)


@app.command()
def bench(
    what: Annotated[
        str,
        typer.Argument(
            help="cpu, engines, peers, parity, device, programs, studies, policy."
        ),
    ] = "cpu",
    seeds: Annotated[
        int | None, typer.Option(help="Of the race (3), of parity (30).")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Leave out the long comparisons.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Of programs: what an update costs, as PNG.")
    ] = None,
    json_: Json = False,
) -> int:
    """Speed and memory, every figure a ratio measured in this one run."""
    from penfac import terminal
    from penfac.cli import answers

    known = (
        "cpu", "engines", "peers", "parity", "device", "programs", "studies", "policy",
    )  # fmt: skip
    if what not in known:
        raise ConfigError(f"bench {what}: is one of {', '.join(known)}")
    if what in ("device", "programs"):
        from penfac.envs.builtin import need_mjx

        need_mjx(f"bench {what}")
    bench = importlib.import_module(f"penfac.bench.{what}")
    usual = {"cpu": 3, "parity": 30}
    options = {"seeds": seeds or usual[what]} if what in usual else {}
    if options.get("seeds", 2) < 2 and what == "parity":
        raise ConfigError(f"--seeds {seeds}: an interval needs at least 2")
    if picture is not None and what != "programs":
        raise ConfigError(f"--picture {picture}: only of programs")

    def work() -> dict[str, Any]:
        report = bench.run(quick=quick, say=terminal.say, **options)
        if picture is not None:
            picture.write_bytes(bench.picture(report))
        return report

    return reply(
        json_,
        work,
        lambda report: answers.print_bench(report, what),
    )


@app.command()
def version() -> int:
    """Print the version."""
    import penfac

    print(penfac.__version__)
    return 0
