"""Commands that learn: train, tune and resume."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from penfac.cli import arguments
from penfac.cli.app import app, command, follow
from penfac.cli.arguments import if_given, whole
from penfac.cli.groups import argument, option
from penfac.cli.options import (
    BUDGET,
    PLACE,
    Environment,
    EvalEpisodes,
    Evaluation,
    Json,
    Learner,
    Place,
    Process,
    Seeds,
    Steps,
    Tracked,
    Trust,
)
from penfac.cli.search_options import Sampler, Search
from penfac.errors import ConfigError


@dataclass
class Learners(Learner):
    """What to learn."""

    arms: Annotated[
        str | None,
        option(
            "NAME", "Train several configurations: ablation, parts, or a .toml file."
        ),
    ] = None

    from_: Annotated[
        Path | None,
        option(
            "RUN",
            "Begin with the weights of another run, of the same algorithm and sizes.",
            "--from",
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        from penfac.settings import presets

        return super().asked() | {
            "start_from": self.from_,
            "arms": if_given(lambda name, _: presets.arms(name), self.arms, "--arms"),
            "distinct": self.arms is not None and not self.arms.endswith(".toml"),
        }


@dataclass
class Budget:
    """How long, with which seeds."""

    steps: Steps = "1e6"
    seed: Annotated[str, option("N", "Seed of a single run.")] = "0"
    seeds: Seeds = None

    def asked(self) -> dict[str, Any]:
        steps = whole(self.steps, "--steps")
        if self.seeds is None:
            return {"steps": steps, "seeds": (whole(self.seed, "--seed"),)}
        return {"steps": steps, "seeds": arguments.seed_list(self.seeds)}


@dataclass
class RunEvaluation(Evaluation):
    """Evaluation."""

    eval_episodes: EvalEpisodes = "10"
    eval_protocol: Annotated[
        str,
        option(
            "NAME", "steps, or authors: one episode after every 20 training episodes."
        ),
    ] = "steps"

    def asked(self) -> dict[str, Any]:
        if self.eval_protocol == "steps":
            return super().asked()
        if self.eval_protocol != "authors":
            raise ConfigError(
                f"--eval-protocol {self.eval_protocol}: must be steps or authors"
            )
        every = super().asked()["eval_every"]
        every = 20 if every is None else every
        return {"eval_every": every, "eval_episodes": 1, "eval_unit": "episodes"}


@dataclass
class SearchEvaluation(Evaluation):
    """Evaluation."""

    eval_episodes: EvalEpisodes = "5"


def greet(text: str) -> None:
    from penfac import terminal

    terminal.greet(text)


@command(
    app,
    group="Learn",
    examples="""\
penfac train --env Pendulum-v1 -n 300k
penfac train --env RoboschoolHopper-v2 -n 1e6 --seeds 5
penfac train --env your_package:YourEnv-v0 --set sigma=0.1 --set actor_hidden=32,32""",
)
def train(
    learners: Learners,
    budget: Budget,
    evaluation: RunEvaluation,
    environment: Environment,
    place: Place,
    process: Process,
    into: Annotated[
        Path | None,
        option(
            "FILE",
            "Write two files, a bundle, instead of run folders (`penfac runs "
            "unpack` makes the folders).",
            under=PLACE,
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Train a controller.

    The run folder holds the policy, its learning curve and checkpoints. Ctrl-C saves
    and stops; `penfac resume` continues.
    """
    if not json_:
        greet(f"starting {learners.algo} on {learners.env}")
    from penfac.cli import answers
    from penfac.training import trial, unpack
    from penfac.training.request import Request

    groups = (learners, budget, evaluation, environment, place)
    asked = {key: value for group in groups for key, value in group.asked().items()}
    request, limits = Request(**asked), process.limits()
    if into is None:
        work = lambda listener: trial.start(request, limits, listener)  # noqa: E731
    else:
        work = lambda listener: unpack.start_into(into, request, limits, listener)  # noqa: E731
    return follow(work, json_, answers.OUTCOME)


@command(
    app,
    group="Learn",
    examples="""\
penfac tune --env RoboschoolHopper-v2 --configs 64
penfac tune --algo ppo --space paper --halvings 2
penfac tune --env Pendulum-v1 --sampler tpe --study pendulum""",
)
def tune(
    *,
    learner: Learner,
    search: Search,
    sampler: Sampler,
    steps: Steps = "5e5",
    evaluation: SearchEvaluation,
    place: Place,
    stopping: Tracked,
    json_: Json = False,
) -> int:
    """Search for better settings.

    Trains many configurations and drops the worse half in rounds. Writes a table of
    all of them and the best one as a preset file.
    """
    from penfac.cli import answers
    from penfac.search import halving
    from penfac.training.request import Request

    budget = whole(steps, "--steps")
    asked = learner.asked() | evaluation.asked() | place.asked()
    if asked["eval_every"] is None:
        asked["eval_every"] = max(1, budget // 10)
    asked["name"] = sampler.named(asked["name"])
    request = Request(**asked, steps=budget, seeds=search.seed_list())
    wanted = search.asked(sampler=sampler.sampler, storage=sampler.storage)
    begin = halving.start if sampler.study is None else halving.start_or_resume
    limits = stopping.limits()
    work = lambda listener: begin(request, wanted, limits, listener)  # noqa: E731
    return follow(work, json_, answers.SEARCH)


@command(
    app,
    group="Learn",
    examples="""\
penfac resume runs/penfac/RoboschoolHopper-v2_1
penfac resume runs/penfac/RoboschoolHopper-v2_1 -n 2e6""",
)
def resume(
    run: Annotated[Path, argument("RUN", "Run folder, folder of a search, or bundle.")],
    process: Process,
    steps: Annotated[
        str | None,
        option(
            "N", "A new, longer budget of each seed.", "-n", "--steps", under=BUDGET
        ),
    ] = None,
    trust: Trust = False,
    json_: Json = False,
) -> int:
    """Continue a run exactly where it stopped."""
    if not json_:
        greet(f"loading {run}")
    from penfac.cli import answers
    from penfac.search import halving
    from penfac.training import bundle, trial, unpack

    limits = process.limits(trust=trust)
    budget = if_given(whole, steps, "--steps")
    if halving.is_search(run):
        if steps is not None:
            raise ConfigError(
                f"--steps {steps}: {run} is a search, whose steps are fixed; "
                "start another with `penfac tune`"
            )
        work = lambda listener: halving.resume(run, limits, listener)  # noqa: E731
        return follow(work, json_, answers.SEARCH)
    go_on = unpack.resume_into if bundle.is_bundle(run) else trial.resume
    work = lambda listener: go_on(run, limits, listener, budget)  # noqa: E731
    return follow(work, json_, answers.OUTCOME)
