"""Commands that look: at a policy, at learning curves, at speed."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any

from penfac.cli import arguments
from penfac.cli.app import app, command, reply
from penfac.cli.arguments import picture_size, positive, whole
from penfac.cli.groups import argument, flag, option
from penfac.cli.options import (
    Best,
    Episode,
    Json,
    PictureSize,
    PlaySteps,
    PolicySeed,
    Runs,
    Strip,
    Trust,
    Video,
    import_from_here,
)
from penfac.errors import ConfigError

BENCHES = (
    "cpu", "mine", "engines", "rivals", "peers", "parity", "lockstep", "device",
    "programs", "studies", "policy",
)  # fmt: skip


@command(
    app,
    "eval",
    group="Look",
    examples="""\
penfac eval runs/penfac/RoboschoolHopper-v2_1
penfac eval runs/penfac/RoboschoolHopper-v2_1 runs/ppo/RoboschoolHopper-v2_1 --compare""",
)
def evaluate(
    runs: Runs,
    episodes: Annotated[str, option("N", "Number of episodes of each seed.")] = "100",
    best: Best = False,
    stochastic: Annotated[bool, flag("Act with the exploration of training.")] = False,
    compare: Annotated[
        bool, flag("Compare two runs: difference and 95 % interval.", "--compare")
    ] = False,
    trust: Trust = False,
    json_: Json = False,
) -> int:
    """Evaluate a policy on new initial states.

    With --compare the second may be of another program: sb3:PPO:model.zip, or
    MODULE:NAME of an object with `predict`.
    """
    from penfac.analysis.compare import compare as compare_runs
    from penfac.analysis.evaluate import evaluate_run
    from penfac.analysis.others import is_other
    from penfac.cli import answers

    count = positive(episodes, "--episodes")
    mode = "sampled" if stochastic else "mean"
    if compare:
        import_from_here(any(is_other(run) for run in runs))
        work = lambda: compare_runs(runs, count, mode, best, trust)  # noqa: E731
        return reply(json_, work, answers.print_comparison)
    if len(runs) > 1:
        raise ConfigError(
            f"eval: takes one run, or two with --compare (got {len(runs)})"
        )
    work = lambda: evaluate_run(runs[0], count, mode, best, trust)  # noqa: E731
    return reply(json_, work, answers.print_judgement)


@command(
    app,
    group="Look",
    examples="""\
penfac plot runs/penfac/RoboschoolHopper-v2_1 runs/ppo/RoboschoolHopper-v2_1
penfac plot runs/penfac/* --out curves.pdf
penfac plot runs/*/Hopper-v5_1 curves-of-others.csv --apart""",
)
def plot(
    runs: Runs,
    out: Annotated[Path, option("FILE", "Figure to write: .png, .svg or .pdf.")] = Path(
        "plot.png"
    ),
    apart: Annotated[
        bool, flag("Draw each run in a panel of its own, the others in grey.")
    ] = False,
    json_: Json = False,
) -> int:
    """Plot the learning curves of runs in one figure.

    A band shows the spread over seeds, the legend their number. A .csv file with the
    columns seed, step and return is a run too.
    """
    from penfac.analysis.compare import plot as plot_runs
    from penfac.cli import answers

    return reply(json_, lambda: plot_runs(runs, out, apart), answers.print_plotted)


@command(
    app,
    group="Look",
    examples="""\
penfac play runs/penfac/RoboschoolHopper-v2_1
penfac play runs/penfac/RoboschoolHopper-v2_1 --video hop.mp4""",
)
def play(
    runs: Runs,
    video: Video = None,
    strip: Strip = None,
    seed: PolicySeed = None,
    best: Best = False,
    episode: Episode = 0,
    steps: PlaySteps = "1000",
    pictures: Annotated[int, option("N", "Number of pictures in a --strip.")] = 8,
    size: PictureSize = "480x360",
    trust: Trust = False,
    json_: Json = False,
) -> int:
    """Show an episode of learned policies, side by side.

    Opens a window, or writes a video or a row of pictures.
    """
    from penfac.analysis.play import Wish
    from penfac.analysis.play import play as play_runs
    from penfac.cli import answers

    wish = Wish(
        video=video,
        strip=strip,
        seed=seed,
        best=best,
        episode=episode,
        steps=whole(steps, "--steps"),
        pictures=pictures,
        size=picture_size(size),
        trust=trust,
    )
    return reply(json_, lambda: play_runs(runs, wish), answers.print_played)


@command(
    app,
    group="Look",
    examples="penfac bench cpu --quick\npenfac bench mine --env HalfCheetah-v5",
)
def bench(
    what: Annotated[
        str, argument("WHAT", f"{', '.join(BENCHES[:-1])} or {BENCHES[-1]}.")
    ] = "cpu",
    seeds: Annotated[
        int | None, option("N", "Number of seeds.  [default: rivals 3, parity 30]")
    ] = None,
    env: Annotated[str | None, option("ID", "Task to measure (mine).")] = None,
    algo: Annotated[str, option("NAME", "Algorithm that learns it (mine).")] = "penfac",
    env_workers: Annotated[
        str, option("N", "Processes that step the environments, or auto (mine).")
    ] = "auto",
    quick: Annotated[bool, flag("Leave out the long comparisons.")] = False,
    picture: Annotated[
        Path | None, option("FILE", "Write the cost of an update as .png (programs).")
    ] = None,
    json_: Json = False,
) -> int:
    """Measure speed and memory.

    Every figure is a ratio of two measurements made in this one run. `mine` tells where
    the time of a run on your own task goes.
    """
    from penfac import terminal
    from penfac.cli import answers

    if what == "mine":
        options = task_options(env, algo, env_workers)
    else:
        options = bench_options(what, seeds, picture)
    module = importlib.import_module(f"penfac.bench.{what}")

    def work() -> dict[str, Any]:
        report = module.run(quick=quick, say=terminal.say, **options)
        if picture is not None:
            picture.write_bytes(module.picture(report))
        return report

    return reply(json_, work, lambda report: answers.print_bench(report, what))


def task_options(env: str | None, algo: str, workers: str) -> dict[str, Any]:
    """Check the options of the benchmark of a user's task."""
    if env is None:
        raise ConfigError("bench mine: needs the task to measure; add --env ID")
    return {"env": env, "algo": algo, "env_workers": arguments.env_workers(workers)}


def bench_options(what: str, seeds: int | None, picture: Path | None) -> dict[str, int]:
    """Check the options of a benchmark; return what its `run` takes."""
    if what not in BENCHES:
        raise ConfigError(f"bench {what}: must be one of {', '.join(BENCHES)}")
    if what in ("device", "programs"):
        from penfac.envs.builtin import need_mjx

        need_mjx(f"bench {what}")
    if what in ("rivals", "lockstep") and not importlib.util.find_spec(
        "stable_baselines3"
    ):
        raise ConfigError(f'bench {what}: needs pip install "penfac[peers]"')
    if picture is not None and what != "programs":
        raise ConfigError(f"--picture {picture}: works with `bench programs` only")
    if what == "parity" and seeds is not None and seeds < 2:
        raise ConfigError(f"--seeds {seeds}: must be at least 2, for an interval")
    usual = {"rivals": 3, "parity": 30}
    return {"seeds": seeds or usual[what]} if what in usual else {}
