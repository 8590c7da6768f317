"""The order of studies, what they cost, and which sizes they have."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.campaign.small_campaign import (
    FIRST,
    HOME,
    SECOND,
    Quick,
    members,
    run_both,
)
from tests.studies.small_study import LQR

from penfac.errors import ConfigError
from penfac.studies.arms import HUMANOID
from penfac.studies.campaign import members as campaign
from penfac.studies.campaign import rates, run, sharing, work
from penfac.studies.campaign.members import Member
from penfac.studies.campaign.rates import Rate, Rates
from penfac.studies.campaign.run import Ask
from penfac.studies.claims import Claim
from penfac.studies.paper import PAPER, fidelities_of
from penfac.studies.runner import How
from penfac.studies.spec import with_budget
from penfac.training.limits import Limits

KEY = (LQR, "penfac", "tuned", "auto")


def rated(per_second=100.0, on="auto", processes=1, together=1) -> Rates:
    key = (*KEY[:3], on)
    return Rates({key: Rate(per_second, 10.0, together, "trial")}, on, processes)


def ordered(listed: list[Member], budget=None, done=frozenset(), known=None):
    planned = [(m, sharing.planned(m, "auto", "")) for m in listed]
    return work.schedule(planned, set(done), known or rated(), budget)


# --- order -------------------------------------------------------------------------------


def test_verdicts_per_hour_come_first_and_shared_runs_cost_nothing():
    claim = FIRST.claims[0]
    many = replace(FIRST, name="many", claims=(claim,) * 3)  # as dear as the first
    dear = replace(with_budget(FIRST, steps=9000), name="dear", claims=(claim,) * 3)
    rows = ordered([Member(s, (0, 1)) for s in (FIRST, SECOND, dear, many)])
    # what `many` runs is all that the first needs, and half of the second
    assert [row.member.name for row in rows] == ["many", "first", "second", "dear"]
    assert [len(row.jobs) for row in rows] == [4, 0, 2, 4]
    assert [row.shared for row in rows] == [0, 4, 2, 0]
    assert [row.seconds for row in rows] == [12.0, 0.0, 6.0, 360.0]


def test_within_a_budget_what_fits_whole_comes_first():
    claim = FIRST.claims[0]
    dear = replace(with_budget(FIRST, steps=3000), name="dear", claims=(claim,) * 30)
    rows = ordered([Member(s, (0, 1)) for s in (dear, FIRST)], budget=60.0)
    assert [(row.member.name, row.fits) for row in rows] == [
        ("first", True),
        ("dear", False),
    ]
    rows = ordered([Member(s, (0, 1)) for s in (dear, FIRST)], budget=600.0)
    assert [(row.member.name, row.fits) for row in rows] == [
        ("dear", True),
        ("first", True),
    ]


def test_what_is_done_costs_nothing(monkeypatch):
    Quick(monkeypatch)
    run_both()
    rows = run.plan_all(members((0, 1, 2)), HOME, How(), Limits(), Ask(), print)
    assert sorted(len(row.jobs) for row in rows) == [1, 2]
    assert sum(row.shared for row in rows) == 9


def test_without_a_rate_steps_decide():
    long = replace(with_budget(FIRST, steps=9000), name="long")
    known = Rates({}, "auto", 1)
    rows = ordered([Member(s, (0, 1)) for s in (long, FIRST)], known=known)
    assert [row.member.name for row in rows] == ["first", "long"]
    assert all(row.seconds is None and row.size is None for row in rows)


# --- hours and bytes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "seconds"),
    [
        (rated(), 12.0),  # 4 runs of 300 steps at 100 steps/s
        (rated(processes=2), 6.0),
        (rated(on="device", together=4), 3.0),  # all at once
        (rated(on="device", together=8), 3.0),  # a program of fewer is no faster
        (
            rated(on="device", together=2),
            6.0,
        ),  # one of twice as many takes twice as long
    ],
)
def test_the_seconds_of_a_study(known, seconds):
    jobs = work.jobs_of(members()[0], sharing.planned(members()[0], "auto", ""))
    assert known.estimate(jobs, (LQR,)) == (seconds, 40.0, ("trial",))


def test_an_environment_without_a_rate_takes_the_slowest_of_its_study():
    known = {
        (env, *KEY[1:]): Rate(r, 1.0, 1, "trial") for env, r in (("a", 5.0), ("b", 2.0))
    }
    found = Rates(known, "auto", 1)
    assert found.find("c", "penfac", "tuned", ("a", "b", "c")).per_second == 2.0
    assert found.find("a", "penfac", "tuned", ("a", "b", "c")).per_second == 5.0
    assert found.find("c", "penfac", "authors", ("a", "b", "c")) is None


def test_a_rate_is_that_between_the_first_and_the_last_update(tmp_path):
    """Compiling, before the first, does not count; rows grow with the steps."""
    (tmp_path / "status.json").write_text("x" * 100)
    rows = [(1, 100, 30.0), (2, 200, 31.0), (3, 300, 32.0)]
    with open(tmp_path / "timing.csv", "w", newline="") as file:
        csv.writer(file).writerows([("update", "step", "elapsed_s"), *rows])
    size = (tmp_path / "timing.csv").stat().st_size
    config = sharing.plans.units(
        Path(),
        sharing.planned(Member(with_budget(FIRST, steps=3000), (0, 1)), "auto", ""),
    )[0].run.config
    found = rates.rate_of(tmp_path, config, 1)
    assert (found.per_second, found.size) == (100.0, 100 + 10 * size)
    (tmp_path / "timing.csv").write_text("update,step,elapsed_s\n1,100,30.0\n")
    with pytest.raises(LookupError):
        rates.rate_of(tmp_path, config, 1)


def test_a_trial_is_made_once_and_told():
    said: list[str] = []
    how, ask = How(processes=1), Ask(trial=0.5)
    for _ in range(2):
        rows = run.plan_all([members()[0]], HOME, how, Limits(), ask, said.append)
    assert said == [
        "# 1 trials of 0.5 s measure rates that are not known on this machine"
    ]
    (row,) = rows
    assert row.seconds > 0
    assert row.size > 1000
    assert row.sources == ("trial",)
    assert [path.name for path in HOME.iterdir()] == ["trials.json"]


# --- sizes -------------------------------------------------------------------------------


def test_the_campaign_has_every_study_in_every_fidelity_that_differs():
    listed = campaign.members()
    names = [f"{name}-{f}" for name in PAPER for f in fidelities_of(name)]
    assert [member.name for member in listed] == names
    once = {m.study.name for m in listed} - {
        m.study.name for m in listed if m.study.fidelity == "authors"
    }
    assert once == {"fig5", "fig6", "per-step"}


def test_its_sizes():
    found = {member.name: member for member in campaign.members()}
    tuned, authors = found["fig1-tuned"], found["fig1-authors"]
    assert (len(tuned.seeds), tuned.study.steps) == (60, 1_000_000)
    assert tuned.study.algo_seeds == {"ddpg": 20}
    assert tuned.runs == 3 * 60 + 2 * 20
    assert (len(authors.seeds), authors.study.steps) == (20, 5_000_000)
    assert found["fig3-tuned"].study.steps_on(HUMANOID) == 8_000_000
    assert (len(found["fig5-tuned"].seeds), found["fig5-tuned"].study.steps) == (
        100,
        2000,
    )


def test_a_short_size_is_short_everywhere():
    for member in campaign.members(seeds=(0, 1), steps=20_000):
        assert member.seeds == (0, 1)
        assert {member.study.steps_on(env) for env in member.study.envs} == {20_000}


def test_searched_settings_are_found_by_the_name_of_the_study(tmp_path):
    searched_in = tmp_path / "fig1-tuned"
    searched_in.mkdir()
    (searched_in / "settings.toml").write_text(
        '["RoboschoolHopper-v2".ppo]\nsigma = 1.0\n'
    )
    (plain,) = campaign.members("tuned", ("fig1",))
    (searched,) = campaign.members("tuned", ("fig1",), settings=tmp_path)
    arms = {arm.name: arm.on for arm in searched.study.arms}
    assert all(arm.on == {} for arm in plain.study.arms)
    assert arms["ppo"] != {}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"fidelity": "exact"},
            "--fidelity exact: must be one of both, authors, tuned",
        ),
        ({"only": ("fig44",)}, "--studies fig44: no such study.*fig4"),
        ({"steps": 0}, "--steps 0: must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        campaign.members(**given)


def test_a_claim_counts_as_a_verdict():
    two = replace(FIRST, claims=(*FIRST.claims, Claim("w", ("narrow above wide",))))
    (row,) = ordered([Member(two, (0, 1))])
    assert row.verdicts == 2
