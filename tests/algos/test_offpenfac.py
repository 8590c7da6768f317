"""Off-policy PeNFAC: what old batches change, what they must not, and DPG's share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.small_learners import NOW, make_batch

from penfac.algos import penfac as algorithm
from penfac.algos.penfac_actor import Around, at_progress, pull_of
from penfac.algos.penfac_past import Past
from penfac.algos.penfac_slope import fitted_slope, slope_init, slopes
from penfac.errors import ConfigError
from penfac.settings.configs import check
from penfac.settings.penfac import Config

BATCH = make_batch(0)
OLDER = make_batch(1)
SIZE = len(BATCH.reward)
WORLDS = {"worlds": 1, "steps_per_world": SIZE}
# the fit is linear in a few rows: what differs is what old rows do
REUSE = WORLDS | {"actor_update": "cacla", "centred": True, "advantage_scale": "rms"}

update = jax.jit(algorithm.update, static_argnums=2)


def updated(learner, state, batch):
    return update(state, batch, learner.plan, learner.numbers, NOW)[0]


def near(a, b, atol=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=atol), a, b)


def learned(state):
    return state.actor, state.critic, state.beta


def past_of(learner, batch, shift=0.0) -> Past:
    """A batch that a policy played whose mu is `shift` beside the learner's."""
    mean = algorithm.mu(learner.state, batch.obs, learner.plan, learner.numbers)
    return Past(batch, mean + shift, jnp.full(SIZE, NOW.sigma))


def test_without_a_past_it_is_penfacs_update(make_learner):
    """The first update: rows that are not there change nothing."""
    off, on = make_learner(reuse=3, **REUSE), make_learner(**REUSE)
    near(learned(off.state), learned(on.state), atol=0)
    new = updated(off, off.state, BATCH)
    near(learned(new), learned(updated(on, on.state, BATCH)))


def test_a_past_that_todays_policy_played_is_part_of_the_batch(make_learner):
    """rho = 1 everywhere: PeNFAC's update of both batches as one."""
    off, on = make_learner(reuse=2, **REUSE), make_learner(**REUSE)
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), BATCH, OLDER)
    state = off.state._replace(past=past_of(off, OLDER))
    new = updated(off, state, BATCH)
    wanted = updated(on, on.state, both)
    near(learned(new), learned(wanted))
    alone = updated(on, on.state, BATCH)
    moved = np.abs(new.actor.layers[-1][1] - alone.actor.layers[-1][1])
    assert moved.max() > 1e-4  # it does matter


def test_actions_that_todays_policy_never_takes_change_no_actor(make_learner):
    """rho is about 0: old rows neither pull nor fit, whatever they earned."""
    off = make_learner(reuse=2, **REUSE, trust_region=False, critic_lr=1e-12)
    far = past_of(off, OLDER)
    far = far._replace(mean=OLDER.action, sigma=jnp.full(SIZE, 1e-3))
    new = updated(off, off.state._replace(past=far), BATCH)
    wanted = updated(off, off.state, BATCH)
    near(new.actor.layers, wanted.actor.layers, atol=2e-3)


def test_the_past_keeps_the_newest_rows_and_who_played_them(make_learner):
    off = make_learner(reuse=3, **REUSE)
    state, seen = off.state, []
    for seed in range(3):
        batch = make_batch(seed)
        mean = algorithm.mu(state, batch.obs, off.plan, off.numbers)
        seen.insert(0, (batch, mean))
        state = updated(off, state, batch)
    for k, (batch, mean) in enumerate(seen[:2]):
        rows = slice(k * SIZE, (k + 1) * SIZE)
        here = jax.tree.map(lambda x, rows=rows: x[rows], state.past)
        jax.tree.map(np.testing.assert_array_equal, here.steps, batch)
        np.testing.assert_allclose(here.mean, mean, atol=1e-6)
        assert np.all(np.asarray(here.sigma) == float(NOW.sigma))
    assert len(state.past.sigma) == 2 * SIZE


def test_whole_episodes_cannot_be_reused():
    with pytest.raises(
        ConfigError, match="reuse = 2: must be 1 with collect = episodes"
    ):
        check(Config(reuse=2, collect="episodes"))


# --- DPG's share ----------------------------------------------------------------------


def test_the_fitted_slope_of_a_linear_advantage(make_learner):
    """A = g.a + noise of the state: the slopes point along g in every state."""
    settings = WORLDS | {"dpg_share": 0.5, "critic_hidden": (), "critic_steps": 200}
    one = make_learner(**settings, critic_lr=3e-2, fitted_iterations=5)
    fit = slope_init(jax.random.key(0), one.plan, one.numbers)
    g = np.array([0.8, -0.4])
    advantage = jnp.where(BATCH.mask, BATCH.action @ jnp.asarray(g, jnp.float32), 0)
    around = Around(
        one.state.observed, NOW.sigma, jnp.float32(1), one.plan, one.numbers
    )
    fit = fitted_slope(fit, BATCH.obs, BATCH, advantage, jax.random.key(1), around)
    found = slopes(fit, BATCH.obs, jnp.zeros_like(BATCH.action), one.plan)
    rms = np.sqrt(np.mean(np.asarray(advantage)[np.asarray(BATCH.mask)] ** 2))
    np.testing.assert_allclose(found, np.broadcast_to(g / rms, found.shape), atol=0.05)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_takes_from_the_pull_what_it_gives_to_the_slope(share, make_learner):
    """Both of the same size, so that the share alone says which leads."""
    one = make_learner(**REUSE, dpg_share=share)
    advantage = jnp.where(BATCH.mask, BATCH.reward, 0)
    mean = jnp.zeros_like(BATCH.action)
    steep = 30 * make_batch(5).action
    plain = pull_of(BATCH, mean, advantage, one.numbers)
    pull = pull_of(BATCH, mean, advantage, one.numbers, steep=steep)
    np.testing.assert_allclose(pull.weight, (1 - share) * plain.weight, rtol=1e-6)
    np.testing.assert_allclose(pull.centre, (1 - share) * plain.centre, rtol=1e-6)
    net = (plain.weight - plain.centre)[:, None] * BATCH.action
    size = lambda x: float(jnp.sqrt(jnp.mean(x**2, where=BATCH.mask[:, None])))  # noqa: E731
    np.testing.assert_allclose(size(pull.slope), share * size(net), rtol=1e-4)


@pytest.mark.parametrize(
    ("progress", "share"), [(0, 0.4), (0.25, 0.25), (0.5, 0.1), (1, 0.1)]
)
def test_the_share_reaches_its_end_at_half_the_run(progress, share, make_learner):
    numbers = make_learner(dpg_share=0.1, dpg_share_start=0.4).numbers
    found = at_progress(numbers, jnp.float32(progress)).dpg_share
    np.testing.assert_allclose(found, share, rtol=1e-6)


def test_a_share_at_the_start_alone_fits_a_slope_too(make_learner):
    assert make_learner(dpg_share_start=0.4).plan.slopes


def test_dpg_alone_moves_mu_up_the_slope(make_learner):
    """No trust region, one small step of the whole batch: the first-order change of the
    mean of slope . mu is positive, and the sign's pull has no part in it."""
    one = make_learner(
        **REUSE, dpg_share=1.0, trust_region=False, actor_steps=1, actor_lr=1e-4
    )
    new = updated(one, one.state, BATCH)
    inputs = BATCH.obs  # `observed` is empty before the first update: raw
    steep = slopes(
        new.slope, inputs, algorithm.mu(one.state, BATCH.obs, *one[1:3]), one.plan
    )
    before, after = (
        algorithm.mu(one.state._replace(actor=actor), BATCH.obs, *one[1:3])
        for actor in (one.state.actor, new.actor)
    )
    gain = jnp.sum(jnp.where(BATCH.mask[:, None], steep * (after - before), 0))
    assert float(gain) > 0


def test_without_a_share_there_is_no_slope_to_fit(make_learner):
    assert make_learner(**REUSE).state.slope == ()
    assert make_learner(**REUSE).state.past == ()
