"""Parts of an update of NFAC and PeNFAC against formulas by hand  (Sec. 5.2)."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.small_learners import NOW

import oracles
from penfac.algos import networks
from penfac.algos import penfac as algorithm
from penfac.core.returns import discounts, lambda_returns

# --- the actor's gradient -------------------------------------------------------------

FROZEN_CRITIC = {"critic_lr": 1e-30}  # steps of Adam too small for a value to see


def last_actor_gradient(state):
    """With b1 = 0 Adam's first moment is the gradient of its last step."""
    return state.actor_opt[0].mu


def gradient_by_hand(learner, state, batch, error):
    """sum_t error_t dmu(s_t)/dtheta by back-propagation in numpy, float64."""
    cfg = learner.cfg
    layers = [tuple(np.asarray(x, float) for x in pair) for pair in state.actor.layers]
    obs = np.asarray(batch.obs, float)
    out, seen = oracles.mlp(layers, obs, cfg.activation)
    gradient, _ = oracles.mlp_gradient(
        layers, seen, cfg.activation, error * (1 - np.tanh(out) ** 2)
    )
    return gradient


def advantages_under(critic, batch, learner):
    """Under a given critic, from the definition; 0 on padding."""
    slow = oracles.SlowLearner(learner.cfg, learner.state.actor.layers, critic)
    real = np.asarray(batch.mask)
    b = {k: np.asarray(getattr(batch, k))[real] for k in batch._fields}
    advantage = np.zeros(len(real))
    advantage[real], _ = slow.advantages(b, b["obs"], b["next_obs"])
    return advantage


@pytest.mark.parametrize("rule", ["cac", "cacla", "spg"])
def test_the_first_actor_gradient_is_the_formula_of_the_paper(
    rule, make_learner, batch, update
):
    """sum_t w_t (mu - a_t) dmu/dtheta: the penalty is 0 at mu = mu_old."""
    learner = make_learner(
        actor_update=rule, actor_steps=1, normalise_actor="none",
        normalise_critic="none", **FROZEN_CRITIC,
    )  # fmt: skip
    new, _ = update(learner.state, batch, learner.plan, learner.numbers)
    advantage = advantages_under(learner.state.critic, batch, learner)
    mu = np.asarray(
        algorithm.mu(learner.state, batch.obs, learner.plan, learner.numbers), float
    )
    weight = oracles.actor_weights(advantage, rule)[:, None]
    error = weight * (mu - np.asarray(batch.action)) * np.asarray(batch.mask)[:, None]
    by_hand = gradient_by_hand(learner, learner.state, batch, error)
    ours = last_actor_gradient(new)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
        ours.layers,
        by_hand,
    )
    for unused in (ours.scale, ours.shift):
        np.testing.assert_array_equal(unused, 0)


@pytest.mark.parametrize("penalty", [1.0, 2.0])
def test_the_second_actor_gradient_adds_the_pull_back_to_the_old_policy(
    penalty, make_learner, batch, update
):
    """sum_t [w_t (mu - a_t) + penalty beta (mu - mu_old)] dmu/dtheta, beta adapted."""
    settings = {
        "normalise_actor": "none",
        "normalise_critic": "none",
        "penalty": penalty,
        "beta_start": 8.0,
        **FROZEN_CRITIC,
    }
    one = make_learner(actor_steps=1, **settings)
    two = make_learner(actor_steps=2, **settings)
    between, _ = update(one.state, batch, one.plan, one.numbers)
    after, metrics = update(two.state, batch, two.plan, two.numbers)
    real = np.asarray(batch.mask)[:, None]
    mu_old, mu = (
        np.asarray(algorithm.mu(s, batch.obs, one.plan, one.numbers), float)
        for s in (one.state, between)
    )
    moved = oracles.distance_of(mu_old[real[:, 0]], mu[real[:, 0]], "rms")
    beta = oracles.adapted_beta(8.0, moved, two.cfg)
    assert metrics.beta == beta
    advantage = advantages_under(one.state.critic, batch, one)
    pull = oracles.actor_weights(advantage, "cac")[:, None]
    error = pull * (mu - np.asarray(batch.action)) + penalty * beta * (mu - mu_old)
    by_hand = gradient_by_hand(two, between, batch, error * real)
    without = gradient_by_hand(
        two, between, batch, pull * (mu - np.asarray(batch.action)) * real
    )
    ours = last_actor_gradient(after).layers
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3),
        ours,
        by_hand,
    )
    apart = [
        np.abs(b - c).max()
        for b, c in zip(*map(jax.tree.leaves, (by_hand, without)), strict=True)
    ]
    assert max(apart) > 0.1  # so the penalty is seen


def test_the_distance_is_exactly_0_before_the_first_step(make_learner, batch, update):
    """mu_old is the policy that enters: an actor that cannot move is at distance 0.

    Also in later updates, when the normaliser has moved on: mu and mu_old must see the
    same statistics.
    """
    learner = make_learner(actor_lr=1e-30, actor_steps=1)
    state = learner.state
    for _ in range(3):
        state, metrics = update(state, batch, learner.plan, learner.numbers)
        assert metrics.actor_steps == 1
        assert metrics.distance == 0


def test_under_batch_norm_the_distance_counts_the_move_of_its_statistics(
    make_learner, batch, update
):
    """The networks rest and mu moves all the same: mu_old keeps the old statistics."""
    learner = make_learner(normalise_actor="batch-norm", actor_lr=1e-30, actor_steps=1)
    state, _ = update(learner.state, batch, learner.plan, learner.numbers)
    moved = batch._replace(obs=2 * batch.obs + 1)
    after, metrics = update(state, moved, learner.plan, learner.numbers)
    real = np.asarray(batch.mask)
    mu_old, mu = (
        np.asarray(algorithm.mu(s, moved.obs, learner.plan, learner.numbers))[real]
        for s in (state, after)
    )
    expected = oracles.distance_of(mu_old, mu, "rms")
    assert expected > 1e-3
    np.testing.assert_allclose(metrics.distance, expected, rtol=1e-3)


def test_acting_under_batch_norm_does_not_see_the_rest_of_its_batch(
    make_learner, batch, update
):
    """mu(s) is a function of s: one row alone and among others, to rounding."""
    learner = make_learner(normalise_actor="batch-norm")
    state, _ = update(learner.state, batch, learner.plan, learner.numbers)
    together = algorithm.mu(state, batch.obs, learner.plan, learner.numbers)
    alone = [
        algorithm.mu(state, row, learner.plan, learner.numbers) for row in batch.obs[:5]
    ]
    np.testing.assert_allclose(together[:5], np.stack(alone), atol=1e-6)


def test_the_policy_moves_toward_the_good_actions(make_learner, batch, update):
    """One small step lowers sum_+ A |mu - a|^2: the signs of the update are right."""
    learner = make_learner(
        actor_steps=1, actor_lr=1e-4, normalise_actor="none",
        normalise_critic="none", **FROZEN_CRITIC,
    )  # fmt: skip
    new, _ = update(learner.state, batch, learner.plan, learner.numbers)
    advantage = advantages_under(learner.state.critic, batch, learner)
    weight = np.maximum(advantage, 0)[:, None]

    def apart(state):
        mu = algorithm.mu(state, batch.obs, learner.plan, learner.numbers)
        return np.sum(weight * (np.asarray(mu, float) - np.asarray(batch.action)) ** 2)

    assert apart(new) < apart(learner.state)


def test_a_heavier_penalty_keeps_the_policy_nearer(make_learner, batch, update):
    """The penalty pulls back: the distance falls as beta, held constant, grows."""
    distances = []
    for beta in (0.0, 1.0, 30.0):
        learner = make_learner(
            beta_start=beta, beta_min=beta, beta_max=beta, actor_steps=30
        )
        _, metrics = update(learner.state, batch, learner.plan, learner.numbers)
        distances.append(float(metrics.distance))
    assert distances[0] > distances[1] > distances[2]


# --- the critic -----------------------------------------------------------------------


def fit_by_loop(learner, batch, refresh):
    """Fitted value iteration as a Python loop over optax; targets fresh, or one set."""
    cfg, critic = learner.cfg, learner.state.critic
    adam = optax.adam(cfg.critic_lr, b1=cfg.adam_b1, b2=cfg.adam_b2)
    opt = adam.init(critic)
    discount = discounts(batch.terminated, batch.truncated, cfg.gamma)

    def value(critic, obs):
        return networks.value(critic, obs, learner.plan)

    @jax.jit
    def targets(critic):
        v, v_next = value(critic, batch.obs), value(critic, batch.next_obs)
        rest = (discount, batch.last, v, v_next, cfg.lam)
        return lambda_returns(batch.reward, *rest)

    @jax.jit
    def step(critic, opt, target):
        def loss(critic):
            error = (value(critic, batch.obs) - target) ** 2
            return 0.5 * jnp.mean(error, where=batch.mask)

        change, opt = adam.update(jax.grad(loss)(critic), opt)
        return optax.apply_updates(critic, change), opt

    target = targets(critic)
    for _ in range(cfg.fitted_iterations):
        if refresh:
            target = targets(critic)
        for _ in range(cfg.critic_steps):
            critic, opt = step(critic, opt, target)
    return critic


def test_targets_are_fresh_in_every_fitted_iteration(make_learner, batch, update):
    """The fit equals an explicit loop that recomputes G from V_k, and no other loop."""
    learner = make_learner(fitted_iterations=6, critic_steps=2, adam_b1=0.9)
    new, _ = update(learner.state, batch, learner.plan, learner.numbers)
    fresh = fit_by_loop(learner, batch, refresh=True)
    stale = fit_by_loop(learner, batch, refresh=False)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), new.critic, fresh
    )
    apart = [
        np.abs(a - b).max()
        for a, b in zip(*map(jax.tree.leaves, (new.critic, stale)), strict=True)
    ]
    assert max(apart) > 1e-3


def test_advantages_come_from_the_fitted_critic(make_learner, batch, update):
    """Their root mean square is that under the critic after its fit, not before."""
    learner = make_learner(normalise_critic="none", critic_lr=0.1, fitted_iterations=10)
    new, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    real = np.asarray(batch.mask)
    after, before = (
        np.sqrt(np.mean(advantages_under(c, batch, learner)[real] ** 2))
        for c in (new.critic, learner.state.critic)
    )
    np.testing.assert_allclose(metrics.advantage_rms, after, rtol=1e-4)
    assert abs(before - after) > 0.05 * after


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def test_the_actor_does_not_reach_the_critic(make_learner, batch, update):
    """Other actor weights, other actions: the same critic, bit for bit."""
    learner = make_learner()
    other = jax.tree.map(lambda x: x + 0.5, learner.state.actor)
    elsewhere = batch._replace(action=-batch.action)
    args = (learner.plan, learner.numbers)
    plain, _ = update(learner.state, batch, *args)
    spoiled, _ = update(learner.state._replace(actor=other), elsewhere, *args)
    assert bits((plain.critic, plain.critic_opt)) == bits(
        (spoiled.critic, spoiled.critic_opt)
    )
    assert bits(plain.actor) != bits(spoiled.actor)


def test_the_critic_reaches_the_actor_through_the_advantages_alone(
    make_learner, make_batch, update
):
    """Where no future counts, a shifted V with equally shifted rewards changes nothing.

    Episodes of one step that terminate have A = r - V(s). Lifting V and r by the same
    power of two keeps every advantage, so a critic of other weights must leave the
    actor as it was.
    """
    learner = make_learner(normalise_critic="none", **FROZEN_CRITIC)
    batch = make_batch(rows=[(1, "terminated", 0)] * 20 + [(1, "terminated", 27)])
    w, b = learner.state.critic[-1]
    lifted = [*learner.state.critic[:-1], (w, b + 4.0)]
    args = (learner.plan, learner.numbers)
    plain, seen = update(learner.state, batch, *args)
    state = learner.state._replace(critic=lifted)
    after, metrics = update(state, batch._replace(reward=batch.reward + 4.0), *args)
    np.testing.assert_allclose(metrics.advantage_rms, seen.advantage_rms, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4),
        after.actor,
        plain.actor,
    )
    assert bits(after.critic) != bits(plain.critic)


def test_a_fresh_actor_and_critic_share_nothing(make_learner):
    """Equal layer sizes, different numbers: two keys, no alias."""
    learner = make_learner(init="small", actor_hidden=(8, 8), critic_hidden=(8, 8))
    for (w, b), (v, c) in zip(
        learner.state.actor.layers[:-1], learner.state.critic[:-1], strict=True
    ):
        assert np.abs(w - v).max() > 0
        assert np.abs(b - c).max() > 0


# --- rest, stop, beta -----------------------------------------------------------------


@pytest.mark.parametrize("normalisation", ["running", "batch-norm"])
@pytest.mark.parametrize("nonpositive", ["ignore", "hold"])
def test_without_a_good_action_the_actor_rests(
    normalisation, nonpositive, make_learner, batch, update
):
    """No positive advantage: actor, its Adam and beta keep every bit; the rest moves."""
    learner = make_learner(
        normalise_actor=normalisation, nonpositive=nonpositive, adam_b1=0.9
    )
    state, _ = update(learner.state, batch, learner.plan, learner.numbers)
    hopeless = batch._replace(reward=batch.reward - 1e3)
    new, metrics = update(state, hopeless, learner.plan, learner.numbers)
    assert metrics.positive_fraction == 0
    assert metrics.actor_steps == 0
    kept = lambda s: (s.actor, s.actor_opt, s.beta)  # noqa: E731
    assert bits(kept(new)) == bits(kept(state))
    assert bits(new.critic) != bits(state.critic)
    assert bits(new.observed) != bits(state.observed)
    assert metrics.finite
    if normalisation == "batch-norm":
        assert new.batch_stats.weight > state.batch_stats.weight
    else:
        assert metrics.distance == 0


def test_spg_learns_from_bad_actions_too(make_learner, batch, update):
    """The same hopeless batch moves the actor when negative advantages count."""
    learner = make_learner(actor_update="spg")
    hopeless = batch._replace(reward=batch.reward - 1e3)
    new, metrics = update(learner.state, hopeless, learner.plan, learner.numbers)
    assert metrics.positive_fraction == 0
    assert metrics.actor_steps == learner.cfg.actor_steps
    assert bits(new.actor) != bits(learner.state.actor)


def test_without_a_trust_region_beta_is_always_0(make_learner, make_batch, update):
    """Whatever beta_start, beta_min and beta_max say, over several updates."""
    learner = make_learner(trust_region=False, beta_start=5.0, beta_min=1.0)
    state = learner.state
    assert state.beta == 0
    for seed in range(3):
        state, metrics = update(state, make_batch(seed), learner.plan, learner.numbers)
        assert metrics.beta == 0
        assert state.beta == 0
        assert metrics.distance > 0


@pytest.mark.parametrize("keep", [True, False])
def test_beta_is_kept_or_begins_anew(keep, make_learner, batch, update):
    """After an update that moved beta: the next begins with it, or with beta_start."""
    learner = make_learner(beta_keep=keep, actor_steps=10, actor_lr=1e-5)
    new, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.beta == 0.01  # too near nine times: halved down to the floor
    assert new.beta == (metrics.beta if keep else learner.cfg.beta_start)


def test_beta_rests_in_the_first_step(make_learner, batch, update):
    """Adapted before every step but the first: k steps change it k - 1 times."""
    for steps in (1, 2, 4):
        learner = make_learner(actor_steps=steps, actor_lr=1e-6, beta_min=0.0)
        _, metrics = update(learner.state, batch, learner.plan, learner.numbers)
        assert metrics.beta == 2.0 ** -(steps - 1)


def test_beta_grows_when_the_policy_runs_away(make_learner, batch, update):
    """Too far in every step: doubled up to its ceiling."""
    learner = make_learner(actor_steps=12, actor_lr=0.3, d_target=1e-4)
    _, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.beta == 20


def test_an_infinite_ceiling_of_beta_is_fine(make_learner, batch, update):
    """As printed: beta doubles without limit and nothing becomes NaN."""
    learner = make_learner(
        actor_steps=40, actor_lr=0.1, d_target=1e-6, beta_min=0.0, beta_max=np.inf
    )
    _, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.beta == 2.0**39
    assert metrics.finite


@pytest.mark.parametrize(("progress", "part"), [(0.0, 1.0), (0.25, 0.5), (0.5, 0.0)])
@pytest.mark.parametrize("key", ["d_target", "ratio_limit"])
def test_an_update_takes_the_values_of_its_part_of_the_run(
    key, progress, part, make_learner, batch, update
):
    """D35: the same update, to the bit, as with these values all along."""
    settings = {"actor_steps": 12, "d_target": 0.0625, "ratio_limit": 0.0625}
    between = 0.0625 + part * (0.25 - 0.0625)
    annealed = make_learner(**settings, **{f"{key}_start": 0.25})
    constant = make_learner(**(settings | {key: between}))
    now = NOW._replace(progress=jnp.float32(progress))
    ends = [
        update(learner.state, batch, learner.plan, learner.numbers, now=now)
        for learner in (annealed, constant)
    ]
    assert bits(ends[0]) == bits(ends[1])
    plain = make_learner(**settings)
    end = update(plain.state, batch, plain.plan, plain.numbers, now=now)
    assert (bits(end) == bits(ends[0])) == (part == 0)


def test_early_stop_stops_where_the_distance_is_on_target(make_learner, batch, update):
    """Fewer steps than allowed, the actor of just so many steps, the distance in band."""
    settings = {"actor_lr": 2e-3, "d_target": 0.06}
    stopping = make_learner(early_stop=True, actor_steps=50, **settings)
    stopped, metrics = update(stopping.state, batch, stopping.plan, stopping.numbers)
    k = int(metrics.actor_steps)
    assert 1 <= k < 50
    assert 0.06 / 1.5 <= metrics.distance <= 0.06 * 1.5
    plain = make_learner(early_stop=False, actor_steps=k, **settings)
    walked, end = update(plain.state, batch, plain.plan, plain.numbers)
    assert bits((stopped.actor, stopped.actor_opt)) == bits(
        (walked.actor, walked.actor_opt)
    )
    assert end.distance == metrics.distance
    one_less = make_learner(early_stop=False, actor_steps=k - 1, **settings)
    _, before = update(one_less.state, batch, one_less.plan, one_less.numbers)
    assert not 0.06 / 1.5 <= before.distance <= 0.06 * 1.5


def test_without_a_trust_region_nothing_stops_early(make_learner, batch, update):
    """d_target belongs to the trust region: no region, no target to stop at."""
    settings = {"trust_region": False, "actor_lr": 2e-3, "actor_steps": 50}
    ends = []
    for early_stop in (True, False):
        learner = make_learner(early_stop=early_stop, d_target=0.06, **settings)
        ends.append(update(learner.state, batch, learner.plan, learner.numbers))
    assert ends[0][1].actor_steps == 50
    assert bits(ends[0]) == bits(ends[1])


def test_hold_keeps_the_policy_where_actions_failed(make_learner, batch, update):
    """nonpositive = hold: states of failed actions move less than when ignored."""
    moved = {}
    for nonpositive in ("ignore", "hold"):
        learner = make_learner(
            actor_update="cacla", trust_region=False, nonpositive=nonpositive,
            actor_steps=30, normalise_actor="none", normalise_critic="none",
            **FROZEN_CRITIC,
        )  # fmt: skip
        new, _ = update(learner.state, batch, learner.plan, learner.numbers)
        old, now = (
            algorithm.mu(s, batch.obs, learner.plan, learner.numbers)
            for s in (learner.state, new)
        )
        advantage = advantages_under(learner.state.critic, batch, learner)
        failed = np.asarray(batch.mask) & (advantage <= 0)
        moved[nonpositive] = np.sqrt(np.mean(np.asarray(now - old)[failed] ** 2))
    assert moved["hold"] < 0.8 * moved["ignore"]


def test_the_statistics_used_are_those_before_the_batch(make_learner, batch, update):
    """The first update sees raw observations; the normaliser moves at its end.

    With nothing seen, `running` and `none` are the same networks and the same update.
    """
    running = make_learner(obs_clip=1e6)
    raw = make_learner(normalise_actor="none", normalise_critic="none")
    after, _ = update(running.state, batch, running.plan, running.numbers)
    same, _ = update(raw.state, batch, raw.plan, raw.numbers)
    assert bits((after.actor, after.critic)) == bits((same.actor, same.critic))
    assert after.observed.seen == np.sum(np.asarray(batch.mask))
    again, _ = update(after, batch, running.plan, running.numbers)
    other, _ = update(same, batch, raw.plan, raw.numbers)
    assert bits(again.critic) != bits(other.critic)


def test_the_initial_state_is_a_function_of_its_key(make_learner):
    """The same key, the same bits; another key, other networks."""
    first, again, other = make_learner(3), make_learner(3), make_learner(4)
    assert bits(first.state) == bits(again.state)
    assert bits(first.state.actor) != bits(other.state.actor)
