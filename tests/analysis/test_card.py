"""A model card says what the run's own files say, in a form that others can read."""

import json
import shlex
import statistics

import numpy as np
import pytest
from tests.export.some_policies import make

from penfac import cli
from penfac.analysis.card import Facts, Judged, card, last_evaluation, rebuilt, worth
from penfac.envs.gym import EnvOptions
from penfac.errors import ConfigError
from penfac.runs.learners import Learner
from penfac.settings.configs import to_values
from penfac.training.request import Request, resolve

ENV = "penfac/LQR-v0"


def document(**more):
    request = Request(**({"env": ENV, "steps": 3000, "seeds": (3, 5)} | more))
    return resolve(request) | {"versions": {"jax": "0.10.2", "python": "3.11.7"}}


def facts(judged=None, **more) -> Facts:
    doc = document(**more)
    judged = judged or [Judged(s, 3000, [s, s + 2.0]) for s in doc["seeds"]]
    return Facts(doc, judged, make(), "runs/penfac/LQR-v0_1")


def front(text: str) -> dict:
    yaml = pytest.importorskip("yaml")
    _, matter, _ = text.split("---\n", 2)
    return yaml.safe_load(matter)


def test_the_front_matter_is_what_hugging_face_reads():
    matter = front(card(facts()))
    assert matter["library_name"] == "penfac"
    assert matter["tags"] == [
        "reinforcement-learning", "deep-reinforcement-learning", "continuous-control",
        ENV, "penfac",
    ]  # fmt: skip
    (index,) = matter["model-index"]
    (result,) = index["results"]
    assert result["task"]["type"] == "reinforcement-learning"
    assert result["dataset"] == {"name": ENV, "type": ENV}
    (metric,) = result["metrics"]
    assert metric["type"] == "mean_reward"
    assert metric["value"] == "5.00 +/- 1.41"
    assert metric["verified"] is False


@pytest.mark.parametrize(
    "name", ["on", "1e3", 'a "b": c', "# x", "é: ü", "- y", "a\\b"]
)
def test_no_name_breaks_the_front_matter(name):
    told = facts()
    told.document["env"] = name
    assert front(card(told))["tags"][3] == name


def test_a_spread_is_over_seeds_where_there_are_several():
    found = worth([Judged(0, 9, [1, 3]), Judged(1, 9, [5, 7]), Judged(2, 9, [9, 20])])
    assert found.mean == pytest.approx(statistics.fmean([2, 6, 14.5]))
    assert found.spread == pytest.approx(statistics.stdev([2, 6, 14.5]))
    assert found.over == "3 seeds"


def test_of_one_seed_it_is_over_episodes_and_says_so():
    found = worth([Judged(0, 9, [1, 3, 8])])
    assert (found.mean, found.over) == (4, "3 episodes of 1 seed")
    assert found.spread == pytest.approx(statistics.stdev([1, 3, 8]))
    assert worth([Judged(0, 9, [1])]).spread == 0
    text = card(facts(judged=[Judged(3, 9, [1, 3, 8])], seeds=(3,)))
    assert "over 3 episodes of 1 seed" in text


def test_it_names_what_was_learned_how_and_on_what():
    text = card(facts(settings={"sigma": 0.123, "actor_hidden": (32, 16)}))
    assert "| `sigma` | 0.123 |" in text
    assert "| `actor_hidden` | 32,16 |" in text
    assert "3,000 environment steps for each seed (3, 5), preset `tuned`" in text
    assert "| 3 | 3,000 | 4.00 | 3.00 | 5.00 | 2 |" in text
    assert 'Policy.load("runs/penfac/LQR-v0_1/seed-3")' in text
    assert "penfac eval runs/penfac/LQR-v0_1 --episodes 100" in text
    assert "jax 0.10.2, python 3.11.7" in text
    assert "observation: 5 numbers" in text
    assert "float32 of shape [3]" in text
    assert "| `gamma`" not in text  # as it always is
    assert text.startswith(
        "---\nlibrary_name: penfac\ntags:\n- reinforcement-learning\n"
    )
    assert f'\n- "{ENV}"\n- "penfac"\nmodel-index:\n' in text
    assert '\n      value: "5.00 +/- 1.41"\n' in text


def test_the_command_is_the_one_that_was_typed():
    told = facts()
    told.document["command"] = "penfac train --env penfac/LQR-v0 --seeds 3,5"
    text = card(told)
    assert "\n    penfac train --env penfac/LQR-v0 --seeds 3,5\n" in text


REQUESTS = {
    "plain": {},
    "one seed": {"seeds": (7,)},
    "settings": {
        "settings": {"sigma": 0.5, "actor_hidden": (8,), "trust_region": False},
    },
    "no hidden layer": {"algo": "cacla", "settings": {"actor_hidden": ()}},
    "another preset": {"preset": "authors"},
    "evaluated as the authors did": {
        "eval_unit": "episodes", "eval_every": 30, "eval_episodes": 1,
    },
    "an environment's options": {
        "env": "Pendulum-v1",
        "restarts": 2,
        "options": EnvOptions(
            max_episode_steps=70, action_bounds=(-1.5, 2.0), flatten_obs=True,
            kwargs={"g": 9.5, "mode": "a b"},
        ),
    },
    "on the host": {"on": "cpu"},
}  # fmt: skip


@pytest.mark.parametrize("what", REQUESTS)
def test_a_command_rebuilt_asks_for_the_same_run(what, monkeypatch):
    """Typed, it resolves to the very config.json it was made from."""
    import typer.main

    from penfac.training import trial

    due = document(**REQUESTS[what])
    asked = []

    def keep(request, limits, listener):
        asked.append(resolve(request))
        raise ConfigError("enough")

    monkeypatch.setattr(trial, "start", keep)
    _, name, *words = shlex.split(rebuilt(due))
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    context = commands[name].make_context(name, words)
    with pytest.raises(ConfigError, match="enough"):
        context.command.invoke(context)
    due.pop("versions")
    assert json.dumps(asked[0], sort_keys=True) == json.dumps(due, sort_keys=True)


def test_a_preset_file_that_is_gone_leaves_all_settings():
    told = document() | {"preset": "gone.toml"}
    words = shlex.split(rebuilt(told))
    assert len([w for w in words if w.startswith("--set=")]) == len(told["config"])


def test_the_last_evaluation_of_the_policy_without_noise(tmp_path):
    rows = [
        "step,update,episode,mode,return,length,terminated",
        "100,1,0,mean,1.5,50,0",
        "200,2,0,mean,2.5,50,0",
        "200,2,1,mean,4.5,50,0",
        "200,2,0,sampled,99,50,0",
    ]
    (tmp_path / "evaluations.csv").write_text("\n".join(rows) + "\n")
    found = last_evaluation(Learner(None, 4, tmp_path))
    assert found == Judged(4, 200, [2.5, 4.5])
    with pytest.raises(ConfigError, match="no evaluation yet"):
        last_evaluation(Learner(None, 4, tmp_path / "nowhere"))


def test_defaults_are_said_to_be():
    told = facts()
    from penfac.algos import ALGORITHMS

    told.document["config"] = to_values(ALGORITHMS["penfac"].config())
    assert "Every setting is the default." in card(told)


def test_actions_and_inputs_of_every_kind():
    wide = facts()._replace(policy=make(clip=np.inf, dtype=np.float64))
    assert "normalised inside\n" in card(wide)
    assert "float64 of shape [3]" in card(wide)
