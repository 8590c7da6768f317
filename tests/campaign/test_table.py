"""docs/faults.md says what the campaign found, and every fault has someone to provoke it."""

import json
import re

import pytest
from tests.campaign import tables
from tests.campaign.faults import TABLE
from tests.campaign.tables import PAGE, RESULTS, ROOT


def test_the_tables_are_those_of_the_last_campaign():
    text = PAGE.read_text(encoding="utf-8")
    assert "<!--campaign-->" in text
    assert (
        tables.rendered(text, json.loads(RESULTS.read_text(encoding="utf-8"))) == text
    )


def test_the_faults_are_sixty():
    assert [fault.id for fault in TABLE] == [f"F{k:02d}" for k in range(1, 61)]


@pytest.mark.parametrize("fault", TABLE, ids=lambda fault: fault.id)
def test_each_is_provoked_or_covered(fault):
    """A function of ours, or a test that is there."""
    if not fault.is_test:
        assert callable(fault.provoke)
        return
    file, _, name = fault.how.partition("::")
    assert re.search(rf"^def {name or 'test_'}", (ROOT / file).read_text(), re.M)
