"""The commands. Heavy imports happen inside them: `penfac --help` must answer at once."""

import importlib
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from penfac.arguments import (
    bounds,
    duration,
    env_arguments,
    picture_size,
    seed_list,
    timeout,
    whole,
)
from penfac.errors import ConfigError, PenfacError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Learn deterministic controllers by following the sign of the advantage.",
)

DEFAULT_ENV = "RoboschoolHalfCheetah-v2"


def main() -> NoReturn:
    """Run a command; whatever fails becomes one line and the right exit code."""
    try:
        code = app(standalone_mode=False, prog_name="penfac")
        sys.exit(code if isinstance(code, int) else 0)
    except PenfacError as error:
        leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        leave("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error)
            sys.exit(2)
        if hasattr(error, "format_message"):  # the command line's own usage errors
            where = getattr(getattr(error, "ctx", None), "command_path", "penfac")
            message = f"{error.format_message().rstrip('.')} (see {where} --help)"  # type: ignore[attr-defined]
            leave(message, 2)
        raise


def leave(message: str, code: int) -> NoReturn:
    print(f"penfac: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


# --- commands --------------------------------------------------------------------------

StopAfter = Annotated[
    str | None, typer.Option(help="Stop in time and save: 90s, 9m, 2h.")
]
CheckpointEvery = Annotated[str, typer.Option(help="Time between two checkpoints.")]
EnvTimeout = Annotated[
    str, typer.Option(help="A call of the environment may last this long.")
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", help="So many learners share a program on a device."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, nothing else.")
]
Run = Annotated[Path, typer.Argument(help="A run folder.")]


@app.command()
def train(
    env: Annotated[
        str, typer.Option(help="A Gymnasium id; module:Id for your own.")
    ] = DEFAULT_ENV,
    algo: Annotated[str, typer.Option(help="See `penfac algos`.")] = "penfac",
    steps: Annotated[
        str, typer.Option("-n", "--steps", help="Environment steps.")
    ] = "1e6",
    seed: Annotated[str, typer.Option(help="One seed.")] = "0",
    seeds: Annotated[str | None, typer.Option(help="Many: 8, 10-19 or 3,5,8.")] = None,
    preset: Annotated[
        str, typer.Option(help="See `penfac presets ALGO`; or a .toml file.")
    ] = "tuned",
    set_: Annotated[
        list[str], typer.Option("--set", help="key=value, as often as needed.")
    ] = [],  # noqa: B006  typer's way
    arms: Annotated[
        str | None,
        typer.Option(help="Several configs at once: ablation, or a .toml file."),
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
    name: Annotated[
        str | None, typer.Option(help="The folder's name; default ENV_k.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Leave two files, not folders: see `penfac runs unpack`."),
    ] = None,
    on: Annotated[str, typer.Option(help="auto, cpu or device.")] = "auto",
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
    from penfac import presets
    from penfac.envs.gym import EnvOptions
    from penfac.request import Request
    from penfac.trial import Limits, start

    if eval_protocol not in ("steps", "authors"):
        raise ConfigError(f"--eval-protocol {eval_protocol}: is steps or authors")
    check_words(on, name)
    authors = eval_protocol == "authors"
    every = None if eval_every is None else whole(eval_every, "--eval-every")
    limit = max_episode_steps
    request = Request(
        env=env,
        algo=algo,
        preset=preset,
        settings=parse_set(algo, set_),
        arms=None if arms is None else presets.arms(arms),
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
    from penfac.bundle import start_into

    return follow(lambda listener: start_into(into, request, limits, listener), json_)


def check_words(on: str, name: str | None) -> None:
    if on not in ("auto", "cpu", "device"):
        raise ConfigError(f"--on {on}: is auto, cpu or device")
    if name is not None and (not name.strip() or "/" in name or name.startswith(".")):
        raise ConfigError(f"--name {name}: needs a plain folder name")


def at_once(text: str | None) -> int | None:
    size = None if text is None else whole(text, "--slice")
    if size is not None and size < 1:
        raise ConfigError(f"--slice {text}: needs at least 1")
    return size


def parse_set(algo: str, pairs: list[str]) -> dict[str, Any]:
    from penfac.algos import ALGORITHMS
    from penfac.configs import parse_settings

    known = ALGORITHMS.get(
        algo
    )  # an unknown one is refused with the rest of the request
    return parse_settings(known.config, pairs) if known else {}


@app.command()
def tune(
    env: Annotated[
        str, typer.Option(help="A Gymnasium id; module:Id for your own.")
    ] = DEFAULT_ENV,
    algo: Annotated[str, typer.Option(help="See `penfac algos`.")] = "penfac",
    steps: Annotated[
        str, typer.Option("-n", "--steps", help="Environment steps of a whole run.")
    ] = "5e5",
    configs: Annotated[int, typer.Option(help="So many, the preset among them.")] = 64,
    halvings: Annotated[
        int, typer.Option(help="So often the worse half goes, at 1/2, 1/4, ... steps.")
    ] = 2,
    seeds: Annotated[
        str, typer.Option(help="Of tuning; apart from those you will report.")
    ] = "1000-1002",
    space: Annotated[
        str, typer.Option(help="default, paper (its tables), or a .toml file.")
    ] = "default",
    preset: Annotated[str, typer.Option(help="What the search starts from.")] = "tuned",
    set_: Annotated[
        list[str], typer.Option("--set", help="key=value, as often as needed.")
    ] = [],  # noqa: B006
    draw: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    eval_every: Annotated[
        str | None, typer.Option(help="Steps; default a twentieth.")
    ] = None,
    eval_episodes: Annotated[
        str, typer.Option(help="Episodes of mu an evaluation.")
    ] = "10",
    out: Annotated[Path, typer.Option(help="Where its folder goes.")] = Path("runs"),
    name: Annotated[
        str | None, typer.Option(help="The folder's name; default ENV_k.")
    ] = None,
    on: Annotated[str, typer.Option(help="auto, cpu or device.")] = "auto",
    slice_: Slice = None,
    processes: Annotated[
        int | None, typer.Option(help="Without an accelerator; default one a core.")
    ] = None,
    stop_after: StopAfter = None,
    json_: Json = False,
) -> int:
    """Search for better settings; leaves a table and a preset file of the best."""
    from penfac import terminal
    from penfac import tune as search
    from penfac.request import Request
    from penfac.trial import Limits

    check_words(on, name)
    request = Request(
        env=env,
        algo=algo,
        preset=preset,
        settings=parse_set(algo, set_),
        steps=whole(steps, "--steps"),
        seeds=seed_list("0", seeds),
        eval_every=None if eval_every is None else whole(eval_every, "--eval-every"),
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
    return follow(go, json_, terminal.FOUND)


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
    from penfac import bundle, terminal, trial
    from penfac import tune as search
    from penfac.trial import Limits

    limits = Limits(
        stop_after=None if stop_after is None else duration(stop_after, "--stop-after"),
        checkpoint_every=duration(checkpoint_every, "--checkpoint-every"),
        env_timeout=timeout(env_timeout),
        at_once=at_once(slice_),
    )
    budget = None if steps is None else whole(steps, "--steps")
    if search.is_search(run):
        if steps is not None:
            raise ConfigError(
                f"--steps {steps}: {run} is a search, its budget is fixed"
            )
        go = lambda listener: search.resume(run, limits, listener)  # noqa: E731
        return follow(go, json_, terminal.FOUND)
    go_on = bundle.resume_into if bundle.is_bundle(run) else trial.resume
    return follow(lambda listener: go_on(run, limits, listener, budget), json_)


def follow(go: Any, as_json: bool, told: Any = None) -> int:
    """Run something with someone watching; its outcome is the last thing said."""
    from penfac import terminal

    document, show = told or terminal.OUTCOME
    listener = terminal.listener(quiet=as_json)
    try:
        with terminal.nothing_else_said(as_json):
            outcome = go(listener)
    finally:
        listener.close()
    if as_json:
        print(json.dumps(document(outcome), indent=2))
    else:
        show(outcome)
    for who, error in getattr(outcome, "errors", {}).items():
        print(f"penfac: {who}: {' '.join(error.split())}", file=sys.stderr)
    return outcome.exit_code


def reply(as_json: bool, work: Any, show: Any) -> int:
    """Answer with what `work` found: as JSON, or as `show` prints it."""
    from penfac import terminal

    with terminal.nothing_else_said(as_json):
        found = work()
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


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


runs = typer.Typer(no_args_is_help=True, help="Run folders as files, and back.")
app.add_typer(runs, name="runs")


@runs.command("unpack")
def unpack(
    file: Annotated[Path, typer.Argument(help="What --into left, either file.")],
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    json_: Json = False,
) -> int:
    """Make the run folders of a bundle, with curves and TensorBoard."""
    from penfac import bundle, terminal

    return reply(
        json_, lambda: {"run": str(bundle.unpack(file, out))}, terminal.print_run
    )


@runs.command("pack")
def pack(
    run: Run,
    file: Annotated[Path, typer.Argument(help="The name of both files.")],
    json_: Json = False,
) -> int:
    """Put a run into two files: every row, and the newest checkpoints."""
    from penfac import bundle, terminal

    work = lambda: {"files": [str(f) for f in bundle.pack_run(run, file)]}  # noqa: E731
    return reply(json_, work, terminal.print_files)


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
        str, typer.Argument(help="cpu, engines, peers, parity or device.")
    ] = "cpu",
    seeds: Annotated[
        int | None, typer.Option(help="Of the race (3), of parity (30).")
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Leave out the long comparisons.")
    ] = False,
    json_: Json = False,
) -> int:
    """Speed and memory, every figure a ratio measured in this one run."""
    from penfac import terminal

    if what not in ("cpu", "engines", "peers", "parity", "device"):
        raise ConfigError(f"bench {what}: is cpu, engines, peers, parity or device")
    if what == "device":
        from penfac.envs.builtin import need_mjx

        need_mjx("bench device")
    bench = importlib.import_module(f"penfac.bench.{what}")
    say = (lambda text: None) if json_ else terminal.say
    usual = {"cpu": 3, "parity": 30}
    options = {"seeds": seeds or usual[what]} if what in usual else {}
    if options.get("seeds", 2) < 2 and what == "parity":
        raise ConfigError(f"--seeds {seeds}: an interval needs at least 2")
    return reply(
        json_,
        lambda: bench.run(quick=quick, say=say, **options),
        lambda report: terminal.print_bench(report, what),
    )


@app.command()
def version() -> int:
    """Print the version."""
    import penfac

    print(penfac.__version__)
    return 0
