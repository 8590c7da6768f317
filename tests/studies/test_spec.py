"""A study of one's own: TOML and Python of the same shape, and what is refused."""

import json
from pathlib import Path

import pytest

from penfac.errors import ConfigError
from penfac.settings.configs import to_values
from penfac.studies import plan, spec
from penfac.studies.claims import Claim
from penfac.studies.paper import FIDELITIES, PAPER, paper_study
from penfac.studies.spec import Arm, Study

TABLE = """
title = "Wide or narrow?"
envs = ["penfac/LQR-v0"]
seeds = 5
steps = 1e4
preset = "authors"

[arms.wide]
sigma = 0.4

[arms.ppo]
algo = "ppo"
preset = "tuned"
note = "for comparison"

[[claims]]
words = "Wide is better."
compare = "wide above ppo"
measure = "early"
"""
WANTED = Study(
    "mine",
    "Wide or narrow?",
    (
        Arm("wide", "penfac", "authors", {"sigma": 0.4}),
        Arm("ppo", "ppo", "tuned", {}, "for comparison"),
    ),
    ("penfac/LQR-v0",),
    (Claim("Wide is better.", ("wide above ppo",), measure="early"),),
    seeds=5,
    steps=10_000,
)


def read(tmp_path, text, name="mine.toml"):
    file = tmp_path / name
    file.write_text(text)
    return spec.read(file)


def test_a_dozen_lines_of_toml_are_a_study(tmp_path):
    assert read(tmp_path, TABLE) == WANTED


def test_a_python_file_may_leave_a_table_or_a_study(tmp_path):
    import tomllib

    table = f"study = {tomllib.loads(TABLE)!r}"
    assert read(tmp_path, table, "mine.py") == WANTED
    made = "from penfac.studies.spec import *\nstudy = Study('s', 't', (Arm('a'),), ('e',))"
    assert read(tmp_path, made, "made.py").arms == (Arm("a"),)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("[arms.ppo]", "[arms.wide]"), "mine.toml"),  # TOML itself knows
        (("seeds = 5", "seedz = 5"), "seedz: no such key; did you mean seeds"),
        (("steps = 1e4", "steps = 1.5"), "steps = 1.5: must be a whole number"),
        (("steps = 1e4", 'steps = "many"'), "steps = 'many'"),
        (("[arms.wide]", "[arms.seed-1]"), "arm 'seed-1'"),
        (("[arms.wide]", '[arms."a b"]'), "arm 'a b'"),
        (('algo = "ppo"', 'algo = "ppoo"'), "ppoo is not an algorithm; did you mean ppo"),
        (("wide above ppo", "wide above poo"), "poo is not an arm"),
        (("wide above ppo", "wide > ppo"), "a above b"),
        (("wide above ppo", "wide above wide[sampled]"), "must be mean for penfac"),
        (('measure = "early"', 'measure = "best"'), "measure 'best'"),
        (('measure = "early"', 'measured = "early"'), "measured: no such key"),
        (('measure = "early"', 'envs = "other"'), "other is not in envs"),
        (('envs = ["penfac/LQR-v0"]', "envs = []"), "must have arms and envs"),
        (('envs = ["penfac/LQR-v0"]', 'envs = ["a", "a"]'), "environment a: must be there once"),
        (('measure = "early"', 'measure = "early, best"'), "measure 'best'"),
        (('measure = "early"', 'needs = "ppo beta"'), "must be `arm: column above bound`"),
        (('measure = "early"', 'needs = "poo: beta above 1"'), "poo is not an arm"),
        (('measure = "early"', 'changes = [["a"]]'), "must be pairs of environments"),
        (('measure = "early"', 'changes = 1'), "must be a list of pairs"),
        (('measure = "early"', 'changes = [["penfac/LQR-v0", "b"]]'), "b is not in envs"),
        (("[[claims]]", "[claims]"), "must be blocks \\[\\[claims\\]\\]"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(tmp_path, change, why):
    assert change[0] in TABLE
    with pytest.raises(ConfigError, match=why):
        read(tmp_path, TABLE.replace(*change))


def test_two_arms_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="arm a: must be there once"):
        spec.check(Study("s", "t", (Arm("a"), Arm("a", "ppo")), ("e",)))


@pytest.mark.parametrize(
    ("text", "why"),
    [("study = 1", "must set `study`"), ("1 / 0", "ZeroDivisionError"), ("(", "SyntaxError")],
)  # fmt: skip
def test_a_python_file_that_fails_is_one_clear_line(tmp_path, text, why):
    with pytest.raises(ConfigError, match=why):
        read(tmp_path, text, "mine.py")


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"none\.toml"):
        spec.read(Path("none.toml"))


def test_a_claim_may_rest_on_something_and_be_about_a_change(tmp_path):
    """In TOML as in Python, and through JSON."""
    more = 'needs = "wide: beta above beta_min"\nchanges = [["a", "b"]]\n'
    text = TABLE.replace('envs = ["penfac/LQR-v0"]', 'envs = ["a", "b"]') + more
    study = read(tmp_path, text)
    (claim,) = study.claims
    assert claim.needs == ("wide: beta above beta_min",)
    assert claim.changes == (("a", "b"),)
    assert spec.of_table(json.loads(json.dumps(spec.to_table(study)))) == study


def test_claims_of_an_earlier_study_have_no_needs():
    table = spec.to_table(WANTED)
    for key in ("needs", "changes"):
        del table["claims"][0][key]
    assert spec.of_table(table) == WANTED


# --- the paper's -------------------------------------------------------------------------------


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("name", PAPER)
def test_a_study_of_the_paper_survives_json_and_names_itself(name, fidelity):
    study = paper_study(name, fidelity)
    again = spec.of_table(json.loads(json.dumps(spec.to_table(study))))
    assert again == study
    assert study.name == name
    assert study.question
    assert study.claims


def test_every_figure_of_the_paper_is_there():
    told = {paper_study(name, "authors").paper for name in PAPER}
    assert {f"Figure {k}" for k in range(1, 9)} <= told


def test_the_paper_s_numbers_of_seeds():
    seeds = {name: paper_study(name, "authors").seeds for name in PAPER}
    assert all(seeds[f"fig{k}"] == 60 for k in (1, 2, 3, 4, 6, 7, 8))
    assert seeds["fig5"] == 100


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_every_arm_of_a_study_differs_from_every_other(fidelity):
    """No arm compares an algorithm with itself, on any environment."""
    for name in PAPER:
        study = paper_study(name, fidelity)
        planned = plan.make_plan(study, (0, 1), "auto", "")
        for env in study.envs:
            seen: dict[str, str] = {}
            for arm in study.arms:
                config = to_values(plan.arm_config(planned, env, arm).settings)
                key = json.dumps([arm.algo in ("penfac", "nfac") or arm.algo, config])
                assert key not in seen, f"{name}: {arm.name} is {seen[key]} on {env}"
                seen[key] = arm.name


def config_of(fidelity, name):
    study = paper_study("fig4", fidelity)
    arm = next(a for a in study.arms if a.name == name)
    planned = plan.make_plan(study, (0, 1), "auto", "")
    return to_values(plan.arm_config(planned, study.envs[0], arm).settings)


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_the_arms_of_the_ablation_leave_out_what_they_say(fidelity):
    without = config_of(fidelity, "no-fitted-iteration")
    assert (without["fitted_iterations"], without["critic_steps"]) == (1, 1)
    without = config_of(fidelity, "no-batch-norm")
    assert {without["normalise_actor"], without["normalise_critic"]} == {"none"}


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_cac_and_cacla_are_compared_whichever_is_the_default(fidelity):
    study = paper_study("fig4", fidelity)
    (claim,) = [c for c in study.claims if "becomes better than CACLA's" in c.words]
    (comparison,) = claim.comparisons
    first, second = (config_of(fidelity, side.arm) for side in comparison.sides)
    assert (first["actor_update"], second["actor_update"]) == ("cac", "cacla")
    del first["actor_update"], second["actor_update"]
    assert first == second


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_the_sentence_on_spg_is_judged_by_updates_at_every_time_step(fidelity):
    study = paper_study("fig4", fidelity)
    (claim,) = [c for c in study.claims if "not able to learn at all" in c.words]
    (side,) = claim.comparisons[0].sides
    arm = next(a for a in study.arms if a.name == side.arm)
    assert arm.algo == "spg"
    assert config_of(fidelity, "spg-update")["actor_update"] == "spg"


@pytest.mark.parametrize(
    ("name", "fidelity", "why"),
    [
        ("fig9", "authors", "no such study; did you mean fig"),
        ("fig1", "author", "--fidelity author: must be authors or tuned"),
    ],
)
def test_an_unknown_study_is_refused(name, fidelity, why):
    with pytest.raises(ConfigError, match=why):
        paper_study(name, fidelity)


# --- budgets of single environments and algorithms ---------------------------------------

BUDGETS = {
    "envs": ["penfac/LQR-v0", "penfac/Pendulum-v0"],
    "steps": 100,
    "env_steps": {"penfac/Pendulum-v0": 3e2},
    "algo_seeds": {"ppo": 2},
    "arms": {"a": {}, "b": {"algo": "ppo"}},
}


def test_other_steps_on_an_environment_and_fewer_seeds_of_an_algorithm():
    study = spec.from_table("s", BUDGETS)
    assert [study.steps_on(env) for env in study.envs] == [100, 300]
    planned = plan.make_plan(study, (0, 1, 2), "auto", "")
    units = plan.units(Path("s"), planned)
    seeds = {(u.env, u.arm): [v.seed for v in units if v[:2] == u[:2]] for u in units}
    assert set(map(tuple, seeds.values())) == {(0, 1, 2), (0, 1)}
    assert all(len(s) == (2 if arm == "b" else 3) for (_, arm), s in seeds.items())
    assert {(u.env, u.steps) for u in units} == set(
        zip(study.envs, (100, 300), strict=True)
    )
    assert spec.of_table(spec.to_table(study)) == study
    assert spec.with_budget(study, steps=50).env_steps == {}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"env_steps": {"penfac/Pendulum-v0": 0}}, "must be a whole number above 0"),
        ({"env_steps": {"penfac/Pendulm-v0": 10}}, "penfac/Pendulm-v0: no such key"),
        ({"env_steps": 7}, "env_steps = 7: must be a table of numbers"),
        ({"algo_seeds": {"ddpg": 5}}, "ddpg: no such key"),
        ({"algo_seeds": {"ppo": 1}}, "algo_seeds must be at least 2"),
    ],
)
def test_budgets_that_cannot_be(changed, told):
    with pytest.raises(ConfigError, match=told):
        spec.from_table("s", BUDGETS | changed)
