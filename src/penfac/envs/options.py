"""What a user may say about an environment beyond its id."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class EnvOptions:
    """Options of an environment, as config.json holds them."""

    max_episode_steps: int | None = None
    action_bounds: tuple[float, float] | None = None
    flatten_obs: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict)
