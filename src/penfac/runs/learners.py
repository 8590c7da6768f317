"""Who learns in a run, and where each one's folder is.

One seed: the run's folder. Several: `seed-<s>` in it. Arms: a folder each, and in it
what a run of that arm alone would have.
"""

from pathlib import Path
from typing import Any, NamedTuple

from penfac.errors import ConfigError

Document = dict[str, Any]  # what a config.json holds


class Learner(NamedTuple):
    """One config, one seed, one folder."""

    arm: str | None  # none: the run has one config
    seed: int
    path: Path

    def __str__(self) -> str:
        return f"seed {self.seed}" if self.arm is None else f"{self.arm}, {self.seed}"


def learners_of(folder: Path, document: Document) -> list[Learner]:
    """Arm by arm, seed by seed."""
    seeds = document["seeds"]
    return [
        Learner(arm, seed, home if len(seeds) == 1 else home / f"seed-{seed}")
        for arm, home in arm_folders(folder, document).items()
        for seed in seeds
    ]


def arm_folders(folder: Path, document: Document) -> dict[str | None, Path]:
    if "arms" not in document:
        return {None: folder}
    # a search leaves arms behind on its way
    return {arm: folder / arm for arm in document.get("alive", document["arms"])}


def arm_document(document: Document, arm: str | None) -> Document:
    """config.json of one arm: a run that knows of no other."""
    if arm is None:
        return document
    rest = {k: v for k, v in document.items() if k not in ("arms", "alive", "search")}
    return rest | {"config": document["arms"][arm], "arm": arm}


def learner_document(document: Document, learner: Learner) -> Document:
    """config.json of one learner: a run of one seed."""
    return arm_document(document, learner.arm) | {"seeds": [learner.seed]}


def documents(folder: Path, document: Document) -> dict[Path, Document]:
    """Every config.json of a run, by folder."""
    found = {
        learner.path: learner_document(document, learner)
        for learner in learners_of(folder, document)
    }
    for arm, home in arm_folders(folder, document).items():
        if home not in found:
            found[home] = arm_document(document, arm)
    return {folder: document} | found if folder not in found else found


def one_of(folder: Path, document: Document, seed: int | None) -> Learner:
    """A learner by its seed; the first if none is named."""
    if "arms" in document:
        listed = ", ".join(document["arms"])
        raise ConfigError(f"{folder}: has the arms {listed}; give the folder of one")
    seeds: list[int] = document["seeds"]
    chosen = seeds[0] if seed is None else seed
    if chosen not in seeds:
        there = ", ".join(map(str, seeds))
        raise ConfigError(f"{folder}: has no seed {chosen}; it has {there}")
    return next(x for x in learners_of(folder, document) if x.seed == chosen)
