"""config.json as a typed record: what is written is read back, what is edited is refused."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.faults.commands import TINY, command

from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError, CorruptFile
from penfac.runs.config import RunConfig, SearchConfig, parse_config, read_config
from penfac.runs.learners import Learner, configs_of
from penfac.runs.run import Run
from penfac.runs.status import NEW, read_status
from penfac.training.request import Request, resolve, stamp

ENV = "penfac/LQR-v0"
FILE = Path("run") / "config.json"
OPTIONS = EnvOptions(70, (-1.5, 2.0), True, {"g": 9.5, "mode": "a"})


def config(**more) -> RunConfig:
    return stamp(resolve(Request(**{"env": ENV} | more)), "penfac train")


CONFIGS = {
    "plain": config(),
    "options": config(env="Pendulum-v1", options=OPTIONS, seeds=(3, 5)),
    "arms": config(arms={"short": {"lam": 0.5}, "base": {}}, seeds=(0, 1)),
    "an infinite setting": config(settings={"obs_clip": float("inf")}),
    "a search": replace(
        config(arms={"c0": {}, "c1": {"lam": 0.5}}),
        search=SearchConfig(2, 1, {"lam": [0.5, 0.9]}, fixed=("gamma",)),
        alive=("c1",),
    ),
}


@pytest.mark.parametrize("own", CONFIGS.values(), ids=CONFIGS)
def test_what_is_written_is_read_back(own):
    """Through the text of a file, of the run and of every folder below it."""
    for each in configs_of(Path("run"), own).values():
        text = json.dumps(each.to_document(), indent=2, allow_nan=False)
        assert parse_config(FILE, json.loads(text)) == each


def test_keys_without_a_value_are_left_out():
    document = CONFIGS["plain"].to_document()
    assert not {"arms", "arm", "study", "search", "alive"} & document.keys()
    assert list(document)[:4] == ["format", "penfac", "algo", "env"]
    assert document["env_options"]["max_episode_steps"] is None


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"steps": "many"}, "steps is 'many', must be int"),
        ({"steps": 2.5}, "steps is 2.5, must be int"),
        ({"steps": 0}, "--steps 0: must be at least 1"),
        ({"seeds": [1, "2"]}, r"seeds\[1\] must be int"),
        ({"seeds": [1, 1]}, "1 is listed twice"),
        ({"seeds": []}, "--seeds 0: must be at least 1"),
        ({"algo": "sarsa"}, "algo is sarsa, must be one of penfac, nfac"),
        ({"engine": "tpu"}, "engine is tpu, must be one of host, device"),
        ({"env_options": {}}, r"env_options\.\w+ is missing"),
        ({"config": {"gamma": 1.5}}, "gamma = 1.5: must be"),
        ({"config": {"gama": 0.5}}, "did you mean gamma"),
        ({"arms": {"../x": {}}}, "a name needs letters"),
        ({"arms": {}}, "has no arm"),
        ({"search": {"configs": 2}}, "search.halvings is missing"),
    ],
)
def test_an_edited_config_is_refused_with_its_value_and_the_rule(changed, line):
    document = CONFIGS["plain"].to_document() | changed
    with pytest.raises(ConfigError, match=line) as error:
        parse_config(FILE, document)
    assert str(error.value).startswith("run/config.json: ")


def test_a_missing_key_is_named():
    document = CONFIGS["plain"].to_document()
    del document["restarts"]
    with pytest.raises(ConfigError, match="restarts is missing"):
        parse_config(FILE, document)


@pytest.mark.parametrize("document", [None, [], {}, {"format": "1"}, {"format": 2}])
def test_what_is_no_config_is_a_corrupt_file(document):
    with pytest.raises(CorruptFile, match=r"run/config\.json"):
        parse_config(FILE, document)


def test_a_setting_that_an_earlier_version_lacked_gets_its_value_of_then():
    folder = Path(__file__).parents[1] / "faults" / "earlier" / "run"
    saved = json.loads((folder / "config.json").read_text())["config"]
    assert "minibatches" not in saved
    assert read_config(folder).settings.minibatches == 1


def test_identity_leaves_out_what_may_change():
    own = CONFIGS["plain"]
    longer = replace(own, steps=10**7, command="another", preset="authors")
    assert longer.identity() == own.identity()
    other = replace(own, settings=CONFIGS["an infinite setting"].settings)
    assert other.identity() != own.identity()


def test_a_run_folder_is_opened_with_all_that_it_holds(tmp_path):
    done = command(
        "train", f"--env={ENV}", "--seeds=2", *TINY, f"--out={tmp_path}", "--name=a"
    )
    assert (done.code, done.err) == (0, "")
    home = tmp_path / "penfac" / "a"
    run = Run.open(home)
    assert run.learners == [Learner(None, s, home / f"seed-{s}") for s in (0, 1)]
    assert {status.state for status in run.status.values()} == {"finished"}
    for learner, evaluations in run.evaluations.items():
        assert evaluations[-1].step == run.config.steps, learner
        assert len(evaluations[-1].returns) == run.config.eval_episodes
    assert run.learner(None).seed == 0
    assert run.learner(1).path == home / "seed-1"
    with pytest.raises(ConfigError, match="has no seed 7; it has 0, 1"):
        run.learner(7)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"state": 7}'])
def test_a_status_that_cannot_be_read_is_that_of_a_new_learner(text, tmp_path):
    if text is not None:
        (tmp_path / "status.json").write_text(text)
    assert read_status(tmp_path) is NEW
