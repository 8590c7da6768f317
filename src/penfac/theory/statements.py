"""All statements that are checked, in the order of the paper; each module has its own."""

import time
from typing import Any

from penfac.theory import (
    centred,
    combined,
    directions,
    gradients,
    lemma41,
    mdp,
    poor_critic,
    regulator,
    shared_parameter,
    theorem52,
    truncated,
)
from penfac.theory.statement import CheckResult, Statement

STATEMENTS: dict[str, Statement] = {
    statement.name: statement
    for statement in (
        *gradients.STATEMENTS,
        *directions.STATEMENTS,
        *shared_parameter.STATEMENTS,
        *poor_critic.STATEMENTS,
        *mdp.EQ_4,
        *lemma41.STATEMENTS,
        *mdp.LEMMA_5_1,
        *regulator.STATEMENTS,
        *theorem52.STATEMENTS,
        *truncated.STATEMENTS,
        *centred.STATEMENTS,
        *combined.STATEMENTS,
    )
}


def timed_check(statement: Statement) -> tuple[CheckResult, float]:
    """Check a statement; return the result and the seconds it took."""
    started = time.perf_counter()
    result = statement.check()
    return result, time.perf_counter() - started


def as_document(
    statement: Statement, result: CheckResult, seconds: float
) -> dict[str, Any]:
    """One checked statement as JSON."""
    return {
        "name": statement.name,
        "where": statement.where,
        "printed": statement.printed,
        "says": statement.says,
        "relation": statement.relation,
        "left": result.left,
        "left_is": statement.sides[0],
        "right": result.right,
        "right_is": statement.sides[1],
        "gap": result.gap,
        "holds": result.holds,
        "seconds": round(seconds, 3),
        "numbers": dict(result.numbers),
        "about": statement.about,
    }
