"""A model card says what the run's own files say, in a form that others can read."""

import shlex
import statistics

import numpy as np
import pytest
from msgspec.structs import replace
from tests.export.some_policies import make

from penfac import cli
from penfac.analysis.card import (
    Facts,
    LastEvaluation,
    card,
    last_evaluation,
    mean_return,
    rebuild_command,
)
from penfac.envs.options import EnvOptions
from penfac.errors import ConfigError
from penfac.runs.config import RunConfig
from penfac.runs.evaluations import Evaluation
from penfac.runs.learners import Learner
from penfac.settings.configs import to_values
from penfac.settings.registry import config_class
from penfac.training.request import Request, resolve

ENV = "penfac/LQR-v0"


def config(**more) -> RunConfig:
    request = Request(**({"env": ENV, "steps": 3000, "seeds": (3, 5)} | more))
    versions = {"jax": "0.10.2", "python": "3.11.7"}
    return replace(resolve(request), versions=versions)


def last_of(seed: int, step: int, returns: list[float]) -> LastEvaluation:
    """The last evaluation of a learner whose best was an earlier one."""
    best = Evaluation(step // 2, 1, [x + 1 for x in returns], [9], [False])
    return LastEvaluation(seed, step, returns, best, 4)


def facts(last=None, **more) -> Facts:
    own = config(**more)
    last = last or [last_of(s, 3000, [s, s + 2.0]) for s in own.seeds]
    return Facts(own, last, make(), "runs/penfac/LQR-v0_1")


def changed(**fields) -> Facts:
    told = facts()
    return told._replace(config=replace(told.config, **fields))


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
    assert front(card(changed(env=name)))["tags"][3] == name


def test_a_spread_is_over_seeds_where_there_are_several():
    found = mean_return(
        [
            last_of(0, 9, [1, 3]),
            last_of(1, 9, [5, 7]),
            last_of(2, 9, [9, 20]),
        ]
    )
    assert found.mean == pytest.approx(statistics.fmean([2, 6, 14.5]))
    assert found.spread == pytest.approx(statistics.stdev([2, 6, 14.5]))
    assert found.over == "3 seeds"


def test_of_one_seed_it_is_over_episodes_and_says_so():
    found = mean_return([last_of(0, 9, [1, 3, 8])])
    assert (found.mean, found.over) == (4, "3 episodes of 1 seed")
    assert found.spread == pytest.approx(statistics.stdev([1, 3, 8]))
    assert mean_return([last_of(0, 9, [1])]).spread == 0
    text = card(facts(last=[last_of(3, 9, [1, 3, 8])], seeds=(3,)))
    assert "- seed 3: step 4, 5.00 over 3 episodes, the best of 4 evaluations" in text
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
    text = card(changed(command="penfac train --env penfac/LQR-v0 --seeds 3,5"))
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

    due = config(**REQUESTS[what])
    asked = []

    def keep(request, limits, listener):
        asked.append(resolve(request))
        raise ConfigError("enough")

    monkeypatch.setattr(trial, "start", keep)
    _, name, *words = shlex.split(rebuild_command(due))
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    context = commands[name].make_context(name, words)
    with pytest.raises(ConfigError, match="enough"):
        context.command.invoke(context)
    assert asked == [replace(due, versions=None)]


def test_a_preset_file_that_is_gone_leaves_all_settings():
    told = replace(config(), preset="gone.toml")
    words = shlex.split(rebuild_command(told))
    settings = [w for w in words if w.startswith("--set=")]
    assert len(settings) == len(to_values(told.settings))


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
    best = Evaluation(200, 2, [2.5, 4.5], [50, 50], [False, False], found.best.others)
    assert found == LastEvaluation(4, 200, [2.5, 4.5], best, 2)
    with pytest.raises(ConfigError, match="no evaluation yet"):
        last_evaluation(Learner(None, 4, tmp_path / "nowhere"))


def test_defaults_are_said_to_be():
    told = changed(settings=config_class("penfac")())
    assert "Every setting is the default." in card(told)


def test_actions_and_inputs_of_every_kind():
    wide = facts()._replace(policy=make(clip=np.inf, dtype=np.float64))
    assert "normalised inside\n" in card(wide)
    assert "float64 of shape [3]" in card(wide)
