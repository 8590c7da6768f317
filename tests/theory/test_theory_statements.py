"""Every statement is checked; which fail is known, and nothing else does."""

import numpy as np
import pytest

from penfac.theory import poor_critic, regulator, shared_parameter
from penfac.theory.gradients import by_quadrature
from penfac.theory.statement import at_most, below, equal, same_sign
from penfac.theory.statements import STATEMENTS, as_document, timed_check

FAIL = {
    "same-direction-always",  # needs a linear advantage
    "lemma-4-1-finite",  # the lemma is about the limit
    "lemma-4-1-kink",  # ... of a differentiable advantage
    "theorem-5-2",  # gamma above 1/2
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_holds_or_fails_as_the_page_says(name):
    found, seconds = timed_check(STATEMENTS[name])
    assert found.holds == (name not in FAIL)
    assert np.isfinite([found.left, found.right, found.gap, seconds]).all()
    assert np.isfinite(list(found.numbers.values())).all()


def test_the_sides_decide():
    """A result can fail, each kind of it, and by what else must be true."""
    assert equal([1.0, 2.0], [1.0, 2.1], 0.2, {}).holds
    assert not equal([1.0, 2.0], [1.0, 2.1], 0.05, {}).holds
    assert not equal(1.0, 1.0, 0.1, {}, also=False).holds
    assert equal([3.0, 4.0], [0.0, 0.0], 1, {})[:3] == (5.0, 0.0, 5.0)
    assert at_most(1.0, 1.0, {}).holds
    assert not at_most(1.1, 1.0, {}).holds
    assert not below(1.0, 1.0, {}).holds
    assert below(0.0, 2.0, {}).gap == 2.0
    assert not same_sign(-0.1, 0.2, {}).holds
    assert same_sign(-0.1, -0.2, {}).holds


def test_names_are_as_a_command_takes_them():
    for name, statement in STATEMENTS.items():
        assert name == statement.name == name.lower()
        assert " " not in name
        assert statement.relation in ("=", "<", "<=", "same sign")
        assert len(statement.says) < 90


def test_every_statement_has_a_figure():
    for picture in {s.picture for s in STATEMENTS.values()}:
        assert picture().startswith(b"\x89PNG")


def test_a_document_holds_what_was_found():
    statement = STATEMENTS["lemma-4-1-finite"]
    found, seconds = timed_check(statement)
    document = as_document(statement, found, seconds)
    assert (document["left"], document["right"]) == (found.left, found.right)
    assert document["holds"] is False
    assert document["printed"] is False
    assert document["numbers"] == found.numbers


# --- the worked examples, by another route --------------------------------------------


def test_the_slope_of_j_is_dpg():
    """Equation 3 against differences of J, at parameters that are no optimum too."""
    performance = shared_parameter.performance
    for theta in (-0.5, 0.2, 1.1):
        rise = performance(theta + 1e-5) - performance(theta - 1e-5)
        np.testing.assert_allclose(shared_parameter.dpg(theta), rise / 2e-5, atol=1e-8)
    assert abs(shared_parameter.dpg(shared_parameter.dpg_optimum())) < 1e-12


@pytest.mark.parametrize("rule", ["cac", "cacla"])
def test_the_updates_over_three_states_by_quadrature(rule):
    """Each state's advantage integrated; the visits by playing the chain."""
    theta, sigma = 0.3, 0.4
    seen, now = np.zeros(3), shared_parameter.START
    for t in range(400):
        seen += shared_parameter.GAMMA**t * now
        now = now @ shared_parameter.MOVES
    steps = [
        by_quadrature(rule, k * sigma**2 / 2, k * (a - theta), -k, sigma)
        for k, a in zip(shared_parameter.BEND, shared_parameter.BEST, strict=True)
    ]
    found = getattr(shared_parameter, rule)(theta, sigma)
    np.testing.assert_allclose(found, seen @ steps, atol=1e-5)


def test_no_parameter_is_better_than_dpgs():
    best = shared_parameter.performance(shared_parameter.dpg_optimum())
    tried = [shared_parameter.performance(t) for t in np.linspace(-1, 2, 301)]
    assert max(tried) <= best


def test_the_poor_critic_praises_no_action():
    b = np.linspace(-5, 5, 2001)
    assert poor_critic.critic_advantage(b).max() < 0
    assert poor_critic.share(0.0) == 0.5
    assert 0 < poor_critic.share(poor_critic.E) < 0.01


def test_playing_the_regulator_is_its_value():
    """The left side of Lemma 5.1 against the Lyapunov equation."""
    from penfac.envs.lqr import DOUBLE_INTEGRATOR, value

    for gain in (regulator.GAIN, regulator.NEW_GAIN):
        p, _ = value(DOUBLE_INTEGRATOR, gain, 0.0)
        wanted = -np.trace(p @ regulator.STARTS)
        np.testing.assert_allclose(
            regulator.played_return(DOUBLE_INTEGRATOR, gain), wanted
        )
