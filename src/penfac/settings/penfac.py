"""Settings of PeNFAC and NFAC: every reading of the paper is a value of one config."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penfac.errors import ConfigError
from penfac.settings.declaration import Settings, collects, derives, shapes, traced
from penfac.settings.horizon import LEAST_GAMMA

if TYPE_CHECKING:
    from penfac.types import EnvSpec

Normalisation = Literal["batch-norm", "running", "none"]


@dataclass(frozen=True)
class Config(Settings):
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # fmt: off
    # returns
    gamma: float | None = traced(None, "[0, 1]", hint="the paper uses 0.99", none=LEAST_GAMMA,
        means="discount factor; `none`: by the environment's time step, at least 0.985 (D28)")
    lam: float = traced(0.85, "[0, 1]", hint="Table 2 keeps 0.9",
        means="lambda of returns and advantages; 0: one-step TD, 1: Monte Carlo")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")
    normalise_returns: bool = traced(True, earlier=False,
        means="divide rewards by the running standard deviation of returns (D22)")

    # passes over the batch: fresh minibatches in each, one step of Adam a minibatch
    minibatches: int = shapes(
        16, "[1, 1e6]", hint="1 is the whole batch, as in the paper", earlier=1,
        means="minibatches per pass, one Adam step each; 1: the whole batch at once (D26)")
    rates_end: float = traced(
        0.1, "[0, 1]", hint="a fraction of the learning rates; 1 keeps them", earlier=1.0,
        means="fraction of both learning rates left at the end; they fall in the second half (D25)")

    # actor
    actor_update: Literal["cac", "cacla", "spg"] = traced("cacla",
        means="weight of an action: `cac` A H(A), `cacla` H(A), `spg` A")
    softness: float = traced(2.0, "[0, inf)", hint="0 is H(A), 2 is usual", earlier=0.0,
        means="with `cacla`: weight 1 / (1 + exp(-2 A / softness)) in place of H(A); 0: H(A) (D34)")
    centred: bool = traced(True, earlier=False,
        means="subtract the mean weight (control variate); with `cacla`: the centred sign (D23)")
    ratio_limit: float | None = traced(
        0.3, "(0, inf]", hint="0.3 is usual; none: no limit", earlier=None, none=math.inf,
        means="an action stops pulling once its likelihood ratio moved by this; none: never (D24)")
    ratio_limit_start: float | None = traced(
        1.0, "(0, inf)", hint="none is constant", earlier=None, none="ratio_limit",
        means="ratio_limit at the start; reaches ratio_limit at half the run; none: constant (D35)")
    nonpositive: Literal["ignore", "hold"] = traced("ignore",
        means="actions with A <= 0: `ignore` them, or `hold` mu at mu_old with weight 1 (D11)")
    advantage_scale: Literal["none", "rms"] = traced("rms",
        means="`rms`: divide A by its root mean square; `none`: leave A unscaled (D12)")
    actor_steps: int = traced(7, "[1, 1e6]", hint="Table 2 keeps 30",
        means="passes over the batch to fit the actor, per update")
    actor_lr: float = traced(5e-4, "(0, inf)", hint="Table 2 keeps 1e-4",
        means="learning rate of the actor")

    # beyond the paper (D36)
    reuse: int = derives(
        1, "[1, 1000]", hint="1 is on-policy, 3 is usual off-policy", earlier=1,
        means="newest batches that an update learns from; above 1, old actions count by importance")
    dpg_share: float = traced(
        0.0, "[0, 1]", hint="0 is CAC or CACLA alone, 1 is DPG alone", earlier=0.0,
        means="share of DPG's step, along the slope of a Q that is fitted to the advantages")
    dpg_share_start: float | None = traced(
        None, "[0, 1]", hint="none is constant", earlier=None, none="dpg_share",
        means="dpg_share at the start; reaches dpg_share at half the run; none: constant")

    # trust region
    trust_region: bool = traced(True,
        means="penalise the distance from mu_old; false: beta is 0")
    d_target: float = traced(0.04, "(0, inf)", hint="Table 2 keeps 0.03",
        means="target distance between mu and mu_old after an update")
    d_target_start: float | None = traced(
        0.067, "(0, inf)", hint="none is constant", earlier=None, none="d_target",
        means="d_target at the start; reaches d_target at half the run; none: constant (D35)")
    distance: Literal["rms", "printed", "sigma"] = traced("sigma",
        means="measure of that distance: `rms`, as `printed` (D3), or `sigma`: rms / sigma (D27)")
    beta_start: float = traced(0.1, "[0, inf)", only="trust_region",
        means="initial weight of the penalty (D1)")
    beta_keep: bool = traced(True,
        means="keep beta from one update to the next (D1)")
    beta_rule: Literal["step", "update"] = traced("update", earlier="step",
        means="adapt beta before each pass (`step`) or once per update (`update`) (D27)")
    beta_min: float = traced(0.01, "[0, inf)", only="trust_region",
        means="smallest beta (D1)")
    beta_max: float = traced(20.0, "[0, inf]", only="trust_region",
        means="largest beta (D1)")
    beta_band: float = traced(1.5, "[1, 1e6]", hint="the paper uses 1.5",
        means="beta stays while the distance / d_target is between 1 / beta_band and beta_band")
    beta_factor: float = traced(2.0, "[1, 1e6]", hint="the paper uses 2",
        means="factor by which beta is divided or multiplied")
    early_stop: bool = traced(False, only="trust_region",
        means="end the update once the distance is within the band (D2)")
    penalty: float = traced(1.0, "[0, inf)",
        means="factor on beta; 2 gives the printed gradient (D4)")

    # critic
    fitted_iterations: int = traced(5, "[1, 1e6]", hint="Table 2 keeps 10",
        means="how often per update the critic gets fresh targets")
    critic_steps: int = traced(1, "[1, 1e6]", hint="Table 2 keeps 1",
        means="passes over the batch to fit the critic, per fitted iteration (D5)")
    critic_lr: float = traced(1e-3, "(0, inf)", hint="Table 2 keeps 1e-3",
        means="learning rate of the critic")

    # Adam, both networks
    adam_b1: float = traced(0.9, "[0, 0.999999]",
        means="decay of Adam's first moment, both networks")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment, both networks")

    # exploration
    exploration: Literal["truncated", "clipped", "gaussian"] = collects("gaussian",
        means="law of the noise: `truncated`, `clipped` or `gaussian` (D7)")
    sigma: float = traced(0.55, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]",
        means="standard deviation of the noise; actions span [-1, 1] (D6)")
    sigma_end: float | None = traced(
        0.15, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]", none="sigma",
        means="sigma at the end of the run, reached on a line that never rises; none: constant")

    # networks
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers; `none`: linear in the observation")
    critic_hidden: tuple[int, ...] = shapes((128, 128), "[1, 65536]",
        means="sizes of the critic's hidden layers")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("tanh",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    actor_output: Literal["tanh", "linear"] = shapes("linear",
        means="activation of the actor's output: `tanh` or `linear`")
    init: Literal["orthogonal", "small"] = shapes("orthogonal",
        means="initial weights: `orthogonal`, or `small`: all are N(0, 0.01^2) (D10)")
    normalise_actor: Normalisation = traced("running",
        means="observations of the actor: `running` moments, `batch-norm` or `none` (D9)")
    normalise_critic: Literal["running", "none"] = traced("running",
        means="observations of the critic: `running` or `none` (D9)")
    obs_clip: float = traced(10.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # the batch of one update
    collect: Literal["episodes", "steps"] = collects("steps",
        means="`steps`: some steps of worlds that keep running; `episodes`: whole episodes")
    episodes_per_update: int = collects(4, "[1, 1e6]", hint="Table 2 uses 5 to 50",
        means="with `collect=episodes`: minimum number of episodes per update (D13)")
    min_steps_per_update: int = collects(2048, "[1, 1e8]",
        means="with `collect=episodes`: start more episodes until they have this many steps (D13)")
    worlds: int = collects(16, "[1, 1e6]",
        means="with `collect=steps`: number of parallel environments (worlds)")
    steps_per_world: int = collects(128, "[1, 1e6]",
        means="with `collect=steps`: steps of each world per update")
    # fmt: on

    def check_together(self) -> None:
        """Refuse settings that do not go together."""
        if self.beta_min > self.beta_max:
            raise ConfigError(
                f"beta_min = {self.beta_min}: must be at most beta_max = {self.beta_max}"
            )
        steps = self.worlds * self.steps_per_world
        if self.collect == "steps" and steps % self.minibatches:
            raise ConfigError(
                f"minibatches = {self.minibatches}: must divide worlds x steps_per_world "
                f"= {steps}"
            )
        if self.collect == "episodes" and self.reuse > 1:
            raise ConfigError(
                f"reuse = {self.reuse}: must be 1 with collect = episodes, whose batches "
                "differ in length; set collect=steps"
            )
        if self.actor_output == "linear" and self.exploration == "truncated":
            raise ConfigError(
                "exploration = truncated: needs mu in [-1, 1], and actor_output = linear "
                "leaves it; set exploration=gaussian or actor_output=tanh"
            )

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        steps = self.worlds * self.steps_per_world
        return {
            "batch_norm": self.normalise_actor == "batch-norm",
            "past": (self.reuse - 1) * steps,
            "slopes": self.dpg_share > 0 or (self.dpg_share_start or 0) > 0,
        }
