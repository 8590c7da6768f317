"""`authors` and `paper` learn what they learned before PeNFAC had minibatches.

`before_minibatches.json` holds the networks after three updates by the version before;
`python -m tests.algos.test_paper_presets_kept` prints such a file for the version at hand.
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.small_learners import SPEC, make_batch

from penfac.algos import ALGORITHMS
from penfac.engines.base import moment
from penfac.settings import presets
from penfac.settings.configs import from_values

FILE = Path(__file__).with_name("before_minibatches.json")
CASES = [(a, p) for a in ("penfac", "nfac") for p in ("authors", "paper")]


def learned(algo: str, preset: str) -> list[float]:
    """Every weight of both networks, and beta, after three updates."""
    a = ALGORITHMS[algo]
    settings = presets.preset(a.presets, preset, "Pendulum-v1") | dict(a.overrides)
    cfg = from_values(a.config, settings)
    cfg = dataclasses.replace(cfg, actor_hidden=(8,), critic_hidden=(8,))
    plan, numbers = a.plan(cfg, SPEC), a.numbers(cfg)
    update = jax.jit(a.update, static_argnums=2)
    state = a.init(jax.random.key(0), plan, numbers)
    for k in range(3):
        now = moment(0, k, 0, np.float32(k / 3), np.float32(cfg.sigma))
        state, _ = update(state, make_batch(k), plan, numbers, now)
    leaves = jax.tree.leaves((state.actor, state.critic, state.beta))
    return np.concatenate([np.ravel(x) for x in leaves]).tolist()


@pytest.mark.parametrize(("algo", "preset"), CASES)
def test_three_updates_end_where_they_did(algo, preset):
    """Equal to the bit where it was made; the last digit may differ on another CPU."""
    before = json.loads(FILE.read_text())[f"{algo} {preset}"]
    np.testing.assert_allclose(learned(algo, preset), before, rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    print(json.dumps({f"{a} {p}": learned(a, p) for a, p in CASES}))
