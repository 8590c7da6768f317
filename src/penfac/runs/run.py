"""A run as its folder shows it."""

from functools import cached_property
from pathlib import Path

from penfac.errors import ConfigError
from penfac.runs import evaluations, sealed
from penfac.runs.config import RunConfig, read_config
from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import (
    Learner,
    arm_config,
    arm_folders,
    learner_config,
    learners_of,
)
from penfac.runs.status import Status, read_status
from penfac.runs.storage import refuse_links


class Run:
    """A run folder: its config, its learners, and what they left so far."""

    def __init__(self, path: Path, config: RunConfig):
        self.path, self.config = path, config

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Read and check the config of a run folder; refuse one that reaches outside."""
        config = read_config(path)
        refuse_links(path)
        return cls(path, config)

    @cached_property
    def learners(self) -> list[Learner]:
        """Arm by arm, seed by seed."""
        return learners_of(self.path, self.config)

    @property
    def arms(self) -> "dict[str | None, Run]":
        """Each arm as a run of its own; a run without arms under None."""
        return {
            arm: Run(home, arm_config(self.config, arm))
            for arm, home in arm_folders(self.path, self.config).items()
        }

    @property
    def status(self) -> dict[Learner, Status]:
        """How each learner stands."""
        return {learner: read_status(learner.path) for learner in self.learners}

    @property
    def evaluations(self) -> dict[Learner, list[Evaluation]]:
        """The evaluations of each learner."""
        return {x: evaluations.read_evaluations(x.path) for x in self.learners}

    def refuse_changed(self) -> None:
        """An error where config.json is not the one the checkpoints were made with."""
        for learner in self.learners:
            sealed.refuse_changed(learner.path, learner_config(self.config, learner))

    def refuse_arms(self) -> None:
        """An error where one arm has to be chosen."""
        if self.config.arms is not None:
            listed = ", ".join(self.config.arms)
            raise ConfigError(
                f"{self.path}: has the arms {listed}; give the folder of one"
            )

    def learner(self, seed: int | None) -> Learner:
        """The learner of a seed; the first where none is named."""
        self.refuse_arms()
        seeds = self.config.seeds
        chosen = seeds[0] if seed is None else seed
        if chosen not in seeds:
            there = ", ".join(map(str, seeds))
            raise ConfigError(f"{self.path}: has no seed {chosen}; it has {there}")
        return next(x for x in self.learners if x.seed == chosen)
