"""Which cases of a test run at every commit, and which wait for the slow tier."""

from collections.abc import Iterable

import pytest


def slow_cases(cases: Iterable, *slow) -> list:
    """Mark these cases slow; a tuple is a case of several arguments."""
    cases = list(cases)
    assert set(slow) <= set(cases), f"no case is {set(slow) - set(cases)}"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else [case]), marks=pytest.mark.slow
        )
        if case in slow
        else case
        for case in cases
    ]


def slow_except(cases: Iterable, *plain) -> list:
    """Mark every case slow but these."""
    cases = list(cases)
    assert set(plain) <= set(cases), f"no case is {set(plain) - set(cases)}"
    return slow_cases(cases, *(case for case in cases if case not in plain))
