"""Tasks, budgets and arms that the studies of the paper share."""

from typing import Any

from penfac.settings import presets
from penfac.settings.configs import from_values
from penfac.settings.registry import settings_of
from penfac.studies.spec import Arm

FIDELITIES = ("authors", "tuned")
HOPPER, CHEETAH, HUMANOID = (
    f"Roboschool{robot}-v2" for robot in ("Hopper", "HalfCheetah", "Humanoid")
)
SEEDS = 60  # of the paper's figures
STEPS = 20_000_000  # of a run by the authors' program


def arm(
    name: str, fidelity: str, algo: str = "penfac", note: str = "", **settings: Any
) -> Arm:
    return Arm(name, algo, fidelity, settings, note)


def config_of(fidelity: str, env: str, algo: str = "penfac", **settings: Any) -> Any:
    """The config of an arm with these settings."""
    known = settings_of(algo)
    base = presets.preset(known.presets, fidelity, env) | dict(known.overrides)
    return from_values(known.config, base | settings)


def preset_value(fidelity: str, env: str, key: str) -> Any:
    """The value of a setting in PeNFAC's preset."""
    return getattr(config_of(fidelity, env), key)
