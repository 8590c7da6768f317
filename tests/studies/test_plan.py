"""A study as folders: what is written, what may join it, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.commands import command
from tests.faults.conftest import in_own_folder  # noqa: F401
from tests.studies.small_study import LQR, SETTINGS, run_study, small
from tests.studies.study_folders import (
    here,
    run_folders,
    run_nothing,
    snapshot,
    unlocked,
)

from penfac.errors import ConfigError, CorruptFile, RunFolderBusy
from penfac.runs import versions
from penfac.runs.config import read_config
from penfac.runs.storage import Lock
from penfac.studies import checks, plan, runner
from penfac.studies.claims import Claim
from penfac.studies.spec import Arm
from penfac.training import request

EXECUTE = runner.execute
HOME = Path("study")
GROUP = HOME / "penfac-LQR-v0" / "penfac"
PPO = {"actor_hidden": [4], "critic_hidden": [4], "worlds": 2, "steps_per_world": 50}


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    run_nothing(monkeypatch)


def document_of(path: Path) -> dict:
    return json.loads((path / "config.json").read_text())


def edit(path: Path, name: str = "config.json", **changed) -> None:
    document = json.loads((path / name).read_text())
    (path / name).write_text(json.dumps(document | changed))


def refused(why: str, **given) -> None:
    """One line that says why, and not a byte is changed."""
    before = snapshot(HOME)
    with pytest.raises(ConfigError, match=why) as error:
        run_study(HOME, **given)
    assert "\n" not in str(error.value)
    assert snapshot(HOME) == before


# --- what is written ---------------------------------------------------------------------


def test_a_run_has_a_folder_by_environment_algorithm_arm_and_seed():
    arms = (*small().arms, Arm("ppo", "ppo", settings=PPO))
    run_study(HOME, small(arms=arms, envs=(LQR, "penfac/Pendulum-v0")), seeds=(3, 5))
    wanted = {
        HOME / env / algo / arm / f"seed-{seed}"
        for env in ("penfac-LQR-v0", "penfac-Pendulum-v0")
        for algo, arm in (("penfac", "wide"), ("penfac", "narrow"), ("ppo", "ppo"))
        for seed in (3, 5)
    }
    assert set(run_folders(HOME)) == wanted
    files = list(HOME.rglob("config.json"))
    assert len(files) == len(wanted) + 6 + 4  # runs, arms, groups


def test_every_config_is_a_run_that_could_go_on():
    """At every level, as `penfac resume` and `penfac eval` read it."""
    run_study(HOME)
    folders = [file.parent for file in HOME.rglob("config.json")]
    assert {len(path.relative_to(HOME).parts) for path in folders} == {2, 3, 4}
    for path in folders:
        config = read_config(path)
        assert config.study == "small"
        assert config.env == LQR
    assert document_of(GROUP)["seeds"] == [0, 1]
    assert document_of(GROUP / "wide")["seeds"] == [0, 1]
    assert document_of(GROUP / "wide" / "seed-1")["seeds"] == [1]
    assert "arms" not in document_of(GROUP / "wide")


def test_resume_takes_any_level_of_a_study(monkeypatch):
    """The runs of one arm made by `penfac resume` are runs of the study."""
    run_study(HOME)
    result = command("resume", GROUP / "wide")
    assert (result.code, result.err) == (0, "")
    monkeypatch.setattr(runner, "execute", EXECUTE)
    here(monkeypatch)
    said = []
    told = run_study(HOME, tell=said)
    assert told.counts["finished"] == 4
    assert said[0].startswith("2 runs to go")
    judged = command("eval", GROUP / "narrow", "--episodes=1")
    assert (judged.code, judged.err) == (0, "")


def test_arms_with_presets_of_their_own_keep_each_its_config():
    arms = (
        Arm("ours", preset="tuned", settings=SETTINGS),
        Arm("theirs", preset="authors", settings=SETTINGS | {"sigma": 0.3}),
    )
    run_study(HOME, small(arms=arms, claims=()))
    for arm in arms:
        asked = request.Request(LQR, preset=arm.preset, settings=arm.settings)
        wanted = request.resolve(asked).to_document()["config"]
        assert document_of(GROUP)["arms"][arm.name] == wanted
        assert document_of(GROUP / arm.name)["config"] == wanted
        assert document_of(GROUP / arm.name / "seed-0")["config"] == wanted
    configs = document_of(GROUP)["arms"]
    assert configs["ours"] != configs["theirs"]


def test_every_arm_s_first_seed_comes_before_any_second():
    run_study(HOME, seeds=(7, 2, 4))
    units = plan.units(HOME, plan.read_plan(HOME))
    assert [(u.arm, u.seed) for u in units] == [
        (arm, seed) for seed in (7, 2, 4) for arm in ("wide", "narrow")
    ]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (None, "missing"),
        ({"state": "finished", "exit_code": 0, "error": None}, "finished"),
        ({"state": "running", "exit_code": None, "error": None}, "running"),
        ({"state": "stopped", "exit_code": 130, "error": "stopped"}, "running"),
        ({"state": "failed", "exit_code": 3, "error": "the motor burned"}, "failed"),
        ({"state": "failed", "exit_code": 4, "error": "NaN"}, "failed"),
        ({"state": "failed", "exit_code": 7, "error": "no space"}, "failed"),
        ("{", "missing"),
    ],
)
def test_the_state_of_a_run(status, wanted):
    run_study(HOME)
    unit = plan.units(HOME, plan.read_plan(HOME))[0]
    if status is not None:
        text = status if isinstance(status, str) else json.dumps(status)
        (unit.path / "status.json").write_text(text)
    assert plan.state_of(unit) == wanted


# --- who joins ---------------------------------------------------------------------------


def test_seeds_may_grow_and_the_runs_that_are_there_stay():
    run_study(HOME)
    before = snapshot(GROUP)
    run_study(HOME, seeds=(0, 1, 2, 9))
    after = snapshot(GROUP)
    kept = [name for name in before if "seed-" in name]
    assert len(kept) == 8
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert plan.read_plan(HOME).seeds == (0, 1, 2, 9)
    assert document_of(GROUP)["seeds"] == [0, 1, 2, 9]
    assert (GROUP / "narrow" / "seed-9" / "config.json").is_file()


def test_fewer_seeds_are_the_study_that_is_there():
    run_study(HOME, seeds=(0, 1, 2))
    before = snapshot(HOME)
    told = run_study(HOME, seeds=(0, 1))
    assert sum(told.counts.values()) == 6
    assert unlocked(snapshot(HOME)) == unlocked(before)


def test_another_number_of_seeds_in_the_file_is_the_same_study():
    run_study(HOME, small(seeds=10))
    run_study(HOME, small(seeds=20), seeds=(0, 1, 2))
    assert plan.read_plan(HOME).seeds == (0, 1, 2)


def test_one_seed_and_then_more_is_refused():
    """One seed has no folder of its own in a run, so more cannot stand beside it."""
    run_study(HOME, small(claims=()), seeds=(0,))
    refused("has one seed", study=small(claims=()), seeds=(0, 1))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"study": small(name="another")}, "name: small -> another"),
        ({"study": small(steps=400)}, "steps: 300 -> 400"),
        ({"study": small(eval_every=50)}, "eval_every: 100 -> 50"),
        ({"study": small(arms=small().arms[::-1])}, "arms"),
        ({"on": "device"}, "on: auto -> device"),
    ],
)
def test_another_study_in_the_folder_is_refused(given, why):
    run_study(HOME)
    refused(f"holds another study .*{why}", **given)


def test_words_and_claims_may_change_and_the_new_ones_are_kept():
    """They reach no run: what is there stays, and is judged by what is said now."""
    run_study(HOME)
    runs = snapshot(GROUP)
    claims = (Claim("Narrow is better.", ("narrow above wide",)),)
    noted = replace(small().arms[0], note="as far as it goes")
    arms = (noted, *small().arms[1:])
    run_study(HOME, small(title="another", claims=claims, arms=arms))
    study = plan.read_plan(HOME).study
    assert (study.title, study.claims, study.arms) == ("another", claims, arms)
    assert snapshot(GROUP) == runs


def test_a_study_begun_on_a_device_keeps_its_engine_whoever_runs_it():
    run_study(HOME, on="device")
    assert run_study(HOME, on="local").exit_code == 0
    assert plan.read_plan(HOME).on == "device"


def test_a_folder_with_other_things_in_it_is_refused():
    HOME.mkdir()
    (HOME / "thesis.txt").write_text("years of work")
    before = snapshot(HOME)
    with pytest.raises(RunFolderBusy, match="is not a study") as error:
        run_study(HOME)
    assert error.value.exit_code == 6
    assert snapshot(HOME) == before


UNFINISHED = f".tmp-7-{0:032x}"  # a file that a killed process was writing


def test_a_driver_killed_before_it_wrote_the_study_stands_in_nobody_s_way():
    HOME.mkdir()
    (HOME / "lock").touch()
    (HOME / UNFINISHED).write_text("{")
    assert run_study(HOME).counts["missing"] == 4
    assert not (HOME / UNFINISHED).exists()


def test_a_driver_killed_while_it_wrote_configs_is_made_up_for():
    run_study(HOME)
    whole = {name: data for name, (data, _) in snapshot(HOME).items()}
    for lost in (GROUP, GROUP / "wide", GROUP / "narrow" / "seed-1"):
        (lost / "config.json").rename(lost / UNFINISHED)  # before it got its name
    run_study(HOME)
    assert {name: data for name, (data, _) in snapshot(HOME).items()} == whole


def test_who_comes_while_another_drives_changes_nothing():
    """Not even the seeds that the study is to have."""
    run_study(HOME)
    lock = Lock(HOME)
    try:
        before = snapshot(HOME)
        with pytest.raises(RunFolderBusy, match="in use by process"):
            run_study(HOME, seeds=(0, 1, 2))
        assert snapshot(HOME) == before
    finally:
        lock.release()


# --- files that someone changed ------------------------------------------------------------


def broken(key: str, value: object) -> str:
    """study.json with one thing in it changed."""
    document = plan.make_plan(small(), (0, 1), "auto", "penfac study run").to_document()
    whole = document["study"] if key in document["study"] else document
    whole[key if key != "all seeds" else "seeds"] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"format": 1', "[]", "7", "null", "{}", "\ud800".encode("utf-8", "replace"),
        b"\xff\xfe", "[" * 100_000,
        *(broken("format", v) for v in ("1", None, [])),
        *(broken("study", v) for v in ([], None, {}, "small")),
        *(broken("on", v) for v in (None, "somewhere", 1)),
        *(broken("versions", v) for v in (None, [], "1")),
        *(broken("penfac", v) for v in (None, 1)),
        *(broken("command", v) for v in (None, ["a"])),
        *(broken("steps", v) for v in ("many", None, 0, [], 1.5)),
        *(broken("envs", v) for v in (7, [], [7], [LQR, LQR])),
        *(broken("arms", v) for v in (7, [], ["a"], [{"name": "a", "settings": 7}])),
        *(broken("claims", v) for v in (7, ["a"], [{"words": "w"}])),
        *(broken("title", v) for v in (7, None)),
    ],
)  # fmt: skip
def test_a_study_that_penfac_did_not_write_is_a_corrupt_file(text):
    HOME.mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    (HOME / "study.json").write_bytes(data)
    with pytest.raises(CorruptFile, match="not a study that penfac wrote") as error:
        plan.read_plan(HOME)
    assert error.value.exit_code == 5
    assert command("study", "status", HOME).code == 5
    with pytest.raises(CorruptFile):
        run_study(HOME)
    assert (HOME / "study.json").read_bytes() == data


@pytest.mark.parametrize("seeds", [7, None, [], ["a"], [0, 0], [0.5], [True, 2], [[1]]])
def test_seeds_that_penfac_did_not_write(seeds):
    HOME.mkdir()
    document = plan.make_plan(small(), (0, 1), "auto", "penfac study run").to_document()
    (HOME / "study.json").write_text(json.dumps(document | {"seeds": seeds}))
    with pytest.raises(CorruptFile, match="not a study that penfac wrote"):
        plan.read_plan(HOME)


def test_a_study_of_a_newer_penfac_says_so():
    """Whatever else it may hold by then."""
    HOME.mkdir()
    newer = {"format": 2, "penfac": "9.9", "study": "who knows"}
    (HOME / "study.json").write_text(json.dumps(newer))
    with pytest.raises(
        CorruptFile, match=r"format 2, of penfac 9\.9; this penfac reads"
    ):
        plan.read_plan(HOME)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"steps": 999}, "steps: 999 -> 300"),
        ({"engine": "host"}, "engine: host -> device"),
        ({"eval_unit": "episodes"}, "eval_unit: episodes -> steps"),
        ({"env_options": {}}, "env_options"),
    ],
)
@pytest.mark.parametrize("mixed", [False, True])
def test_a_run_of_another_budget_is_refused(change, why, mixed):
    """--mixed is for versions alone."""
    run_study(HOME)
    edit(GROUP / "wide" / "seed-1", **change)
    before = snapshot(HOME)
    with pytest.raises(
        ConfigError, match=f"wide/seed-1: is not a run .*{why}"
    ) as error:
        run_study(HOME, mixed=mixed)
    assert "\n" not in str(error.value)
    assert unlocked(snapshot(HOME)) == unlocked(before)
    assert command("study", "report", HOME).code == 2


@pytest.mark.parametrize("versions", [{"jax": "0.1"}, None, "old"])
def test_a_run_of_other_versions_is_refused_unless_they_may_be_mixed(versions):
    run_study(HOME)
    there = document_of(GROUP / "wide" / "seed-1")["versions"]
    other = there | versions if isinstance(versions, dict) else versions
    edit(GROUP / "wide" / "seed-1", versions=other)
    why = "wide/seed-1: was made with other versions \\(.*--mixed"
    with pytest.raises(ConfigError, match=why):
        run_study(HOME)
    refused_report = command("study", "report", HOME)
    assert refused_report.code == 2
    assert "--mixed" in refused_report.line
    assert run_study(HOME, mixed=True).exit_code == 0
    assert command("study", "report", HOME, "--mixed").code == 0


def test_going_on_with_other_versions_than_it_was_begun_with(monkeypatch):
    """Refused; with --mixed the runs to come say which versions made them."""
    run_study(HOME)
    now = versions.versions() | {"jax": "99.0"}
    monkeypatch.setattr(checks, "versions", lambda: now)
    why = "small: was started with other versions \\(jax: .* -> 99.0"
    with pytest.raises(ConfigError, match=why):
        run_study(HOME)
    units = plan.units(HOME, plan.read_plan(HOME))
    mixed = checks.with_current_versions(units, plan.read_plan(HOME), mixed=True)
    assert {unit.run.config.versions["jax"] for unit in mixed} == {"99.0"}


# --- what cannot be resolved ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"envs": ("penfac/LRQ-v0",)}, "small: penfac/LRQ-v0: no such env"),
        ({"arms": (Arm("a"), Arm("b", preset="mine"))}, "arm b on penfac/LQR-v0: .*mine"),
        ({"arms": (Arm("a", settings={"gama": 1}),)}, "arm a on penfac/LQR-v0: .*gama"),
        ({"arms": (Arm("a", settings={"gamma": 7}),)}, "arm a on penfac/LQR-v0: .*gamma"),
        ({"envs": (LQR, "penfac-LQR-v0")}, "LQR-v0 and penfac-LQR-v0 would share a folder"),
        ({"name": "../small"}, "'../small': a name must hold"),
        ({"fidelity": "a/b"}, "'a/b': a name must hold"),
    ],
)  # fmt: skip
def test_what_cannot_be_resolved_names_itself_and_leaves_no_folder(changed, why):
    study = small(**{"claims": ()} | changed)
    with pytest.raises(ConfigError, match=why):
        run_study(HOME, study)
    assert not HOME.exists()
