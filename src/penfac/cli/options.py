"""Options that several commands share, each declared once.

An alias is one option. A dataclass is a group of options; its docstring is their heading
in --help, and its method `asked` or `limits` turns what was typed into what the library
takes.
"""

import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from penfac.cli import arguments
from penfac.cli.arguments import if_given, whole
from penfac.cli.groups import argument, flag, option

if TYPE_CHECKING:
    from penfac.training.limits import Limits

DEFAULT_ENV = "RoboschoolHalfCheetah-v2"
BUDGET = "How long, with which seeds"  # headings in --help
PLACE = "Where it runs, and what it writes"

Json = Annotated[bool, flag("Print one JSON document and nothing else.", "--json")]
Run = Annotated[Path, argument("RUN", "Run folder.")]
Runs = Annotated[list[Path], argument("RUN", "Run folders.")]


def import_from_here(wanted: bool) -> bool:
    """Let a module of the current folder be imported, where the user asks for one."""
    if wanted and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return wanted


Trust = Annotated[
    bool,
    flag(
        "Import the module that the run's environment is in (MODULE:ID): code.",
        callback=import_from_here,
    ),
]
PolicySeed = Annotated[
    int | None, option("N", "Seed whose policy is taken.  [default: the first]")
]
Best = Annotated[
    bool, flag("Take the policy of the best evaluation, not the last one.", "--best")
]
Steps = Annotated[
    str, option("N", "Environment steps of each seed.", "-n", "--steps", under=BUDGET)
]
Seeds = Annotated[
    str | None, option("LIST", "Several seeds: 8 (that is 0 to 7), 10-19 or 3,5,8.")
]
EvalEpisodes = Annotated[
    str | None, option("N", "Episodes of an evaluation, played without noise.")
]
On = Annotated[
    str,
    option(
        "WHERE",
        "Where to learn: cpu, device (JAX environments only), or auto (device "
        "for built-in environments, cpu for all others).",
        under=PLACE,
    ),
]


@dataclass
class Learner:
    """What to learn."""

    env: Annotated[
        str, option("ID", "Gymnasium id; MODULE:ID imports MODULE first.")
    ] = DEFAULT_ENV
    algo: Annotated[str, option("NAME", "Algorithm; `penfac algos` lists them.")] = (
        "penfac"
    )
    preset: Annotated[
        str,
        option(
            "NAME",
            "Settings to start from: a preset (see `penfac presets ALGO`) or a "
            ".toml file.",
        ),
    ] = "tuned"
    set_: Annotated[
        list[str], option("KEY=VALUE", "Change one setting; may be repeated.", "--set")
    ] = field(default_factory=list)

    def asked(self) -> dict[str, Any]:
        from penfac.algos import ALGORITHMS
        from penfac.settings.configs import parse_settings

        import_from_here(":" in self.env)
        known = ALGORITHMS.get(self.algo)  # an unknown name is refused later
        settings = parse_settings(known.config, self.set_) if known else {}
        named = {"env": self.env, "algo": self.algo, "preset": self.preset}
        return named | {"settings": settings}


@dataclass
class Evaluation:
    """Evaluation."""

    eval_every: Annotated[
        str | None,
        option(
            "STEPS",
            "Environment steps between two evaluations.  [default: a twentieth of "
            "the run; a tenth in a search]",
        ),
    ] = None
    eval_episodes: EvalEpisodes = None

    def asked(self) -> dict[str, Any]:
        return {
            "eval_every": if_given(whole, self.eval_every, "--eval-every"),
            "eval_episodes": if_given(whole, self.eval_episodes, "--eval-episodes"),
        }


@dataclass
class Environment:
    """The environment."""

    max_episode_steps: Annotated[
        str | None, option("N", "Time limit of an episode, instead of its own.")
    ] = None
    action_bounds: Annotated[
        str | None, option("LOW,HIGH", "Range of actions, where the space has none.")
    ] = None
    flatten_obs: Annotated[
        bool, flag("Join the parts of a dict or tuple of observations.")
    ] = False
    env_arg: Annotated[
        list[str], option("KEY=VALUE", "Argument of the environment; may be repeated.")
    ] = field(default_factory=list)
    env_restarts: Annotated[
        int, option("N", "Number of broken worlds that may be replaced.")
    ] = 0

    def asked(self) -> dict[str, Any]:
        from penfac.envs.options import EnvOptions

        limit = if_given(whole, self.max_episode_steps, "--max-episode-steps")
        options = EnvOptions(
            max_episode_steps=limit,
            action_bounds=if_given(
                arguments.bounds, self.action_bounds, "--action-bounds"
            ),
            flatten_obs=self.flatten_obs,
            kwargs=arguments.env_arguments(self.env_arg),
        )
        return {"options": options, "restarts": self.env_restarts}


@dataclass
class Place:
    """Where it runs, and what it writes."""

    on: On = "auto"
    out: Annotated[Path, option("FOLDER", "Folder that holds the run folders.")] = Path(
        "runs"
    )
    name: Annotated[
        str | None, option("NAME", "Name of the run folder.  [default: ENV_k]")
    ] = None

    def asked(self) -> dict[str, Any]:
        from penfac.training.place import check_place

        check_place(self.on, self.name)
        return {"on": self.on, "out": self.out, "name": self.name}


@dataclass
class Stopping:
    """While it runs."""

    slice_: Annotated[
        str | None,
        option(
            "N",
            "Maximum number of learners in one compiled program on a device.",
            "--slice",
        ),
    ] = None
    stop_after: Annotated[
        str | None, option("TIME", "Save and stop after this time: 90s, 9m or 2h.")
    ] = None

    def limits(self, **more: Any) -> "Limits":
        from penfac.training.limits import Limits

        more.setdefault("checkpoint_every", 60.0)  # seconds
        return Limits(
            stop_after=if_given(arguments.duration, self.stop_after, "--stop-after"),
            at_once=if_given(arguments.positive, self.slice_, "--slice"),
            command=shlex.join(["penfac", *sys.argv[1:]]),
            **more,
        )


@dataclass
class Tracked(Stopping):
    """While it runs."""

    track: Annotated[
        list[str],
        option(
            "NAME", "Tell a tracker the numbers too: wandb or mlflow; may be repeated."
        ),
    ] = field(default_factory=list)

    def limits(self, **more: Any) -> "Limits":
        from penfac.runs import tracking

        tracking.check(tuple(self.track))
        return super().limits(track=tuple(self.track), **more)


@dataclass
class Process(Tracked):
    """While it runs."""

    checkpoint_every: Annotated[
        str, option("TIME", "Time between two checkpoints.")
    ] = "15s"
    env_timeout: Annotated[
        str, option("TIME", "Longest time that one environment call may take.")
    ] = "5m"
    env_workers: Annotated[
        str,
        option(
            "N",
            "Processes that step the environments; 0: none, auto: one for each core if "
            "a step takes long enough.",
        ),
    ] = "auto"

    def limits(self, **more: Any) -> "Limits":
        return super().limits(
            checkpoint_every=arguments.duration(
                self.checkpoint_every, "--checkpoint-every"
            ),
            env_timeout=arguments.timeout(self.env_timeout),
            env_workers=arguments.env_workers(self.env_workers),
            **more,
        )


# an episode that is shown
Video = Annotated[Path | None, option("FILE", "Write a video: .mp4, .webm or .gif.")]
Strip = Annotated[Path | None, option("FILE", "Write a row of pictures: .png.")]
Episode = Annotated[int, option("N", "Number of the initial state.")]
PlaySteps = Annotated[str, option("N", "Maximum number of steps.")]
PictureSize = Annotated[str, option("WIDTHxHEIGHT", "Size of a picture, in pixels.")]
