"""Words of other libraries are told what they are here, for every algorithm."""

import inspect

import pytest
from docs import tables
from tests.faults.commands import command

from penfac.errors import ConfigError
from penfac.settings.declaration import known_fields
from penfac.settings.registry import SETTINGS, parse, settings_of
from penfac.settings.words import explain, read, words

EVERY = sorted(
    {word for row in words() for there in row.there.values() for word in there}
)


def settings(algo: str) -> set[str]:
    return set(known_fields(SETTINGS[algo].config))


@pytest.mark.parametrize("algo", SETTINGS)
def test_every_word_is_a_setting_or_is_explained(algo):
    """A name that is given as the answer is a setting of this very algorithm."""
    for word in set(EVERY) - settings(algo):
        with pytest.raises(ConfigError) as refused:
            parse(algo, {word: 1})
        hint = str(refused.value).split("no such setting")[1]
        assert hint.startswith("; "), word
        assert "did you mean" not in hint, word
        if "here it is" in hint:
            names = hint.split("here it is ")[1].split(" (")[0].split(" and ")
            assert set(names) <= settings(algo), word


@pytest.mark.parametrize(
    ("algo", "word", "hint"),
    [
        ("penfac", "learning_rate", "here it is actor_lr and critic_lr ("),
        ("ppo", "learning_rate", "here it is lr ("),
        ("ppo", "n_steps", "here it is steps_per_world (for each world)"),
        ("ddpg", "n_steps", "here it is n_step (rewards before"),
        ("td3", "buffer_size", "here it is replay ("),
        ("ppo", "buffer_size", "only algorithms with a replay have it"),
        ("penfac", "n_envs", "here it is worlds ("),
        ("penfac", "verbose", "learn(progress_bar=True)"),
        ("cacla", "policy_kwargs", "here it is actor_hidden and critic_hidden and activation"),
        ("penfac", "tensorboard_log", "the folder tb of the run"),
        ("penfac", "batch_size", "here it is minibatches (minibatches is a number"),
        ("penfac", "ent_coef", "there is no entropy term here"),
        ("ppo", "ent_coef", "here it is entropy_weight ("),
        ("sac", "ent_coef", "here it is temperature and temperature_start ("),
    ],
)  # fmt: skip
def test_the_usual_words(algo, word, hint):
    assert hint in explain(word, settings(algo)) + " ("


def test_names_in_the_file_are_settings_of_some_algorithm():
    every = set().union(*map(settings, SETTINGS))
    for row in words():
        assert set(row.here) <= every, row
        assert row.here or row.note, row
    assert not set(read()["algorithm"]) & set(SETTINGS)


def test_an_algorithm_that_is_not_here_is_not_taken_for_another():
    for name in ("a2c", "TQC", "dqn"):
        with pytest.raises(ConfigError) as refused:
            settings_of(name)
        assert "did you mean" not in str(refused.value)
    with pytest.raises(ConfigError, match="did you mean ppo"):
        settings_of("ppoo")
    with pytest.raises(
        ConfigError, match=r"no such algorithm \(there are penfac, nfac,"
    ):
        settings_of("reinforce")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--learning-rate=1", "here it is actor_lr and critic_lr; settings are given as --set"),
        ("--sigma=1", "it is a setting, give it as --set sigma=VALUE"),
        ("--total-timesteps=9", "and to the command as -n"),
        ("--capture-video", "penfac play makes a video"),
    ],
)  # fmt: skip
def test_an_option_of_another_program_is_explained(option, hint):
    done = command("train", option)
    assert done.code == 2
    assert hint in done.line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "DDPG", "TD3", "SAC"])
def test_every_keyword_of_stable_baselines3_is_known(name):
    sb3 = pytest.importorskip("stable_baselines3")
    ours = settings(name.lower())
    keywords = set(inspect.signature(getattr(sb3, name)).parameters) - {"env", "seed"}
    assert keywords - ours <= set(EVERY)


def test_the_table_of_words_is_the_one_that_the_file_makes():
    """`make tables` writes it."""
    text = (tables.DOCS / tables.WORDS).read_text(encoding="utf-8")
    assert tables.with_words(text) == text
    for word in EVERY:
        assert f"`{word}`" in text
