"""Runs that two studies need are made once, and both are judged by them."""

import json
import shutil

import pytest
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.campaign.small_campaign import (
    FIRST,
    HOME,
    SECOND,
    Quick,
    curves_file,
    members,
    run_both,
)
from tests.studies.small_study import LQR
from tests.studies.study_folders import (
    here,
    snapshot,
    unlocked,
    updates_once,
)

from penfac.errors import ConfigError
from penfac.runs.evaluations import mean_curve
from penfac.studies import plan, progress
from penfac.studies.campaign import run, sharing
from penfac.studies.campaign.members import Member
from penfac.studies.findings import findings
from penfac.studies.runner import How
from penfac.studies.spec import with_budget
from penfac.training.limits import Limits


@pytest.fixture
def quick(monkeypatch):
    return Quick(monkeypatch)


def returns(study: str, arm: str) -> list[list[float]]:
    (panel,) = findings(HOME / study)["panels"]
    (found,) = [a for a in panel["arms"] if a["arm"] == arm]
    return [seed["returns"] for seed in found["seeds"]]


def test_an_arm_of_two_studies_is_run_once(quick):
    """By its content: the two call it `narrow` and `usual`."""
    outcome = run_both()
    assert (outcome.exit_code, outcome.reason) == (0, "finished")
    assert len(quick.ran) == len(set(quick.ran)) == 6
    assert returns("first", "narrow") == returns("second", "usual")
    for study in ("first", "second"):
        found = findings(HOME / study)
        assert found["counts"]["finished"] == 4
        assert all(r["n"] == [2, 2] for r in found["claims"][0]["comparisons"])
        assert progress.read_progress(HOME / study)["finished"] == 4


def test_a_shared_run_is_that_of_the_study_alone(monkeypatch):
    """With real runs."""
    here(monkeypatch)
    run_both()
    run_both([Member(SECOND, (0, 1))], home=HOME.with_name("alone"))
    alone = curves_file("usual", 1, "second", HOME.with_name("alone"))
    assert returns("second", "usual")[1] == mean_curve(alone).returns
    assert len(list(HOME.rglob("evaluations.csv"))) == 6
    updates_once(HOME)


def test_the_same_call_again_changes_nothing(quick):
    run_both()
    before = unlocked(snapshot(HOME))
    run_both()
    after = unlocked(snapshot(HOME))
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed <= {"first/lock", "second/lock"}
    assert before.keys() == after.keys()


def test_more_seeds_join_in_both_studies(quick):
    run_both()
    run_both(members(seeds=(0, 1, 2)))
    assert len(quick.ran) == len(set(quick.ran)) == 9
    assert len(returns("first", "narrow")) == len(returns("second", "usual")) == 3


def test_a_study_alone_completes_what_it_shares(monkeypatch):
    """Its owner was begun by somebody who left before a run was made."""
    with monkeypatch.context() as patch:
        patch.setattr(run.runner, "execute", lambda *_: (none for none in ()))
        run_both()
    quick = Quick(monkeypatch)
    (sharer,) = [s for s in ("first", "second") if plan.read_plan(HOME / s).shared]
    study = {"first": FIRST, "second": SECOND}[sharer]
    run_both([Member(study, (0, 1))])
    assert findings(HOME / sharer)["counts"]["finished"] == 4
    assert len(quick.ran) == 4  # none of the owner's other arm


def test_an_owner_that_is_gone_is_told(quick):
    run_both()
    (sharer,) = [s for s in ("first", "second") if plan.read_plan(HOME / s).shared]
    (owner,) = {"first", "second"} - {sharer}
    shutil.rmtree(HOME / owner)
    study = {"first": FIRST, "second": SECOND}[sharer]
    outcome = run_both([Member(study, (0, 1))])
    assert outcome.exit_code == 2
    assert f"shares runs of {owner}, which is gone; restore" in outcome.errors[sharer]


def test_arms_that_differ_in_anything_a_run_reads_are_not_shared():
    base = sharing.planned(Member(FIRST, (0, 1)), "auto", "")
    other = {
        "steps": with_budget(FIRST, steps=400),
        "evaluations": with_budget(FIRST, eval_every=50),
        "episodes": with_budget(FIRST, eval_episodes=3),
    }
    for study in other.values():
        plan_of = sharing.planned(Member(study, (0, 1)), "auto", "")
        pairs = zip(
            sharing.contents(base).values(),
            sharing.contents(plan_of).values(),
            strict=True,
        )
        assert all(a != b for a, b in pairs)
    again = sharing.with_shares("again", base, {"first": base})
    assert again.shared[LQR] == {
        arm: f"../first/penfac-LQR-v0/penfac/{arm}" for arm in ("wide", "narrow")
    }


def test_an_arm_with_fewer_seeds_is_not_shared():
    few = sharing.planned(Member(FIRST, (0, 1)), "auto", "")
    many = sharing.planned(Member(FIRST, (0, 1, 2)), "auto", "")
    assert sharing.with_shares("many", many, {"few": few}).shared == {}
    assert sharing.with_shares("few", few, {"many": many}).shared != {}


def test_a_study_of_another_budget_is_refused_before_anything_runs(quick):
    run_both()
    before = unlocked(snapshot(HOME))
    longer = [Member(with_budget(FIRST, steps=900), (0, 1))]
    with pytest.raises(ConfigError, match="holds another study"):
        run_both(longer)
    assert unlocked(snapshot(HOME)) == before


def test_a_study_that_fails_does_not_stop_the_others(quick, monkeypatch):
    start = run.runner.start

    def broken(study, *args, **kwargs):
        if study.name == "first":
            raise ConfigError("first: no")
        return start(study, *args, **kwargs)

    monkeypatch.setattr(run.runner, "start", broken)
    listed = [Member(FIRST, (0, 1)), Member(SECOND, (0, 1, 2))]  # share nothing
    outcome = run_both(listed)
    assert (outcome.exit_code, outcome.errors) == (2, {"first": "first: no"})
    assert outcome.studies["second"].counts["finished"] == 6


def test_study_json_says_what_is_shared_and_only_then(quick):
    run_both()
    texts = [(HOME / s / "study.json").read_text() for s in ("first", "second")]
    shared = [json.loads(text).get("shared") for text in texts]
    assert sorted(found is None for found in shared) == [False, True]
    assert all("known" not in json.loads(text) for text in texts)


def test_one_program_on_a_device_leaves_out_what_is_shared(quick):
    run_both(on="device")
    (sharer,) = [s for s in ("first", "second") if plan.read_plan(HOME / s).shared]
    (group,) = plan.groups(HOME / sharer, plan.read_plan(HOME / sharer))
    assert group.config.arms.keys() in ({"wide"}, {"far"})


def test_how_is_checked_before_a_folder_is_made():
    how, limits = How("nowhere"), Limits()
    with pytest.raises(ConfigError, match="--on nowhere"):
        run.plan_all(members(), HOME, how, limits, run.Ask(), print)
    assert not HOME.exists()
