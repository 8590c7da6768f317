"""The same search for every arm of a study, and a study that runs with what it found."""

import pytest
from tests.studies.small_study import LQR, run_study, small

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.runs.config import read_config
from penfac.search.halving import Search
from penfac.settings import presets
from penfac.settings.configs import to_values
from penfac.studies import plan, tuning
from penfac.studies.paper import paper_study
from penfac.studies.spec import Arm, to_table
from penfac.training.limits import Limits

SPACE = "actor_lr = { log = [1e-4, 1e-2] }\nlam = [0.5, 0.9]\n"


@pytest.fixture
def space(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text(SPACE)
    return str(file)


def tune(folder, space, said, study=None, halvings=0, only=(), **limits):
    search = Search(configs=2, halvings=halvings, space=space)
    given = Limits(at_once=8, **limits)  # one program: on a CPU too
    return tuning.tune_study(
        study or small(), (1000,), folder, search, "auto", given, said.append, only
    )


def bests(said):
    return sum(": best " in line for line in said)


@pytest.mark.slow
def test_every_arm_is_searched_alike_and_the_table_runs(tmp_path, space):
    said = []
    found, code = tune(tmp_path / "tune", space, said)
    assert code == 0
    assert set(found[LQR]) == {"wide", "narrow"}
    assert all(set(own) == {"actor_lr", "lam"} for own in found[LQR].values())
    assert bests(said) == 2
    table = tuning.read(tmp_path / "tune" / tuning.FILE)
    assert table == found
    study = tuning.with_settings(small(), table)
    told = run_study(tmp_path / "study", study)
    assert told.counts["finished"] == 4
    for unit in plan.units(told.folder, plan.read_plan(told.folder)):
        config = to_values(unit.run.config.settings)
        assert {k: config[k] for k in ("actor_lr", "lam")} == table[LQR][unit.arm]
        assert config["sigma"] == {"wide": 0.4, "narrow": 0.1}[unit.arm]


@pytest.mark.slow
def test_searches_on_several_cores_find_what_one_process_finds(tmp_path, space):
    """... where there is no accelerator, and programs of many learners were asked for."""
    alone, _ = tune(tmp_path / "alone", space, [])
    said = []
    search = Search(configs=2, halvings=0, space=space, processes=2)
    spread, code = tuning.tune_study(
        small(), (1000,), tmp_path / "spread", search, "device", Limits(at_once=8),
        said.append,
    )  # fmt: skip
    assert (spread, code, bests(said)) == (alone, 0, 2)


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_and_finds_the_same(tmp_path, space):
    one = small(arms=small().arms[:1], claims=())
    whole, _ = tune(tmp_path / "whole", space, [], one, halvings=1)
    found, code = tune(tmp_path / "part", space, [], one, halvings=1, stop_after=0.0)
    assert (found, code) != (whole, 0)
    again, code = tune(tmp_path / "part", space, [], one, halvings=1)
    assert (again, code) == (whole, 0)


def test_a_search_does_not_begin_with_what_an_earlier_one_found(space):
    arm = Arm("a", on={LQR: {"lam": 0.3, "gamma": 0.9}})
    kept = tuning.without_search(arm, LQR, Search(space=space))
    assert kept.on == {LQR: {"gamma": 0.9}}


def test_nor_with_what_a_preset_holds_for_this_task(tmp_path):
    cheetah, file = "RoboschoolHalfCheetah-v2", tmp_path / "ddpg.toml"
    file.write_text("actor_lr = { log = [1e-4, 1e-2] }\nsigma = [0.1, 0.2]\n")
    block = presets.read("ddpg")["tuned"]["roboschoolhalfcheetah"]
    default = ALGORITHMS["ddpg"].config()
    arm = Arm("a", algo="ddpg", preset="tuned")
    kept = tuning.without_search(arm, cheetah, Search(space=str(file)))
    assert kept.on == {cheetah: {"actor_lr": default.actor_lr, "sigma": default.sigma}}
    assert block["sigma"] != default.sigma  # else this would show nothing


@pytest.mark.slow
def test_what_makes_an_arm_is_not_drawn(tmp_path, space):
    arms = (Arm("none", settings={"lam": 0.0}), Arm("all"))
    study = small(arms=arms, claims=())
    found, _ = tune(tmp_path, space, [], study)
    assert set(found[LQR]["none"]) == {"actor_lr"}
    assert set(found[LQR]["all"]) == {"actor_lr", "lam"}
    begun = read_config(next(tmp_path.rglob("none/tune/penfac/search")))
    assert {cfg.lam for cfg in (begun.arms or {}).values()} == {0.0}


def test_arms_named_are_searched_beside_what_was_found(tmp_path, space):
    first, _ = tune(tmp_path, space, [], only=("narrow",))
    assert set(first[LQR]) == {"narrow"}
    both, _ = tune(tmp_path, space, [], only=("wide",))
    assert set(both[LQR]) == {"wide", "narrow"}
    assert both[LQR]["narrow"] == first[LQR]["narrow"]
    with pytest.raises(ConfigError, match="did you mean wide"):
        tune(tmp_path, space, [], only=("widee",))


@pytest.mark.slow
def test_a_search_of_another_budget_is_not_gone_on_with(tmp_path, space):
    tune(tmp_path, space, [], only=("wide",))
    with pytest.raises(ConfigError, match="was started with halvings 0, not 1"):
        tune(tmp_path, space, [], halvings=1, only=("wide",))
    other = tmp_path / "other.toml"
    other.write_text("lam = [0.5, 0.9]\n")
    with pytest.raises(ConfigError, match="was started with space"):
        tune(tmp_path, str(other), [], only=("wide",))


def test_nothing_is_a_setting_too(tmp_path):
    """A search that found no narrowing of the noise undoes what the preset has there."""
    cheetah = "RoboschoolHalfCheetah-v2"
    assert ALGORITHMS["penfac"].config().sigma_end is not None
    tuning.write(tmp_path, {cheetah: {"penfac": {"sigma_end": None}}})
    table = tuning.read(tmp_path / tuning.FILE)
    study = tuning.with_settings(paper_study("fig2", "tuned"), table)
    planned = plan.make_plan(study, (0, 1), "auto", "")
    own = plan.arm_config(planned, cheetah, study.arms[0])
    assert own.settings.sigma_end is None


def test_settings_by_environment_are_part_of_what_a_study_is():
    study = tuning.with_settings(small(), {LQR: {"wide": {"lam": 0.5}}})
    assert to_table(study) != to_table(small())
    assert study.arms[1].on == {}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"other": {}}, "has no environment other"),
        ({LQR: {"tall": {}}}, "has no arm tall"),
    ],
)
def test_settings_of_another_study_are_refused(table, why):
    with pytest.raises(ConfigError, match=why):
        tuning.with_settings(small(), table)


@pytest.mark.parametrize("text", ["a = 1", "[a]\nb = 1", "["])
def test_a_file_of_another_shape_is_refused(tmp_path, text):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="--settings"):
        tuning.read(file)


def test_no_file_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="none"):
        tuning.read(tmp_path / "none.toml")
