"""What the training loop needs of an algorithm, and nothing more."""

from collections.abc import Callable
from typing import Any, NamedTuple

from penfac.policy import PolicyWeights
from penfac.types import EnvSpec, Transitions

State = Any  # a NamedTuple of arrays: everything a checkpoint must hold
Numbers = Any  # a NamedTuple of traced scalars: what arms of a study may differ in
Plan = Any  # hashable: sizes and switches that shape the program
Metrics = Any  # a NamedTuple of scalars, one row of progress.csv


class Algorithm(NamedTuple):
    """An algorithm as a value; `penfac.ALGORITHMS` lists them."""

    name: str
    summary: str
    section: str  # of the paper
    config: type  # a frozen dataclass; its defaults are the preset `tuned`
    check: Callable[[Any], None]  # raises penfac.errors.ConfigError
    plan: Callable[[Any, EnvSpec], Plan]
    numbers: Callable[[Any], Numbers]
    init: Callable[..., State]  # (key, plan, numbers)
    mu: Callable[..., Any]  # (state, obs, plan, numbers) -> actions in [-1, 1]
    update: Callable[[State, Transitions, Plan, Numbers], tuple[State, Metrics]]
    policy: Callable[[State, Plan, Numbers], PolicyWeights]
    overrides: dict[str, Any]  # values of the config that make this algorithm
