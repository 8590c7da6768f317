"""Text to config: what is read, what is refused and with which words."""

import json
import math
from dataclasses import dataclass
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penfac.errors import ConfigError
from penfac.settings.configs import (
    check,
    from_values,
    parse_number,
    parse_settings,
    to_values,
)
from penfac.settings.declaration import (
    collects,
    declared,
    known_fields,
    shapes,
    traced,
)
from penfac.settings.penfac import Config
from penfac.settings.registry import SETTINGS, config_class, parse, parse_saved
from penfac.settings.suggest import nearest


@dataclass(frozen=True)
class Sample:
    """One field of each kind that a config may have."""

    rate: float = 0.5
    steps: int = 3
    on: bool = True
    word: Literal["cac", "cacla"] = "cac"
    end: float | None = None
    hidden: tuple[int, ...] = (64, 64)


def parsed(pair):
    (value,) = parse_settings(Sample, [pair]).values()
    return value


# --- numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["1e6", "1_000_000", "1000000", "1000000.0", "+1e+6", "1000k", "1M", "1.0m"]
)
def test_a_million_may_be_written_as_people_do(text):
    """The same int, whichever way it is written."""
    number = parsed(f"steps={text}")
    assert number == 10**6
    assert type(number) is int


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e-3", 0.001), ("3", 3.0), ("1_0.5", 10.5), ("inf", math.inf), ("-0.5", -0.5)],
)
def test_a_float_may_be_written_as_people_do(text, number):
    value = parsed(f"rate={text}")
    assert value == number
    assert type(value) is float


@given(st.integers(-(2**70), 2**70))
def test_an_int_keeps_every_digit(number):
    """Also beyond 2^53, where a float would lose the last ones."""
    assert parse_number(str(number), int) == number


@given(st.floats(allow_nan=False))
def test_a_float_reads_back_what_python_prints(number):
    assert parse_number(repr(number), float) == number


@pytest.mark.parametrize(
    "pair",
    ["steps=1.5", "steps=1.0005k", "steps=k", "steps=many", "steps=inf", "steps=nan",
     "steps=", "rate=fast", "rate=", "rate=1,5"],
)  # fmt: skip
def test_what_is_no_number_is_refused_by_name(pair):
    """The message begins with key = value and says what it is not."""
    key, _, text = pair.partition("=")
    with pytest.raises(ConfigError, match=rf"^{key} = {text}: .*not a (whole )?number"):
        parsed(pair)


# --- words, switches, tuples, none ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("True", True), ("yes", True), ("1", True), ("on", True),
     ("false", False), ("FALSE", False), ("no", False), ("0", False), ("off", False)],
)  # fmt: skip
def test_a_switch_has_many_words(text, value):
    assert parsed(f"on={text}") is value


@pytest.mark.parametrize("text", ["maybe", "", "2", "None"])
def test_no_other_word_is_a_switch(text):
    with pytest.raises(ConfigError, match=f"^on = {text}: must be true or false"):
        parsed(f"on={text}")


@pytest.mark.parametrize(
    ("text", "value"),
    [("64,64", (64, 64)), ("64x64", (64, 64)), ("(64, 32)", (64, 32)), ("8", (8,)),
     ("[400,300]", (400, 300)), ("64,", (64,)), ("none", ()), ("", ()),
     ("1e2,1_0", (100, 10))],
)  # fmt: skip
def test_layers_may_be_written_as_people_do(text, value):
    assert parsed(f"hidden={text}") == value


@pytest.mark.parametrize("text", ["64,wide", "64.5", "64;64"])
def test_layers_that_are_no_whole_numbers_are_refused(text):
    with pytest.raises(ConfigError, match=r"^hidden = "):
        parsed(f"hidden={text}")


@pytest.mark.parametrize("text", ["none", "None", "NONE", ""])
def test_none_is_the_absence_of_an_optional_number(text):
    assert parsed(f"end={text}") is None


def test_an_optional_number_is_a_number():
    assert parsed("end=0.25") == 0.25


def test_a_word_is_one_of_its_choices():
    assert parsed("word=cacla") == "cacla"
    with pytest.raises(ConfigError, match=r"^word = CAC: must be one of cac, cacla"):
        parsed("word=CAC")


def test_spaces_around_key_and_value_are_nothing():
    assert parse_settings(Sample, [" rate = 0.25 "]) == {"rate": 0.25}


def test_a_setting_without_a_value_is_refused():
    with pytest.raises(ConfigError, match="--set rate: must be key=value"):
        parse_settings(Sample, ["rate"])


# --- unknown keys ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("lamda", "lam"), ("actor_learning_rate", "actor_lr"), ("dtarget", "d_target"),
     ("Gamma", "gamma"), ("fitted_iteration", "fitted_iterations"),
     ("episode_per_update", "episodes_per_update")],
)  # fmt: skip
def test_an_unknown_key_suggests_the_nearest(wrong, meant):
    """From a command line and from a file alike."""
    for read in (
        lambda: parse_settings(Config, [f"{wrong}=1"]),
        lambda: from_values(Config, {wrong: 1}),
    ):
        with pytest.raises(ConfigError, match=rf"^{wrong}: .*did you mean {meant}\?"):
            read()


def test_an_unknown_key_like_none_suggests_nothing():
    """A guess at random would mislead."""
    with pytest.raises(ConfigError) as refused:
        parse_settings(Config, ["qqqq=1"])
    assert "did you mean" not in str(refused.value)
    assert "penfac presets" in str(refused.value)


def test_nearest_gives_the_spelling_of_the_candidates():
    assert nearest("PENDULUM-V1", ["Pendulum-v1", "Hopper-v5"], n=1) == ["Pendulum-v1"]


# --- typed values ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [{"rate": "0.5"}, {"rate": True}, {"rate": None}, {"steps": 3.0}, {"steps": True},
     {"on": 1}, {"on": "true"}, {"word": "spg"}, {"word": None}, {"end": "0.5"},
     {"hidden": 64}, {"hidden": [64.0]}, {"hidden": ["64"]}, {"hidden": [True]}],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused_by_name(values):
    """A file says types; text is not guessed at there."""
    ((key, _),) = values.items()
    with pytest.raises(ConfigError, match=f"^{key} = "):
        from_values(Sample, values)


def test_an_int_stands_for_a_float_and_becomes_one():
    """`rate = 1` in a file is the config of `rate = 1.0`, in type too."""
    for values in ({"rate": 1}, {"end": 1}):
        (value,) = (getattr(from_values(Sample, values), k) for k in values)
        assert value == 1
        assert type(value) is float
    assert type(from_values(Sample, {"steps": 1}).steps) is int


def test_a_list_becomes_a_tuple():
    """So that a config is hashable however it was read."""
    cfg = from_values(Sample, {"hidden": [8, 8]})
    assert cfg == Sample(hidden=(8, 8))
    assert hash(cfg) == hash(Sample(hidden=(8, 8)))


samples = st.builds(
    Sample,
    rate=st.floats(allow_nan=False, min_value=-1e300),
    steps=st.integers(),
    on=st.booleans(),
    word=st.sampled_from(["cac", "cacla"]),
    end=st.none() | st.floats(allow_nan=False, min_value=0),
    hidden=st.lists(st.integers(1, 99)).map(tuple),
)


@given(samples)
def test_json_gives_a_config_back(cfg):
    """Through text that every JSON reader takes: no Infinity, no NaN in it."""
    text = json.dumps(to_values(cfg), allow_nan=False)
    back = from_values(Sample, json.loads(text))
    assert back == cfg
    assert [type(x) for x in to_values(back).values()] == [
        type(x) for x in to_values(cfg).values()
    ]


def test_infinity_goes_through_json_as_a_word():
    """beta_max of the preset `paper`."""
    cfg = Config(beta_max=math.inf)
    values = to_values(cfg)
    assert values["beta_max"] == "inf"
    assert from_values(Config, json.loads(json.dumps(values))) == cfg


# --- ranges ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranged:
    """One setting for each way to be in a range."""

    closed: float = traced(0.5, "[0, 1]", hint="the paper uses 0.5", means="")
    above: float = traced(1.0, "(0, inf]", means="")
    finite: float = traced(1.0, "[0, inf)", means="")
    end: float | None = traced(None, "[1, 2]", means="")
    hidden: tuple[int, ...] = shapes((64, 64), "[1, 65536]", means="")
    word: Literal["cac", "cacla"] = traced("cac", means="")
    worlds: int = collects(4, "[2, 8)", means="", earlier=1)

    def check_together(self) -> None:
        if self.worlds == 3:
            raise ConfigError("worlds = 3: must be even")


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_a_closed_range_holds_its_ends(rate):
    check(Ranged(closed=rate))


@pytest.mark.parametrize("rate", [-1e-9, 1 + 1e-9, math.inf, -math.inf, math.nan])
def test_what_is_outside_a_range_is_refused_with_key_value_rule_and_hint(rate):
    with pytest.raises(ConfigError) as refused:
        check(Ranged(closed=rate))
    rule = "must be at least 0 and at most 1 (the paper uses 0.5)"
    assert str(refused.value) == f"closed = {rate}: {rule}"


def test_an_open_range_does_not_hold_its_low_end():
    check(Ranged(above=1e-300))
    check(Ranged(above=math.inf))
    with pytest.raises(ConfigError, match=r"^above = 0\.0: must be above 0$"):
        check(Ranged(above=0.0))


def test_none_is_in_every_range():
    check(Ranged(end=None))
    with pytest.raises(ConfigError, match=r"^end = "):
        check(Ranged(end=3.0))


def test_an_open_infinite_end_leaves_infinity_out():
    check(Ranged(finite=1e300))
    with pytest.raises(ConfigError, match=r"^finite = inf: must be .* and finite$"):
        check(Ranged(finite=math.inf))


def test_every_number_of_a_tuple_is_held_to_the_range():
    check(Ranged(hidden=()))
    with pytest.raises(ConfigError, match=r"^hidden = 0: must be at least 1"):
        check(Ranged(hidden=(64, 0)))


def test_settings_that_do_not_go_together_are_refused_after_the_ranges():
    with pytest.raises(ConfigError, match=r"^worlds = 3: must be even$"):
        check(Ranged(worlds=3))
    with pytest.raises(
        ConfigError, match=r"^worlds = 8: must be at least 2 and below 8"
    ):
        check(Ranged(worlds=8))


# --- by the name of an algorithm ------------------------------------------------------


def test_a_config_is_parsed_and_checked_by_the_name_of_its_algorithm():
    assert parse("penfac", {"lam": 1}) == Config(lam=1.0)
    assert type(parse("td3", {})) is config_class("ddpg")
    with pytest.raises(ConfigError, match=r"^lam = 2\.0: must be"):
        parse("penfac", {"lam": 2.0})
    with pytest.raises(
        ConfigError, match=r"^beta_min = 2\.0: must be at most beta_max"
    ):
        parse("penfac", {"beta_min": 2.0, "beta_max": 1.0})
    with pytest.raises(ConfigError, match="did you mean penfac"):
        parse("penfax", {})


@pytest.mark.parametrize("algo", SETTINGS)
def test_a_saved_config_gets_what_its_version_did(algo):
    """Settings that the run's version did not have are completed, none is replaced."""
    earlier, full = SETTINGS[algo].earlier, to_values(config_class(algo)())
    old = {key: value for key, value in full.items() if key not in earlier}
    read = parse_saved(algo, old)
    assert {key: getattr(read, key) for key in earlier} == earlier
    assert to_values(parse_saved(algo, full)) == full


@pytest.mark.parametrize("algo", SETTINGS)
def test_every_setting_is_declared_and_every_number_has_a_range(algo):
    """A number without a rule would let NaN through; a default passes its own rule."""
    config = config_class(algo)
    check(config())
    for key, kind in known_fields(config).items():
        setting, numbers = declared(config)[key], {kind, *get_args(kind)} & {int, float}
        assert setting.means, key
        assert (setting.within is not None) == bool(numbers), key
