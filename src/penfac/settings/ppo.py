"""Settings of PPO: Table 3 of the paper, and PPO as people run it today."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penfac.settings.declaration import Settings, collects, shapes, traced
from penfac.settings.horizon import LEAST_GAMMA

if TYPE_CHECKING:
    from penfac.types import EnvSpec


@dataclass(frozen=True)
class Config(Settings):
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # fmt: off
    # returns
    gamma: float | None = traced(None, "[0, 1]", hint="the paper uses 0.99", none=LEAST_GAMMA,
        means="discount factor; `none`: by the environment's time step, at least 0.985 (D28)")
    lam: float = traced(0.9, "[0, 1]", hint="Table 3 keeps 0.97 and 0.95",
        means="lambda of the advantages (GAE)")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")

    # the surrogate
    clip: float = traced(0.2, "(0, 100]", hint="Table 3 uses 0.2",
        means="clip range of the likelihood ratio")
    clip_end: float | None = traced(0.1, "[0, 100]", hint="Table 3 uses 0.2", none="clip",
        means="clip range at the end of the run, reached along a straight line; none: constant")
    normalise_advantage: bool = traced(True,
        means="subtract the mean and divide by the standard deviation in each minibatch")
    entropy_weight: float = traced(0.001, "[0, 1000]", hint="Table 3 uses 0",
        means="weight of the policy's entropy")
    value_weight: float = traced(
        0.5, "[0, 1000]", hint="of the mean squared error: OpenAI's 0.5 is 0.25",
        means="weight of the critic's mean squared error (OpenAI's `vf_coef` 0.5 is 0.25 here)")
    clip_value: bool = traced(False,
        means="also keep V within `clip` of the old V")

    # steps of Adam
    epochs: int = shapes(10, "[1, 1e6]", hint="Table 3 keeps 10 and 50",
        means="passes over the batch per update")
    minibatches: int = shapes(32, "[1, 1e6]", hint="Table 3 keeps 32 and 4",
        means="minibatches per pass")
    lr: float = traced(2.14e-4, "(0, 1000]", hint="Table 3 keeps 3e-4 and 1e-4",
        means="learning rate of actor, critic and sigma")
    lr_end: float | None = traced(0.0, "[0, 1000]", none="lr",
        means="learning rate at the end of the run, reached along a straight line; none: constant")
    kl_target: float | None = traced(None, "(0, 1000]", hint="0.01 is usual", none=math.inf,
        means="KL divergence that the step size is adapted to; none: the step size stays")
    max_grad_norm: float = traced(10.0, "(0, 1e+09]",
        means="maximum norm of the gradient")
    adam_b1: float = traced(0.9, "[0, 0.999999]",
        means="decay of Adam's first moment")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment")
    adam_eps: float = traced(1e-5, "(0, 1]",
        means="Adam's epsilon")

    # exploration
    sigma: float = traced(0.856, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]",
        means="initial standard deviation of the policy, learned from then on")
    sigma_end: float | None = traced(
        None, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]", none=math.inf,
        means="sigma at the end of the run, reached along a straight line; none: learned")
    clip_action: bool = collects(True, earlier=True,
        means="clip the sample to the action bounds before the environment gets it (D32)")

    # networks
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers")
    critic_hidden: tuple[int, ...] = shapes((128, 128), "[1, 65536]",
        means="sizes of the critic's hidden layers")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("tanh",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    actor_output: Literal["tanh", "linear"] = shapes("linear",
        means="activation of the actor's output: `tanh` or `linear`")
    init: Literal["orthogonal", "small", "uniform"] = shapes("orthogonal",
        means="`orthogonal`, `uniform` within 1/sqrt(fan in), or `small`: N(0, 0.01^2) (D10)")
    normalise_obs: bool = traced(True,
        means="normalise observations by their running mean and deviation")
    normalise_returns: bool = traced(True,
        means="divide rewards by the running standard deviation of returns")
    obs_clip: float = traced(10.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # the batch of one update
    collect: Literal["episodes", "steps"] = collects("steps",
        means="`steps`: some steps of worlds that keep running; `episodes`: whole episodes")
    episodes_per_update: int = collects(4, "[1, 1e6]",
        means="with `collect=episodes`: minimum number of episodes per update")
    min_steps_per_update: int = collects(2048, "[1, 1e8]",
        means="with `collect=episodes`: start more episodes until they have this many steps")
    worlds: int = collects(16, "[1, 1e6]",
        means="with `collect=steps`: number of parallel environments (worlds)")
    steps_per_world: int = collects(128, "[1, 1e6]", hint="Table 3 keeps 4096 to 16384",
        means="with `collect=steps`: steps of each world per update")
    # fmt: on

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        return {"batch_norm": False}
