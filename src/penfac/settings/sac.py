"""Settings of SAC, with a temperature that is learned or fixed."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penfac.settings.ddpg import check_replay
from penfac.settings.declaration import Settings, collects, shapes, traced

if TYPE_CHECKING:
    from penfac.types import EnvSpec


@dataclass(frozen=True)
class Config(Settings):
    """The defaults are the preset `tuned`."""

    # fmt: off
    # returns
    gamma: float = traced(0.99, "[0, 1]", hint="0.99 is usual",
        means="discount factor")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")
    reward_scale: float = traced(1.0, "(0, 1e6]", hint="1 is usual: the temperature adapts",
        means="factor on rewards")

    # entropy
    temperature: float | None = traced(None, "(0, 1e6]", hint="0.2 is usual", none=math.inf,
        means="weight of the entropy; none: learned")
    temperature_start: float = traced(1.0, "(0, 1e6]", hint="1 is usual",
        means="where a learned temperature starts")
    temperature_lr: float = traced(1e-3, "(0, 1000]", hint="3e-4 is usual",
        means="learning rate of the temperature's logarithm")
    target_entropy: float = traced(-1.0, "[-1000, 1000]", hint="-1 is usual",
        means="entropy that a learned temperature aims at, per dimension of the action")

    # critics and actor
    critics: int = shapes(2, "[1, 100]", hint="2 are usual",
        means="number of critics; target and actor use the smallest Q")
    critic_lr: float = traced(1e-3, "(0, 1000]", hint="3e-4 is usual",
        means="learning rate of the critics")
    actor_lr: float = traced(1e-3, "(0, 1000]", hint="3e-4 is usual",
        means="learning rate of the actor")
    tau: float = traced(0.005, "(0, 1]", hint="0.005 is usual",
        means="fraction of the distance that target networks move per step")

    # Adam, of all three
    adam_b1: float = traced(0.9, "[0, 0.999999]",
        means="decay of Adam's first moment")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment")
    adam_eps: float = traced(1e-8, "(0, 1]",
        means="Adam's epsilon")

    # exploration
    sigma: float = traced(1.0, "[1e-6, 7]", hint="1 is usual",
        means="initial standard deviation before tanh, about the same in every state")
    random_steps: int = collects(1000, "[0, 1e9]",
        means="steps with uniformly random actions at the start of the run")

    # replay
    replay: int = shapes(1_000_000, "[1, 1e8]", hint="1e6 is usual",
        means="capacity of the replay, in steps")
    learning_starts: int = traced(1000, "[1, 1e9]",
        means="steps in the replay before the first gradient step")
    batch_size: int = shapes(256, "[1, 1e6]", hint="256 is usual",
        means="steps per gradient step")
    gradient_steps: int = traced(50, "[1, 1e6]", hint="as many as steps are collected",
        means="gradient steps per update")

    # networks
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers")
    critic_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the critic's hidden layers")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("relu",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    init: Literal["uniform", "orthogonal", "small"] = shapes("uniform",
        means="`uniform` within 1/sqrt(fan in), `orthogonal`, or `small`: N(0, 0.01^2) (D10)")
    normalise_obs: bool = traced(False,
        means="normalise observations by their running mean and deviation")
    obs_clip: float = traced(5.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # the steps of one update
    worlds: int = collects(1, "[1, 1e6]",
        means="number of parallel environments (worlds)")
    steps_per_world: int = collects(50, "[1, 1e6]", hint="1 is usual",
        means="steps of each world per update")
    rounds: int = collects(1, "[1, 1e6]",
        means="rounds of collecting and learning per row of progress.csv")
    # fmt: on

    def check_together(self) -> None:
        """Refuse settings that do not go together."""
        check_replay(self)

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        return {
            "actor_output": "tanh",
            "batch_norm": False,
            "n_step": 1,
            "one_world": self.worlds == 1,
        }
