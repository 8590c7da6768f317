"""Commands that look: at a policy, at what there is, at how fast it runs."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from penfac.arguments import picture_size, whole
from penfac.cli.app import DEFAULT_ENV, Json, Run, app, reply
from penfac.errors import ConfigError


@app.command("eval")
def evaluate(
    run: Run,
    episodes: Annotated[str, typer.Option(help="Episodes to play.")] = "100",
    stochastic: Annotated[
        bool, typer.Option(help="With the exploration of training.")
    ] = False,
    json_: Json = False,
) -> int:
    """Play a learned policy on fresh initial states and say what it is worth."""
    from penfac import terminal
    from penfac.judge import judge

    count = whole(episodes, "--episodes")
    if count < 1:
        raise ConfigError(f"--episodes {episodes}: needs at least 1")
    mode = "sampled" if stochastic else "mean"
    work = lambda: judge(run, count, mode)  # noqa: E731
    return reply(json_, work, terminal.print_judgement)


@app.command()
def play(
    run: Run,
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
    """Play one episode of a learned policy into a video or a strip of pictures."""
    from penfac import terminal
    from penfac.play import Wish, play

    wish = Wish(
        video=video,
        strip=strip,
        seed=seed,
        episode=episode,
        steps=whole(steps, "--steps"),
        pictures=pictures,
        size=picture_size(size),
    )
    return reply(json_, lambda: play(run, wish), terminal.print_played)


@app.command()
def presets(
    algo: Annotated[str, typer.Argument(help="See `penfac algos`.")] = "penfac",
    env: Annotated[
        str, typer.Argument(help="Presets may differ by task.")
    ] = DEFAULT_ENV,
    json_: Json = False,
) -> int:
    """Every setting of an algorithm, by preset, beside what the paper kept and searched."""
    from penfac import catalogue, terminal

    return reply(
        json_,
        lambda: catalogue.presets_table(algo, env),
        lambda table: terminal.print_presets(table, algo, env),
    )


@app.command()
def envs(json_: Json = False) -> int:
    """Environments that work out of the box; any other Gymnasium id works too."""
    from penfac import catalogue, terminal

    return reply(json_, catalogue.environments, terminal.print_environments)


@app.command()
def algos(json_: Json = False) -> int:
    """The algorithms and where the paper has them."""
    from penfac import catalogue, terminal

    return reply(json_, catalogue.algorithms, terminal.print_algorithms)


@app.command()
def bench(
    what: Annotated[
        str,
        typer.Argument(
            help="cpu, engines, peers, parity, device, programs or studies."
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

    known = ("cpu", "engines", "peers", "parity", "device", "programs", "studies")
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
        lambda report: terminal.print_bench(report, what),
    )


@app.command()
def version() -> int:
    """Print the version."""
    import penfac

    print(penfac.__version__)
    return 0
