"""Settings of CACLA, CAC, SPG and DPG, which update after every step."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from penfac.errors import ConfigError
from penfac.policy import Tiling
from penfac.settings.declaration import Settings, collects, derives, shapes, traced

if TYPE_CHECKING:
    from penfac.types import EnvSpec

Box = tuple[tuple[float, ...], tuple[float, ...]]  # low and high of each component


@dataclass(frozen=True)
class Config(Settings):
    """The defaults are the preset `tuned`; D numbers are in docs/deviations.md."""

    # fmt: off
    # returns
    gamma: float = traced(0.99, "[0, 1]", hint="the paper uses 0.99",
        means="discount factor")
    time_limit: Literal["bootstrap", "terminal"] = traced("bootstrap",
        means="value after a time limit: `bootstrap` uses V(s'), `terminal` uses 0 (D8)")

    # actor
    actor_update: Literal["cacla", "cac", "spg", "dpg"] = traced("cacla",
        means="`cacla` H(delta), `cac` delta H(delta), `spg` delta; `dpg`: the gradient of Q")
    actor_lr: float = traced(1e-4, "(0, 1000]",
        means="learning rate of the actor")

    # critic: V; with dpg a Q of compatible features upon it, or a network
    q: Literal["compatible", "network"] = derives("compatible",
        means="critic of `dpg`: `compatible` features on top of V, or a `network`")
    spg_critic: Literal["v", "compatible"] = derives("v",
        means="critic of `spg`: `v` (the TD error of V, as in CACLA), or `compatible` (DPG's Q)")
    critic_lr: float = traced(1e-3, "(0, 1000]",
        means="learning rate of the critic")
    q_lr: float = traced(1e-3, "(0, 1000]",
        means="learning rate of the compatible features")

    # steps
    optimiser: Literal["adam", "sgd"] = shapes("adam",
        means="`adam`, or `sgd`: plain gradient descent, the equations as printed")
    adam_b1: float = traced(0.0, "[0, 0.999999]",
        means="decay of Adam's first moment")
    adam_b2: float = traced(0.999, "[0, 0.9999999]",
        means="decay of Adam's second moment")

    # exploration
    exploration: Literal["truncated", "clipped", "gaussian"] = collects("truncated",
        means="law of the noise: `truncated`, `clipped` or `gaussian` (D7)")
    sigma: float = traced(0.2, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]",
        means="standard deviation of the noise; actions span [-1, 1]")
    sigma_end: float | None = traced(
        None, "[1e-6, 100]", hint="a standard deviation; actions span [-1, 1]", none="sigma",
        means="sigma at the end of the run, reached along a straight line; none: constant")

    # features and networks
    features: Literal["observation", "tiles"] = derives("observation",
        means="`observation`, or `tiles`: tile coding")
    tilings: int = derives(8, "[1, 1024]",
        means="number of tile grids")
    tiles: int = derives(8, "[1, 1024]",
        means="tiles per side of each grid")
    tile_memory: int = derives(4096, "[1, 1e8]",
        means="maximum number of features; larger grids share features by hashing")
    tile_low: float = derives(-5.0, "(-inf, inf)",
        means="lower end of components for which the environment gives no bounds")
    tile_high: float = derives(5.0, "(-inf, inf)",
        means="upper end of those components")
    tile_box: tuple[float, ...] = derives((), "(-inf, inf)",
        means="low,high of each component in turn; none: the environment's bounds")
    actor_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the actor's hidden layers; `none`: linear in the features")
    critic_hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]",
        means="sizes of the critic's hidden layers; `none`: linear in the features")
    activation: Literal["leaky_relu", "relu", "tanh"] = shapes("leaky_relu",
        means="of hidden layers: `leaky_relu` (slope 0.01), `relu` or `tanh`")
    actor_output: Literal["tanh", "linear"] = shapes("tanh",
        means="activation of the actor's output: `tanh` or `linear`")
    init: Literal["orthogonal", "small", "uniform"] = shapes("orthogonal",
        means="`orthogonal`, `uniform` within 1/sqrt(fan in), or `small`: N(0, 0.01^2) (D10)")
    normalise: Literal["running", "none"] = traced("running",
        means="observations: `running` mean and deviation, or `none`")
    obs_clip: float = traced(5.0, "(0, inf]",
        means="bound of normalised observations, in standard deviations")

    # how it runs
    worlds: int = collects(1, "[1, 1e6]",
        means="number of parallel environments (worlds); an update is one step of each")
    rounds: int = collects(1000, "[1, 1e7]",
        means="updates per row of progress.csv")
    # fmt: on

    def check_together(self) -> None:
        """Refuse settings that do not go together."""
        if self.tile_low >= self.tile_high:
            raise ConfigError(
                f"tile_low = {self.tile_low}: must be below tile_high = {self.tile_high}"
            )
        low, high = self.tile_box[::2], self.tile_box[1::2]
        if len(low) != len(high) or any(a >= b for a, b in zip(low, high, strict=True)):
            raise ConfigError(
                f"tile_box = {list(self.tile_box)}: must be low,high of each component "
                "in turn"
            )
        if self.features == "tiles" and self.normalise == "running":
            raise ConfigError(
                "normalise = running: tiles would move under what was learned; "
                "set normalise=none"
            )
        tiles_in_dpg = self.features == "tiles" and self.actor_update == "dpg"
        if tiles_in_dpg and self.q == "network":
            raise ConfigError(
                "q = network: cannot be used with tiles; set q=compatible"
            )

    def shape(self, spec: "EnvSpec") -> dict[str, Any]:
        tiling = None
        if self.features == "tiles":
            tiling = Tiling(*self.box(spec), self.tilings, self.tiles, self.tile_memory)
        width = spec.obs_dim if tiling is None else tiling.size
        return {"tiling": tiling, "width": width, "q": self.kind_of_q()}

    def kind_of_q(self) -> str | None:
        """None: the actor follows the temporal difference of V, not a Q."""
        if self.actor_update == "spg" and self.spg_critic == "compatible":
            return "compatible"
        return self.q if self.actor_update == "dpg" else None

    def box(self, spec: "EnvSpec") -> Box:
        """The box that tiles cover: `tile_box`, or the environment's own bounds where it
        has some."""
        if self.tile_box:
            if len(self.tile_box) != 2 * spec.obs_dim:
                raise ConfigError(
                    f"tile_box = {list(self.tile_box)}: {spec.id} has {spec.obs_dim} "
                    f"components, so it must hold {2 * spec.obs_dim} numbers"
                )
            return self.tile_box[::2], self.tile_box[1::2]
        unbounded = np.full(spec.obs_dim, np.nan)
        low = unbounded if spec.obs_low is None else np.asarray(spec.obs_low, float)
        high = unbounded if spec.obs_high is None else np.asarray(spec.obs_high, float)
        # a bound of 1e38 is how some spaces say that they have none
        bounded = (np.abs(low) < 1e6) & (np.abs(high) < 1e6) & (low < high)
        low = np.where(bounded, low, self.tile_low)
        high = np.where(bounded, high, self.tile_high)
        return tuple(low.tolist()), tuple(high.tolist())
