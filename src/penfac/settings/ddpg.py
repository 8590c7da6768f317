"""Settings of DDPG, as both programs of the paper had it, and of TD3."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penfac.errors import ConfigError
from penfac.settings.declaration import Settings, collects, shapes, traced

if TYPE_CHECKING:
    from penfac.types import EnvSpec


def check_replay(cfg: Any, running: bool = True) -> None:
    """Refuse a replay that cannot hold what is collected or what learning waits for."""
    if running and cfg.replay < cfg.worlds * cfg.steps_per_world:
        raise ConfigError(
            f"replay = {cfg.replay}: must be at least the {cfg.worlds} worlds x "
            f"{cfg.steps_per_world} steps of an update"
        )
    if cfg.replay < cfg.learning_starts:
        raise ConfigError(
            f"replay = {cfg.replay}: must be at least learning_starts = "
            f"{cfg.learning_starts}"
        )


@dataclass(frozen=True)
class Config(Settings):
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # fmt: off
    # returns
    gamma: float = traced(0.99, "[0, 1]", hint="the paper uses 0.99",
        means="discount factor")
    n_step: int = shapes(1, "[1, 1000]", hint="Table 4 keeps 1 and 5",
        means="number of rewards in the target before Q is bootstrapped")
    n_step_target: Literal["right", "ddrl"] = traced("right",
        means="`right`, or `ddrl`: the formula of the authors' program (D18)")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")
    reward_scale: float = traced(1.0, "(0, 1e6]", hint="Tables 4 and 5 keep 10",
        means="factor on rewards")

    # critics
    critics: int = shapes(1, "[1, 100]", hint="TD3 uses 2",
        means="number of critics; the target uses the smallest Q")
    critic_lr: float = traced(1e-3, "(0, 1000]", hint="Tables 4 and 5 use 1e-3",
        means="learning rate of the critic")
    critic_error: float = traced(
        0.5, "(0, 1000]", hint="DDRL has 0.5, OpenAI's baselines 1", earlier=0.5,
        means="weight of the mean squared error of Q (D33)")
    critic_l2: float = traced(0.0, "[0, 1000]", hint="Tables 4 and 5 use 0.01",
        means="weight of half the sum of squares of the critics' parameters")
    critic_l2_on: Literal["all", "hidden-weights"] = traced("all", only="critic_l2", earlier="all",
        means="parameters in that sum: `all`, or `hidden-weights` only (D33)")
    target_noise: float = traced(0.0, "[0, 10]", hint="TD3 uses 0.2",
        means="standard deviation of the noise on the target's action")
    target_noise_clip: float = traced(0.5, "[0, 10]", hint="TD3 uses 0.5",
        means="bound of that noise")

    # actor
    actor_lr: float = traced(1e-3, "(0, 1000]", hint="Tables 4 and 5 use 1e-4",
        means="learning rate of the actor")
    actor_delay: int = traced(1, "[1, 1e6]", hint="TD3 uses 2",
        means="gradient steps per step of the actor and of the target networks")
    tau: float = traced(0.005, "(0, 1]", hint="Tables 4 and 5 keep 0.001 and 0.01",
        means="fraction of the distance that target networks move per step")

    # Adam, both networks
    adam_b1: float = traced(0.9, "[0, 0.999999]",
        means="decay of Adam's first moment")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment")
    adam_eps: float = traced(1e-8, "(0, 1]",
        means="Adam's epsilon")

    # exploration: a law around mu, or noise on the actor's parameters
    exploration: Literal["clipped", "truncated", "ou", "parameters"] = collects("clipped",
        means="law of the noise: `clipped`, `truncated`, `ou`, or `parameters`: of weights (D20)")
    sigma: float = traced(0.1, "[1e-6, 100]", hint="actions span [-1, 1]",
        means="standard deviation of the noise; with `parameters`: target distance between actions")
    sigma_end: float | None = traced(
        None, "[1e-6, 100]", hint="actions span [-1, 1]", none="sigma",
        means="sigma at the end of the run, reached along a straight line; none: constant")
    ou_theta: float = collects(0.15, "[0, 1000]",
        means="Ornstein-Uhlenbeck noise: rate of return to the mean")
    ou_dt: float = collects(0.01, "(0, 1]",
        means="Ornstein-Uhlenbeck noise: time step")
    random_steps: int = collects(1000, "[0, 1e9]",
        means="steps with uniformly random actions at the start of the run")

    # replay
    replay: int = shapes(1_000_000, "[1, 1e8]", hint="Tables 4 and 5 use 1e6",
        means="capacity of the replay, in steps")
    learning_starts: int = traced(1000, "[1, 1e9]",
        means="steps in the replay before the first gradient step")
    batch_size: int = shapes(256, "[1, 1e6]", hint="Tables 4 and 5 keep 128",
        means="steps per gradient step")
    gradient_steps: int = traced(50, "[1, 1e6]", hint="Table 5 keeps 50",
        means="gradient steps per update")

    # networks
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers")
    critic_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the critic's hidden layers")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("relu",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    actor_output: Literal["tanh", "linear"] = shapes("tanh",
        means="activation of the actor's output: `tanh` or `linear`")
    init: Literal["uniform", "orthogonal", "small", "baselines"] = shapes("uniform",
        means="`uniform` within 1/sqrt(fan in), `orthogonal`, `small`: N(0, 0.01^2) (D10), "
        "or `baselines`: orthogonal, with the last layer within 0.003 (D33)")
    normalise_actor: Literal["batch-norm", "running", "none"] = traced("none",
        means="observations of the actor: `running` moments, `batch-norm` or `none` (D9)")
    normalise_critic: Literal["running", "none"] = traced("none",
        means="observations of the critic: `running` or `none` (D9)")
    obs_clip: float = traced(5.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # the steps of one update
    collect: Literal["episodes", "steps"] = collects("steps",
        means="`steps`: some steps of worlds that keep running; `episodes`: whole episodes")
    episodes_per_update: int = collects(1, "[1, 1e6]",
        means="with `collect=episodes`: minimum number of episodes per update")
    min_steps_per_update: int = collects(1, "[1, 1e8]",
        means="with `collect=episodes`: start more episodes until they have this many steps")
    worlds: int = collects(1, "[1, 1e6]",
        means="with `collect=steps`: number of parallel environments (worlds)")
    steps_per_world: int = collects(50, "[1, 1e6]", hint="Table 5 keeps 100",
        means="with `collect=steps`: steps of each world per update")
    rounds: int = collects(1, "[1, 1e6]",
        means="rounds of collecting and learning per row of progress.csv")
    # fmt: on

    def check_together(self) -> None:
        """Refuse settings that do not go together."""
        check_replay(self, running=self.collect == "steps")
        if self.ou_theta * self.ou_dt >= 2:
            raise ConfigError(
                f"ou_theta = {self.ou_theta}: times ou_dt = {self.ou_dt} it must be below "
                "2, or the noise grows without end"
            )
        if self.collect == "episodes" and self.rounds > 1:
            raise ConfigError(
                f"rounds = {self.rounds}: must be 1 with collect = episodes; set collect=steps"
            )

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        return {
            "batch_norm": self.normalise_actor == "batch-norm",
            "one_world": self.collect == "steps" and self.worlds == 1,
            "parameter_noise": self.exploration == "parameters",
            "smoothed": self.target_noise > 0,
        }
