"""The numbers of docs/theory.md, computed again."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from penfac.theory import (
    combined,
    counter_example,
    lemma41,
    shared_parameter,
    truncated,
)
from penfac.theory.statements import STATEMENTS

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def rows(first: str) -> list[list[str]]:
    """The cells of the table whose head begins with `first`."""
    table = PAGE.split(f"\n| {first} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@cache
def result(name: str):
    return STATEMENTS[name].check()


def agrees(written: str, value: float) -> bool:
    """The same to the digits that are written, one unit in the last place aside: sums in
    another order are no other number."""
    mantissa, _, exponent = written.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(float(written) - value) <= 1.01 * unit


def test_the_reader_of_numbers_reads():
    assert agrees("0.4998", 0.49984)
    assert not agrees("0.4998", 0.4996)
    assert agrees("-3.463e-05", -3.4631e-05)
    assert not agrees("-3.463e-05", -3.47e-05)


def test_the_table_names_every_statement_in_order():
    names = [cells[0].strip("`") for cells in rows("statement")]
    assert names == list(STATEMENTS)


@pytest.mark.parametrize("cells", rows("statement"), ids=lambda c: c[0].strip("`"))
def test_a_row_of_the_table(cells):
    name, where, printed, left, right, verdict = cells
    statement, now = STATEMENTS[name.strip("`")], result(name.strip("`"))
    assert where == statement.where
    assert printed == ("yes" if statement.printed else "no")
    assert agrees(left, now.left)
    assert agrees(right, now.right)
    assert verdict == ("holds" if now.holds else "**fails**")


def test_the_counter_example_over_gamma():
    written = rows("gamma")
    assert [float(cells[0]) for cells in written] == list(counter_example.GAMMAS)
    for cells in written:
        mdp = counter_example.CounterExample(float(cells[0]))
        d = counter_example.quantity_by_solve(mdp)
        printed, corrected = counter_example.bounds(mdp)
        values = (d, printed, d / printed, corrected, d / corrected)
        for text, value in zip(cells[1:], values, strict=True):
            assert agrees(text, value), (cells[0], text, value)


def test_the_sign_that_is_lost():
    written = rows("sigma | component 1")
    assert len(written) == 4
    for sigma, *texts in written:
        step = lemma41.quadratic_in_two(lemma41.SLOPE, lemma41.HESSIAN, float(sigma))
        assert all(agrees(t, x) for t, x in zip(texts, step, strict=True))


def test_where_mu_rests():
    written = rows("sigma | CAC, truncated")
    assert len(written) == 4
    for sigma, *texts in written:
        places = [
            truncated.rest(rule, float(sigma), law)
            for law in ("truncated", "clipped")
            for rule in ("cac", "cacla")
        ]
        assert all(agrees(t, x) for t, x in zip(texts, places, strict=True))


def numbers_in_words() -> list[tuple[str, list[float]]]:
    """A sentence of the page with its numbers left open, and what they must be."""
    cacla, cac = result("optimum-cacla"), result("optimum-cac")
    bent, kink = (
        result("same-direction-always").numbers,
        result("lemma-4-1-kink").numbers,
    )
    limit, rate = result("lemma-4-1").numbers, result("lemma-4-1-rate").numbers
    lqr, random = result("lemma-5-1-lqr"), result("theorem-5-2-corrected")
    attained = result("theorem-5-2-attained").numbers
    kinked = lemma41.kinked_in_two(lemma41.KINKED_SLOPE, lemma41.KINK, lemma41.ACROSS)
    critic = result("negative-advantage").numbers
    spread, bound = result("centred-variance"), result("centred-truncated").numbers
    lopsided, shared = result("rest-over-pi").numbers, result("rest-combined").numbers
    one_gain = result("rest-combined-lqr").numbers
    best = one_gain["J, share 1"]
    n, m = cacla.numbers, cac.numbers
    return [
        ("sqrt(2 pi) = # : the other way", [bent["CACLA"]]),
        ("an angle of # degrees", [bent["angle in two dimensions, degrees"]]),
        ("CAC's step is # , half of SPG's", [bent["CAC by training"]]),
        ("DPG's optimum is theta = # .", [n["theta of DPG"]]),
        ("sum of CACLA's steps is # ;", [n["the update there"]]),
        ("step size # lowers", [shared_parameter.STEP]),
        ("J from # to # , and CACLA", [cacla.right, n["J after one step"]]),
        (
            "rest at theta = # with J = # . Each",
            [n["theta where it rests"], cacla.left],
        ),
        ("J = # at theta = # .", [cac.left, m["theta where it rests"]]),
        ("CAC's update at DPG's optimum is # .", [result("optimum-cac-limit").left]),
        (
            "lowers J from # to # , CAC does",
            [result("negative-advantage").right, result("negative-advantage").left],
        ),
        (
            "CAC takes # of the step",
            [critic["share of the step CAC takes if A is linear"]],
        ),
        (
            "second order: # for sigma",
            [critic["true A^pi(s, mu(s)) where R'' = 1"]],
        ),
        ("measured order # .", [result("eq-4-surrogate").left]),
        (
            "the factor is # at sigma = 0.1, # at 0.01 and # at 0.0001",
            [limit["at sigma 0.1"], limit["at sigma 0.01"], limit["at sigma 0.0001"]],
        ),
        (
            "# at sigma h / |g| = -0.01, # at -0.1, # at -1",
            [
                rate["factor at sigma h / |g| = -0.01"],
                rate["factor at sigma h / |g| = -0.1"],
                rate["factor at sigma h / |g| = -1"],
            ],
        ),
        (
            "factor is # for slopes 1 (right) and 0.5 (left), # for 2 and -1, # for -1",
            [
                kink["1-D factor, slopes 1 and 0.5"],
                kink["1-D factor, slopes 2 and -1"],
                kink["1-D factor, slopes -1 and 2"],
            ],
        ),
        ("is ( # , # ) at every sigma", list(kinked)),
        (
            "J(mu~) = # is played and the right side is J(mu) = # , what noise costs, "
            "# , and what the change gains, # .",
            [lqr.left, *lqr.numbers.values()],
        ),
        ("D is # times the printed bound at", [counter_example.smooth_share(0.9)]),
        (
            "rewards # exceed the printed bound",
            [random.numbers["above the printed bound"]],
        ),
        (
            "reaches # of the bound at gamma = 0.99, and # with",
            [
                attained["share at gamma 0.99"],
                attained["share at gamma 0.99, a hundredth of delta and sigma"],
            ],
        ),
        (
            "largest share is # , and # before L enters",
            [random.left, random.numbers["largest share before L enters"]],
        ),
        (
            "which is # , CAC at # .",
            [truncated.distance_in_sigmas("cacla"), truncated.distance_in_sigmas("cac")],
        ),
        (
            "by # sigma with CAC and # sigma with CACLA",
            [truncated.distance_in_sigmas("cac"), truncated.distance_in_sigmas("cacla")],
        ),
        (
            "finds # and # .",
            [truncated.rest("cac", 0.2), truncated.rest("cacla", 0.2)],
        ),
        (
            "share left is # ; a sample of 400 000 actions has # with a standard error "
            "of # .",
            [spread.left, spread.right, spread.numbers["standard error"]],
        ),
        (
            "CACLA is # and the centred one # :",
            [bound["plain step"], bound["centred step"]],
        ),
        (
            "I_4 / (6 I_2) = # t sigma^2",
            [combined.first_order("cac", 1.0) / combined.LOPSIDED],
        ),
        (
            "CAC rests at # and CACLA at # if sigma = 0.4",
            [
                lopsided["CAC rests at, sigma 0.4"],
                lopsided["CACLA rests at, sigma 0.4"],
            ],
        ),
        (
            "CACLA rests at theta = # with J = # ; DPG's optimum has J = # .",
            [shared["theta, share 0"], shared["J, share 0"], shared["J, share 1"]],
        ),
        (
            "rises with the share: # at 0.5, # at 0.9,",
            [shared["J, share 0.5"], shared["J, share 0.9"]],
        ),
        (
            "the optimum has J = # ; the sign alone loses # of it, and with half a share "
            "of DPG # .",
            [best, best - one_gain["J, share 0"], best - one_gain["J, share 0.5"]],
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("index", range(33))
def test_a_sentence_and_its_numbers(index):
    sentences = numbers_in_words()
    assert len(sentences) == 33
    sentence, values = sentences[index]
    pattern = re.escape(sentence).replace(r"\ \#\ ", r"\ \#").replace(r"\#\ ", r"\#")
    number = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
    pattern = pattern.replace(r"\ \#", r"\s*\#").replace(r"\#", number + r"\s*")
    match = re.search(pattern, WORDS)
    assert match, sentence
    for text, value in zip(match.groups(), values, strict=True):
        assert agrees(text, value), (sentence, text, value)


def test_the_gaps_told_in_words():
    for name in ("eq-4", "lemma-5-1", "lemma-5-1-lqr"):
        assert result(name).gap < 1e-10
    for name in ("cac-quadratic", "cacla-quadratic"):
        assert result(name).gap < 1e-6
    assert result("theorem-5-2-corrected").numbers["random MDPs"] == 10_000
    np.testing.assert_allclose(
        result("same-direction-always").numbers["CAC"],
        result("same-direction-always").numbers["SPG"] / 2,
    )
