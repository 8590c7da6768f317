"""What engines and tasks exchange: a state with its sensors, and the result of a step."""

from typing import Any, NamedTuple

CONTROL_STEP = 0.0165  # s
START_NOISE = 0.1  # rad, on every joint at reset

Array = Any  # numpy or JAX


class Scene(NamedTuple):
    """A state as an engine gives it."""

    qpos: Array
    qvel: Array
    sensors: Array


class TaskStep(NamedTuple):
    """What one control step led to."""

    obs: Array  # float32
    terms: dict[str, Array]  # the reward, term by term
    terminated: Array
    flags: Array  # which feet touch the floor: observed one step later

    @property
    def reward(self) -> Array:
        """In the order of the terms, as arrays: Python sums floats otherwise since 3.12."""
        first, *others = self.terms.values()
        return sum(others, first)
