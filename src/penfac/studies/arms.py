"""What studies of the paper share: tasks, budgets, and arms of a fidelity."""

from typing import Any

from penfac.algos import ALGORITHMS
from penfac.settings import presets
from penfac.settings.configs import from_values
from penfac.studies.spec import Arm

FIDELITIES = ("authors", "tuned")
HOPPER, CHEETAH, HUMANOID = (
    f"Roboschool{robot}-v2" for robot in ("Hopper", "HalfCheetah", "Humanoid")
)
SEEDS = 60  # of the paper's figures
STEPS = 20_000_000  # of a run of the authors' program


def arm(
    name: str, fidelity: str, algo: str = "penfac", note: str = "", **settings: Any
) -> Arm:
    return Arm(name, algo, fidelity, settings, note)


def config_of(fidelity: str, env: str, algo: str = "penfac", **settings: Any) -> Any:
    """The config that an arm of these settings has."""
    found = ALGORITHMS[algo]
    base = presets.preset(found.presets, fidelity, env) | dict(found.overrides)
    return from_values(found.config, base | settings)


def usual(fidelity: str, env: str, key: str) -> Any:
    """What PeNFAC's preset has for a setting."""
    return getattr(config_of(fidelity, env), key)
