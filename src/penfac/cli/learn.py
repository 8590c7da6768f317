"""Commands that learn: train, tune, resume; and runs as files."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penfac.cli.app import (
    DEFAULT_ENV,
    CheckpointEvery,
    EnvTimeout,
    Json,
    Run,
    Slice,
    StopAfter,
    app,
    follow,
    reply,
)
from penfac.cli.arguments import (
    at_once,
    bounds,
    check_place,
    duration,
    env_arguments,
    seed_list,
    timeout,
    whole,
)
from penfac.errors import ConfigError

# what train and tune both ask
Env = Annotated[str, typer.Option(help="A Gymnasium id; module:Id for your own.")]
Algo = Annotated[str, typer.Option(help="See `penfac algos`.")]
Settings = Annotated[
    list[str], typer.Option("--set", help="key=value, as often as needed.")
]
Name = Annotated[str | None, typer.Option(help="The folder's name; default ENV_k.")]
On = Annotated[str, typer.Option(help="auto, cpu or device.")]


@app.command()
def train(
    env: Env = DEFAULT_ENV,
    algo: Algo = "penfac",
    steps: Annotated[
        str, typer.Option("-n", "--steps", help="Environment steps.")
    ] = "1e6",
    seed: Annotated[str, typer.Option(help="One seed.")] = "0",
    seeds: Annotated[str | None, typer.Option(help="Many: 8, 10-19 or 3,5,8.")] = None,
    preset: Annotated[
        str, typer.Option(help="See `penfac presets ALGO`; or a .toml file.")
    ] = "tuned",
    set_: Settings = [],  # noqa: B006  typer's way
    arms: Annotated[
        str | None,
        typer.Option(help="Several configs at once: ablation, parts, or a .toml file."),
    ] = None,
    eval_every: Annotated[
        str | None, typer.Option(help="Steps; default a twentieth.")
    ] = None,
    eval_episodes: Annotated[
        str, typer.Option(help="Episodes of mu an evaluation.")
    ] = "10",
    eval_protocol: Annotated[
        str,
        typer.Option(help="steps; or authors: 1 episode every 20 training episodes."),
    ] = "steps",
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    name: Name = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Leave two files, not folders: see `penfac runs unpack`."),
    ] = None,
    on: On = "auto",
    slice_: Slice = None,
    stop_after: StopAfter = None,
    checkpoint_every: CheckpointEvery = "15s",
    max_episode_steps: Annotated[
        str | None, typer.Option(help="A time limit of your own.")
    ] = None,
    action_bounds: Annotated[
        str | None, typer.Option(help="LOW,HIGH for an unbounded action space.")
    ] = None,
    flatten_obs: Annotated[
        bool, typer.Option(help="Join a dict of observations.")
    ] = False,
    env_arg: Annotated[
        list[str], typer.Option("--env-arg", help="key=value for the environment.")
    ] = [],  # noqa: B006
    env_restarts: Annotated[
        int, typer.Option(help="How often a broken world is replaced.")
    ] = 0,
    env_timeout: EnvTimeout = "5m",
    json_: Json = False,
) -> int:
    """Learn a controller; leaves a run folder with policy, curve and checkpoints."""
    from penfac.envs.gym import EnvOptions
    from penfac.settings import presets
    from penfac.training.events import Limits
    from penfac.training.request import Request
    from penfac.training.trial import start

    if eval_protocol not in ("steps", "authors"):
        raise ConfigError(f"--eval-protocol {eval_protocol}: is steps or authors")
    check_place(on, name)
    authors = eval_protocol == "authors"
    every = None if eval_every is None else whole(eval_every, "--eval-every")
    limit = max_episode_steps
    request = Request(
        env=env,
        algo=algo,
        preset=preset,
        settings=parse_set(algo, set_),
        arms=None if arms is None else presets.arms(arms),
        distinct=arms is not None and not arms.endswith(".toml"),
        steps=whole(steps, "--steps"),
        seeds=seed_list(seed, seeds),
        eval_every=20 if authors and every is None else every,
        eval_episodes=1 if authors else whole(eval_episodes, "--eval-episodes"),
        eval_unit="episodes" if authors else "steps",
        options=EnvOptions(
            max_episode_steps=None
            if limit is None
            else whole(limit, "--max-episode-steps"),
            action_bounds=bounds(action_bounds),
            flatten_obs=flatten_obs,
            kwargs=env_arguments(env_arg),
        ),
        restarts=env_restarts,
        on=on,
        out=out,
        name=name,
    )
    limits = Limits(
        stop_after=None if stop_after is None else duration(stop_after, "--stop-after"),
        checkpoint_every=duration(checkpoint_every, "--checkpoint-every"),
        env_timeout=timeout(env_timeout),
        command=shlex.join(["penfac", *sys.argv[1:]]),
        at_once=at_once(slice_),
    )
    if into is None:
        return follow(lambda listener: start(request, limits, listener), json_)
    from penfac.training.bundle import start_into

    return follow(lambda listener: start_into(into, request, limits, listener), json_)


def parse_set(algo: str, pairs: list[str]) -> dict[str, Any]:
    from penfac.algos import ALGORITHMS
    from penfac.settings.configs import parse_settings

    known = ALGORITHMS.get(
        algo
    )  # an unknown one is refused with the rest of the request
    return parse_settings(known.config, pairs) if known else {}


@app.command()
def tune(
    env: Env = DEFAULT_ENV,
    algo: Algo = "penfac",
    steps: Annotated[
        str, typer.Option("-n", "--steps", help="Environment steps of a whole run.")
    ] = "5e5",
    configs: Annotated[int, typer.Option(help="So many, the preset among them.")] = 64,
    halvings: Annotated[
        int, typer.Option(help="So often the worse half goes, at 1/2, 1/4, ... steps.")
    ] = 1,
    seeds: Annotated[
        str, typer.Option(help="first-last; apart from those you will report on.")
    ] = "1000-1002",
    space: Annotated[
        str, typer.Option(help="default, paper (its tables), or a .toml file.")
    ] = "default",
    preset: Annotated[str, typer.Option(help="What the search starts from.")] = "tuned",
    set_: Settings = [],  # noqa: B006
    draw: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    eval_every: Annotated[
        str | None, typer.Option(help="Steps; default a tenth.")
    ] = None,
    eval_episodes: Annotated[
        str, typer.Option(help="Episodes of mu an evaluation.")
    ] = "5",
    out: Annotated[Path, typer.Option(help="Where its folder goes.")] = Path("runs"),
    name: Name = None,
    on: On = "auto",
    slice_: Slice = None,
    processes: Annotated[
        int | None, typer.Option(help="Without an accelerator; default one a core.")
    ] = None,
    stop_after: StopAfter = None,
    json_: Json = False,
) -> int:
    """Search for better settings; leaves a table and a preset file of the best."""
    from penfac.cli import answers
    from penfac.search import halving as search
    from penfac.training.events import Limits
    from penfac.training.request import Request

    check_place(on, name)
    budget = whole(steps, "--steps")
    request = Request(
        env=env,
        algo=algo,
        preset=preset,
        settings=parse_set(algo, set_),
        steps=budget,
        seeds=seed_list("0", seeds),
        eval_every=max(1, budget // 10)
        if eval_every is None
        else whole(eval_every, "--eval-every"),
        eval_episodes=whole(eval_episodes, "--eval-episodes"),
        on=on,
        out=out,
        name=name,
    )
    wanted = search.Search(configs, halvings, space, draw, processes)
    limits = Limits(
        stop_after=None if stop_after is None else duration(stop_after, "--stop-after"),
        command=shlex.join(["penfac", *sys.argv[1:]]),
        at_once=at_once(slice_),
        checkpoint_every=60.0,
    )
    go = lambda listener: search.start(request, wanted, limits, listener)  # noqa: E731
    return follow(go, json_, answers.FOUND)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run folder, or what --into left.")],
    steps: Annotated[
        str | None, typer.Option("-n", "--steps", help="A new, longer budget.")
    ] = None,
    slice_: Slice = None,
    stop_after: StopAfter = None,
    checkpoint_every: CheckpointEvery = "15s",
    env_timeout: EnvTimeout = "5m",
    json_: Json = False,
) -> int:
    """Continue a run exactly where it stopped."""
    from penfac.cli import answers
    from penfac.search import halving as search
    from penfac.training import bundle, trial
    from penfac.training.events import Limits

    limits = Limits(
        stop_after=None if stop_after is None else duration(stop_after, "--stop-after"),
        checkpoint_every=duration(checkpoint_every, "--checkpoint-every"),
        env_timeout=timeout(env_timeout),
        command=shlex.join(["penfac", *sys.argv[1:]]),
        at_once=at_once(slice_),
    )
    budget = None if steps is None else whole(steps, "--steps")
    if search.is_search(run):
        if steps is not None:
            raise ConfigError(
                f"--steps {steps}: {run} is a search, its budget is fixed"
            )
        go = lambda listener: search.resume(run, limits, listener)  # noqa: E731
        return follow(go, json_, answers.FOUND)
    go_on = bundle.resume_into if bundle.is_bundle(run) else trial.resume
    return follow(lambda listener: go_on(run, limits, listener, budget), json_)


runs = typer.Typer(no_args_is_help=True, help="Run folders as files, and back.")
app.add_typer(runs, name="runs")


@runs.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(help="What --into left, either file.")],
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    json_: Json = False,
) -> int:
    """Make the run folders of a bundle, with curves and TensorBoard."""
    from penfac.cli import answers
    from penfac.training import bundle

    return reply(
        json_, lambda: {"run": str(bundle.unpack(file, out))}, answers.print_run
    )


@runs.command("pack")
def pack(
    run: Run,
    file: Annotated[Path, typer.Argument(help="The name of both files.")],
    json_: Json = False,
) -> int:
    """Put a run into two files: every row, and the newest checkpoints."""
    from penfac.cli import answers
    from penfac.training import bundle

    work = lambda: {"files": [str(f) for f in bundle.pack_run(run, file)]}  # noqa: E731
    return reply(json_, work, answers.print_files)
