"""Who learns in a run, and where each learner's folder is.

One seed: the run's folder. Several: `seed-<s>` in it. Arms: a folder for each, which
holds what a run of that arm alone would have.
"""

from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from penfac.runs.config import RunConfig


class Learner(NamedTuple):
    """One config, one seed, one folder."""

    arm: str | None  # None: the run has one config
    seed: int
    path: Path

    def __str__(self) -> str:
        return f"seed {self.seed}" if self.arm is None else f"{self.arm}, {self.seed}"


def learners_of(folder: Path, config: RunConfig) -> list[Learner]:
    """Arm by arm, seed by seed."""
    alone = len(config.seeds) == 1
    return [
        Learner(arm, seed, home if alone else home / f"seed-{seed}")
        for arm, home in arm_folders(folder, config).items()
        for seed in config.seeds
    ]


def arm_folders(folder: Path, config: RunConfig) -> dict[str | None, Path]:
    """The folder of each arm; of a search, those of the arms that it still trains."""
    if config.arms is None:
        return {None: folder}
    alive = config.arms if config.alive is None else config.alive
    return {arm: folder / arm for arm in alive}


def arm_config(config: RunConfig, arm: str | None) -> RunConfig:
    """The config of one arm, as a run that knows no other."""
    if arm is None or config.arms is None:
        return config
    settings = config.arms[arm]
    return replace(
        config, settings=settings, arm=arm, arms=None, alive=None, search=None
    )


def learner_config(config: RunConfig, learner: Learner) -> RunConfig:
    """The config of one learner, as a run of one seed."""
    return replace(arm_config(config, learner.arm), seeds=(learner.seed,))


def configs_of(folder: Path, config: RunConfig) -> dict[Path, RunConfig]:
    """Every config.json of a run, by folder: of the run, its arms and its learners."""
    below = {x.path: learner_config(config, x) for x in learners_of(folder, config)}
    for arm, home in arm_folders(folder, config).items():
        below.setdefault(home, arm_config(config, arm))
    return below if folder in below else {folder: config} | below
