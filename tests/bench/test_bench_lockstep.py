"""The gradient steps of our DDPG and TD3 beside those of Stable-Baselines3."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")


@pytest.mark.parametrize("algo", ["ddpg", "td3"])
def test_the_programs_differ_no_more_than_by_rounding(algo):
    """100 steps on the same rows: a copy moved by 1e-7 departs as fast as theirs."""
    from penfac.bench import contest, lockstep

    row = lockstep.lockstep(algo, contest.PENDULUM, 100)[-1]
    assert row["step"] == 100
    assert row["theirs"] < 30 * row["moved"] < 1e-3
    assert row["theirs_critics"] < 30 * row["moved_critics"] < 1e-3


@pytest.mark.parametrize("algo", ["ddpg", "td3"])
def test_their_model_learns_the_same_with_our_gradient_steps(algo):
    """Its loop, exploration and sampling are untouched, so its replay is too."""
    from penfac.bench import contest, lockstep, peer

    race, models = contest.PENDULUM, []
    for prepare in (lambda model: model, lambda m: lockstep.borrow(m, algo, race)):
        model = prepare(peer.same_replayed(algo, race, 0))
        model.learn(contest.settings(algo, race)["learning_starts"] + 100)
        models.append(model)
    own, borrowed = models
    assert own._n_updates == borrowed._n_updates == 150
    for name in ("observations", "actions", "rewards"):
        both = (getattr(m.replay_buffer, name)[:1100] for m in (own, borrowed))
        np.testing.assert_allclose(*both, atol=0.02)
