"""`penfac bench policy` without its peer: whom it asks, and what it says."""

import importlib.util

import numpy as np
import pytest

from penfac.bench import policy as bench
from penfac.export import compiled


@pytest.fixture
def without_peer(monkeypatch):
    """PyTorch takes seconds to import."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "stable_baselines3" else found(name),
    )


def test_everyone_it_asks_gives_the_same_actions(without_peer):
    policy = bench.same_sizes()
    _, many = bench.callers(policy)
    obs = np.random.default_rng(0).normal(size=(9, 26)).astype(np.float32)
    for name, call in many.items():
        np.testing.assert_allclose(
            np.squeeze(call(obs)), policy(obs), atol=1e-5, err_msg=name
        )
    assert ("the C header, -O2" in many) == (compiled.compiler() is not None)


def test_it_reports_figures_and_who_is_missing(without_peer):
    said = []
    report = bench.run(quick=True, say=said.append)
    figures = {row["figure"]: row["measured"] for row in report["figures"]}
    assert figures["one state, penfac.Policy"].endswith(" us")
    assert figures["a state in a batch of 1024, penfac.Policy"].endswith(" ns")
    assert figures[bench.PEER] == "not here"
    assert len(said) == len(figures)
    assert all(row.keys() == {"figure", "measured", "aim"} for row in report["figures"])


def test_the_best_round_counts():
    def call(_):
        calls.append(1)

    calls: list[int] = []
    took = bench.fastest({"it": call}, np.zeros(1), repeats=3, rounds=2)
    assert len(calls) == 2 * (1 + 3)
    assert 0 < took["it"] < 1e-3
