"""Every arm of every study of the paper learns: two updates, two seeds, on processes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.faults.commands import environment

from penfac.runs.csv_files import read_csv
from penfac.settings.configs import to_values
from penfac.studies import plan, runner
from penfac.studies.paper import FIDELITIES, PAPER, paper_study
from penfac.studies.spec import Arm, Study, with_budget
from penfac.training.limits import Limits

pytestmark = pytest.mark.slow
SEEDS = (0, 1)


class Cell(NamedTuple):
    """An arm on an environment, and the steps of two updates."""

    env: str
    arm: Arm
    steps: int


def two_updates(config: dict) -> int:
    """One step more than the first takes. Robots that know nothing fall at once: a few of
    their episodes are some 150 steps, and every other length is a program to compile."""
    if config.get("collect") == "episodes":
        least = config["min_steps_per_update"]  # and on to the end of its episodes
        return least + (600 if config["episodes_per_update"] <= 10 else 2048)
    return max(2048, config.get("worlds", 1) * config.get("steps_per_world", 1)) + 1


def cells() -> list[Cell]:
    """Each (environment, algorithm, config) once, by what it was resolved to."""
    found = {}
    for fidelity in FIDELITIES:
        for name in PAPER:
            study = paper_study(name, fidelity)
            planned = plan.make_plan(study, SEEDS, "auto", "")
            for env in study.envs:
                for arm in study.arms:
                    config = to_values(plan.arm_config(planned, env, arm).settings)
                    key = json.dumps([env, arm.algo, config], sort_keys=True)
                    named = replace(arm, name=f"{name}.{fidelity}.{arm.name}")
                    cell = Cell(env, named, two_updates(config))
                    found.setdefault(key, cell)
    return list(found.values())


def studies() -> list[Study]:
    """What there is to run, a study an environment and budget."""
    every = cells()
    return [
        with_budget(
            Study("every", "every arm", tuple(c.arm for c in every if c[::2] == (env, n)), (env,)),
            steps=n, eval_every=10**9, eval_episodes=1,
        )
        for env, n in dict.fromkeys((cell.env, cell.steps) for cell in every)
    ]  # fmt: skip


def test_every_arm_of_every_study_is_among_them():
    """Nothing that the paper's studies declare is left out by naming it once."""
    envs = {env for n in PAPER for f in FIDELITIES for env in paper_study(n, f).envs}
    assert {study.envs[0] for study in studies()} == envs
    assert sum(len(study.arms) for study in studies()) == len(cells())


@pytest.mark.parametrize("study", studies(), ids=lambda s: f"{s.envs[0]}-{s.steps}")
def test_every_arm_learns(study, tmp_path, monkeypatch):
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    limits, home = Limits(command="penfac study run"), Path(tmp_path / "study")
    told = runner.start(study, SEEDS, home, runner.How(), limits, print)
    assert told.failed == {}
    assert told.counts["finished"] == len(study.arms) * len(SEEDS)
    for unit in plan.units(home, plan.read_plan(home)):
        rows = read_csv(unit.path / "progress.csv")
        assert len(rows) >= 2, unit
        assert len({row["update"] for row in rows}) == len(rows), unit
