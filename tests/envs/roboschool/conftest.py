"""The tasks, built once."""

import pytest

from penfac.envs.roboschool.task import make_task


@pytest.fixture(scope="module")
def tasks():
    """Each task and rule set, built once."""
    made = {}

    def get(name: str, rules: str = "roboschool"):
        if (name, rules) not in made:
            made[name, rules] = make_task(name, rules)
        return made[name, rules]

    return get
