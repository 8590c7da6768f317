"""Settings of off-policy PeNFAC: a replayed Q judges proposals, with a share of DPG."""

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
    gamma: float = traced(0.985, "[0, 1]", hint="0.99 is usual",
        means="discount factor")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")
    reward_scale: float = traced(0.1, "(0, 1e6]", hint="the critics fit Q of about 10 best",
        means="factor on rewards")

    # critics
    critics: int = shapes(2, "[1, 100]", hint="2 are usual",
        means="number of critics; target, advantage and slope use the smallest Q")
    critic_lr: float = traced(1e-3, "(0, 1000]", hint="3e-4 is usual",
        means="learning rate of the critics")
    target_noise: float = traced(0.2, "[0, 10]", hint="TD3 uses 0.2",
        means="standard deviation of the noise on the target's action")
    target_noise_clip: float = traced(0.5, "[0, 10]", hint="TD3 uses 0.5",
        means="bound of that noise")

    # actor
    actor_update: Literal["cac", "cacla", "spg"] = traced("cac",
        means="weight of a proposal: `cac` A H(A), `cacla` H(A), `spg` A; A is over mu (D36)")
    pairs: int = shapes(2, "[1, 1000]", hint="2 are 4 proposals",
        means="pairs of opposite actions that are proposed around mu(s), per state")
    proposal_sigma: float = traced(0.2, "[1e-6, 10]", hint="actions span [-1, 1]",
        means="standard deviation of proposals around mu(s)")
    dpg_share: float = traced(0.0, "[0, 1]", hint="0 is CAC alone, 1 is DPG alone",
        means="share of DPG's step; both steps are divided by their root mean squares")
    actor_lr: float = traced(1e-3, "(0, 1000]", hint="3e-4 is usual",
        means="learning rate of the actor")
    tau: float = traced(0.005, "(0, 1]", hint="0.005 is usual",
        means="fraction of the distance that target networks move per step")

    # Adam, both networks
    adam_b1: float = traced(0.9, "[0, 0.999999]",
        means="decay of Adam's first moment")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment")
    adam_eps: float = traced(1e-8, "(0, 1]",
        means="Adam's epsilon")

    # exploration
    exploration: Literal["clipped", "truncated"] = collects("clipped",
        means="law of the noise: `clipped` or `truncated` (D7)")
    sigma: float = traced(0.3, "[1e-6, 100]", hint="actions span [-1, 1]",
        means="standard deviation of the noise")
    sigma_end: float | None = traced(
        None, "[1e-6, 100]", hint="actions span [-1, 1]", none="sigma",
        means="sigma at the end of the run, reached on a line that never rises; none: constant")
    random_steps: int = collects(2000, "[0, 1e9]",
        means="steps with uniformly random actions at the start of the run")

    # replay
    replay: int = shapes(1_000_000, "[1, 1e8]", hint="1e6 is usual",
        means="capacity of the replay, in steps")
    learning_starts: int = traced(2000, "[1, 1e9]",
        means="steps in the replay before the first gradient step")
    batch_size: int = shapes(256, "[1, 1e6]", hint="256 is usual",
        means="steps per gradient step")
    gradient_steps: int = traced(64, "[1, 1e6]",
        means="gradient steps per update")

    # networks
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers")
    critic_hidden: tuple[int, ...] = shapes((128, 128), "[1, 65536]",
        means="sizes of the critic's hidden layers")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("relu",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    init: Literal["uniform", "orthogonal", "small"] = shapes("uniform",
        means="`uniform` within 1/sqrt(fan in), `orthogonal`, or `small`: N(0, 0.01^2) (D10)")
    normalise_obs: bool = traced(True,
        means="normalise observations by their running mean and deviation")
    obs_clip: float = traced(5.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # the steps of one update
    worlds: int = collects(16, "[1, 1e6]",
        means="number of parallel environments (worlds)")
    steps_per_world: int = collects(8, "[1, 1e6]",
        means="steps of each world per update")
    rounds: int = collects(8, "[1, 1e6]",
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
