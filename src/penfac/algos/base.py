"""What engines need of an algorithm, and nothing more."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jaxtyping import Float, PRNGKeyArray

from penfac.algos import numbers as numbers_of
from penfac.algos.networks import Actor, Inputs
from penfac.algos.numbers import Numbers, Plan
from penfac.core.noise import Exploration
from penfac.policy import PolicyWeights
from penfac.settings.registry import SETTINGS
from penfac.types import EnvSpec, Transitions

State = Any  # a NamedTuple of arrays: everything a checkpoint must hold
Metrics = Any  # a NamedTuple of scalars, one row of progress.csv


class Collecting(NamedTuple):
    """How experience reaches an algorithm: all that engines read of a config."""

    episodes: int | None  # whole episodes an update; none: worlds that go on
    min_steps: int  # ... and more of them until there are so many steps
    worlds: int
    steps: int  # of each world an update
    rounds: int  # collect and update so often before progress is told
    exploration: Exploration
    random_steps: int  # at first actions are uniform


class Moment(NamedTuple):
    """When an update happens: its own randomness, and how far the run has come."""

    key: PRNGKeyArray
    progress: Float[Array, ""]  # 0 at the start of the run, 1 at its end
    sigma: Float[Array, ""]  # what the batch was explored with


def explore_by_law(cfg: Any) -> Exploration:
    """The law that the config names."""
    return Exploration(cfg.exploration)


def use_own_actor(state: State) -> State:
    """The learner explores with its own actor."""
    return state


def use_configured_sigma(
    state: State, obs: Array, sigma: Any, plan: Plan, numbers: Numbers
) -> Any:
    """Exploration is as wide as the config says."""
    return sigma


def policy_weights(acting: tuple[Inputs, Actor], plan: Plan) -> PolicyWeights:
    """mu as numpy arrays: what the host collector plays and what is deployed."""
    inputs, actor = acting
    return PolicyWeights(
        mean=np.asarray(inputs.mean),
        std=np.asarray(inputs.std),
        clip=float(inputs.clip),
        scale=np.asarray(actor.scale),
        shift=np.asarray(actor.shift),
        layers=[(np.asarray(w), np.asarray(b)) for w, b in actor.layers],
        activation=plan.activation,
        output=plan.actor_output,
        tiling=getattr(plan, "tiling", None),
        spread=[(np.asarray(w), np.asarray(b)) for w, b in actor.spread],
    )


def plan_of_centre(plan: Plan, how: Exploration) -> Plan:
    """The plan by which mu is what the law is centred at: before tanh, if it squashes."""
    return plan._replace(actor_output="linear") if how.law == "squashed" else plan


class Algorithm(NamedTuple):
    """An algorithm as a value; `penfac.ALGORITHMS` lists them."""

    name: str
    summary: str
    section: str  # of the paper
    init: Callable[..., State]  # (key, plan, numbers)
    mu: Callable[..., Any]  # (state, obs, plan, numbers) -> actions in [-1, 1]
    update: Callable[[State, Transitions, Plan, Numbers, Moment], tuple[State, Metrics]]
    acting: Callable[[State, Plan, Numbers], tuple[Inputs, Actor]]  # all that mu needs
    behaviour: Callable[[State], State] = use_own_actor  # whose mu explores
    # (state, obs, sigma of the config, plan, numbers) -> the width of exploration at obs:
    # [] or [m] if it is the same everywhere, [*b, m] if it depends on the observation
    sigma: Callable[..., Any] = use_configured_sigma
    modes: tuple[str, ...] = ("mean",)  # how it is judged
    exploration: Callable[[Any], Exploration] = explore_by_law  # of a config
    # arrays that the state of runs begun by an earlier version did not have
    earlier_arrays: Mapping[str, np.ndarray] = MappingProxyType({})

    @property
    def config(self) -> type:
        """A frozen dataclass; its defaults are the preset `tuned`."""
        return SETTINGS[self.name].config

    @property
    def presets(self) -> str:
        """The file that holds its presets."""
        return SETTINGS[self.name].presets

    @property
    def overrides(self) -> Mapping[str, Any]:
        """The settings that make it this algorithm."""
        return SETTINGS[self.name].overrides

    def plan(self, cfg: Any, spec: EnvSpec) -> Plan:
        """What shapes the program of a config."""
        return numbers_of.plan(cfg, spec)

    def numbers(self, cfg: Any, spec: EnvSpec | None = None) -> Numbers:
        """What learners of that program may differ in."""
        return numbers_of.numbers(cfg, spec)

    def collecting(self, cfg: Any) -> Collecting:
        """How experience reaches the algorithm; what only the other way of collecting
        reads is left out, so arms may differ in it and share a program."""
        whole = getattr(cfg, "collect", "steps") == "episodes"
        return Collecting(
            episodes=cfg.episodes_per_update if whole else None,
            min_steps=cfg.min_steps_per_update if whole else 1,
            worlds=1 if whole else cfg.worlds,
            steps=1 if whole else getattr(cfg, "steps_per_world", 1),
            rounds=getattr(cfg, "rounds", 1),
            exploration=self.exploration(cfg),
            random_steps=getattr(cfg, "random_steps", 0),
        )

    @property
    def learns_sigma(self) -> bool:
        """Whether the width of exploration is part of the state."""
        return self.sigma is not use_configured_sigma

    def policy(self, state: State, plan: Plan, numbers: Numbers) -> PolicyWeights:
        """mu as numpy arrays: what is deployed."""
        acting = jax.jit(self.acting, static_argnums=1)
        return policy_weights(acting(state, plan, numbers), plan)
