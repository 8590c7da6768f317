"""The notebook, cell by cell, as a reader runs it; with fewer steps."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pendulum.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def test_it_is_a_notebook_without_results():
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    lines = [
        x for kind in ("markdown", "code") for x in "\n".join(cells(kind)).split("\n")
    ]
    assert max(map(len, lines)) <= 120


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch, capsys):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    names: dict = {}
    for k, code in enumerate(cells("code")):
        less = code.replace("STEPS = 150_000", "STEPS = 4_096")
        exec(compile(less, f"cell {k}", "exec"), names)  # noqa: S102
    said = capsys.readouterr().out
    assert names["model"].num_timesteps == 4096
    assert said.count("return ") >= 3
    assert len(shown) == 2
    assert len(names["states"]) == 201
    pytest.importorskip("stable_baselines3")
    assert set(names["found"]) >= {"difference"}
