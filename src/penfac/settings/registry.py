"""The settings of each algorithm, by its name, without JAX."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from penfac.errors import ConfigError
from penfac.settings import ddpg, online, penfac, ppo, sac
from penfac.settings.configs import check, from_values
from penfac.settings.declaration import earlier_settings
from penfac.settings.suggest import did_you_mean
from penfac.settings.words import other_algorithm


class AlgorithmSettings(NamedTuple):
    """What an algorithm lets people choose."""

    config: type  # a frozen dataclass; its defaults are the preset `tuned`
    presets: str  # the file that holds them
    overrides: Mapping[str, Any] = MappingProxyType({})  # what makes it this algorithm

    @property
    def earlier(self) -> Mapping[str, Any]:
        """What runs did that were begun before these settings existed."""
        return earlier_settings(self.config)


def online_rule(rule: str) -> AlgorithmSettings:
    return AlgorithmSettings(online.Config, "online", {"actor_update": rule})


SETTINGS = {
    "penfac": AlgorithmSettings(penfac.Config, "penfac"),
    "nfac": AlgorithmSettings(
        penfac.Config, "penfac", {"actor_update": "cacla", "trust_region": False}
    ),
    "offpenfac": AlgorithmSettings(
        penfac.Config,
        "offpenfac",
        {"reuse": 3, "minibatches": 32, "dpg_share_start": 0.25},
    ),
    "cacla": online_rule("cacla"),
    "cac": online_rule("cac"),
    "spg": online_rule("spg"),
    "dpg": online_rule("dpg"),
    "ddpg": AlgorithmSettings(ddpg.Config, "ddpg"),
    "td3": AlgorithmSettings(
        ddpg.Config, "td3", {"critics": 2, "actor_delay": 2, "target_noise": 0.2}
    ),
    "sac": AlgorithmSettings(sac.Config, "sac"),
    "ppo": AlgorithmSettings(ppo.Config, "ppo"),
}


def settings_of(algo: str) -> AlgorithmSettings:
    """The entry of an algorithm, or an error that names the closest one."""
    if algo not in SETTINGS:
        hint = other_algorithm(algo) or did_you_mean(algo, SETTINGS)
        raise ConfigError(
            f"--algo {algo}: no such algorithm{hint} (there are {', '.join(SETTINGS)})"
        )
    return SETTINGS[algo]


def config_class(algo: str) -> type:
    """The dataclass that holds the settings of an algorithm."""
    return settings_of(algo).config


def parse(algo: str, values: Mapping[str, Any]) -> Any:
    """A config from typed values, checked; a setting that is not named has its default."""
    cfg = from_values(config_class(algo), dict(values))
    check(cfg)
    return cfg


def parse_saved(algo: str, values: Mapping[str, Any]) -> Any:
    """A config as a run's file holds it, checked; a setting that the run's version did not
    have yet is completed with what that version did."""
    return parse(algo, {**settings_of(algo).earlier, **values})
