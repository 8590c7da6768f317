"""Comparisons as lines that people can read."""

import pytest

from penfac.errors import ConfigError
from penfac.studies.claims import Claim, Side, check, parse, parse_need


@pytest.mark.parametrize(
    ("line", "kind", "sides", "weights"),
    [
        ("a above b", "above", [("a", "mean"), ("b", "mean")], (1, -1)),
        ("a  level   with b", "level", [("a", "mean"), ("b", "mean")], (1, -1)),
        ("p not below p[sampled]", "not below", [("p", "mean"), ("p", "sampled")], (1, -1)),
        ("no-x learns nothing", "nothing", [("no-x", "mean")], (1,)),
        (
            "a - b above c - d",
            "interaction",
            [(x, "mean") for x in "abcd"],
            (1, -1, -1, 1),
        ),
    ],
)  # fmt: skip
def test_a_line_is_understood(line, kind, sides, weights):
    found = parse(line)
    assert found.kind == kind
    assert found.sides == tuple(Side(*side) for side in sides)
    assert found.weights == weights


@pytest.mark.parametrize(
    "line", ["", "a", "a > b", "a above", "a above b c", "a[] above b"]
)
def test_any_other_line_is_refused_with_the_five_that_are_known(line):
    with pytest.raises(ConfigError, match="a above b"):
        parse(line)


def test_a_condition_is_understood():
    found = parse_need("penfac:  beta above beta_min")
    assert found == ("penfac: beta above beta_min", "penfac", "beta", "beta_min")
    assert parse_need("a: sigma above 0.1").bound == "0.1"
    with pytest.raises(ConfigError, match="arm: column above bound"):
        parse_need("penfac beta")


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim("w", ("a above c",)), "c is not an arm; the arms are a, b"),
        (Claim("w", ("a above b",), measure="best"), "measure 'best'"),
        (Claim("w", ()), "must compare two arms"),
        (Claim("w", ("a above b",), margin=0.0), "margin 0.0"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(claim, why):
    with pytest.raises(ConfigError, match=why):
        check(claim, {"a", "b"})
