"""The studies of a campaign, each with its seeds and steps."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from penfac.errors import ConfigError
from penfac.settings.suggest import did_you_mean
from penfac.studies import spec, tuning
from penfac.studies.arms import HUMANOID
from penfac.studies.paper import FIDELITIES, PAPER, fidelities_of, paper_study
from penfac.studies.spec import Study

NAME = "paper"  # of the campaign, where a study's name stands otherwise
BOTH = "both"
Tell = Callable[[str], None]
Progress = Callable[[str, float, float | None], None]  # study, share done, seconds left


class Size(NamedTuple):
    """The budget of every study of a fidelity that learns a robot's gait."""

    seeds: int
    steps: int
    env_steps: dict[str, int]
    algo_seeds: dict[str, int]


SIZES = {
    # DDPG takes a step of Adam for every step of its worlds
    "tuned": Size(60, 1_000_000, {HUMANOID: 8_000_000}, {"ddpg": 20}),
    "authors": Size(20, 5_000_000, {}, {}),
}
# their steps are those of the paper's figures or of an update at every step
OWN_STEPS = ("fig5", "fig6", "per-step")


class Member(NamedTuple):
    """A study of the campaign and its seeds."""

    study: Study
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of its folder, in the campaign's and in results/."""
        return "-".join(filter(None, (self.study.name, self.study.fidelity)))

    @property
    def runs(self) -> int:
        few = self.study.algo_seeds
        arms = [len(self.seeds[: few.get(arm.algo)]) for arm in self.study.arms]
        return sum(arms) * len(self.study.envs)


def members(
    fidelity: str = BOTH,
    only: tuple[str, ...] = (),
    seeds: tuple[int, ...] | None = None,
    settings: Path | None = None,
    **budget: int | None,
) -> list[Member]:
    """The studies of the campaign, or those named; `budget` replaces parts of theirs."""
    if fidelity not in (BOTH, *FIDELITIES):
        listed = ", ".join((BOTH, *FIDELITIES))
        raise ConfigError(f"--fidelity {fidelity}: must be one of {listed}")
    for name in only:
        if name not in PAPER:
            raise ConfigError(
                f"--studies {name}: no such study{did_you_mean(name, PAPER)}"
            )
    found = []
    for name in only or PAPER:
        for own in fidelities_of(name):
            if fidelity in (BOTH, own) or len(fidelities_of(name)) == 1:
                study = with_search(sized(paper_study(name, own)), settings)
                listed = seeds or tuple(range(study.seeds))
                found.append(Member(spec.with_budget(study, **budget), listed))
    return found


def sized(study: Study) -> Study:
    """The study with the campaign's budget."""
    size = SIZES[study.fidelity]
    algos = {arm.algo for arm in study.arms}
    few = {algo: n for algo, n in size.algo_seeds.items() if algo in algos}
    if study.name in OWN_STEPS:
        return replace(study, seeds=max(study.seeds, size.seeds), algo_seeds=few)
    other = {env: n for env, n in size.env_steps.items() if env in study.envs}
    return spec.check(
        replace(
            study, seeds=size.seeds, steps=size.steps, env_steps=other, algo_seeds=few
        )
    )


def with_search(study: Study, settings: Path | None) -> Study:
    """The study with the settings that a search found for it, where there are any."""
    if settings is None:
        return study
    file = settings / f"{study.name}-{study.fidelity}" / tuning.FILE
    return tuning.with_settings(study, tuning.read(file)) if file.is_file() else study


def one(study: Study, seeds: tuple[int, ...] | None) -> list[Member]:
    """A study alone, planned as a campaign is."""
    return [Member(study, seeds or tuple(range(study.seeds)))]
