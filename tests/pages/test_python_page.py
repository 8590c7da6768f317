"""Run every block of docs/python.md, in order, as a reader would."""

import re
from pathlib import Path

import pytest
from tests.small_models import own_folder

pytestmark = pytest.mark.slow

__all__ = ["own_folder"]  # a fixture
PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.usefixtures("own_folder")
def test_every_block_runs(capsys):
    text = PAGE.read_text(encoding="utf-8")
    found = blocks(text)
    assert len(found) == text.count("```") // 2  # all blocks are Python
    names: dict = {"__name__": "page"}
    for block in found:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
    said = capsys.readouterr().out
    assert said.startswith("<penfac.PeNFAC('Pendulum-v1', seed=0, run='runs/penfac/")
    assert names["again"].num_timesteps > names["model"].num_timesteps
