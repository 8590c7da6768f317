"""CACLA, CAC, SPG and DPG: one step each, written out  (Eq. 6, 7, 1, 3)."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tiers import slow_except

import oracles
from penfac.algos import online
from penfac.algos.numbers import Numbers, Plan
from penfac.core.features import tile_features
from penfac.core.normalise import running_init
from penfac.errors import ConfigError
from penfac.policy import mean_action, tile_indices
from penfac.settings.configs import check
from penfac.settings.online import Config
from penfac.types import Transitions

N, M = 3, 2
PARAMETERS = ("actor", "critic", "w")
SMALL = {
    "gamma": 0.9,
    "actor_lr": 0.05,
    "critic_lr": 0.07,
    "q_lr": 0.03,
    "optimiser": "sgd",
    "actor_hidden": (5,),
    "critic_hidden": (4,),
    "activation": "tanh",
    "init": "uniform",
    "normalise": "none",
}
LINEAR = {"actor_hidden": (), "critic_hidden": (), "actor_output": "linear"}
WEIGHTS = {
    "cacla": lambda delta: float(delta > 0),
    "cac": lambda delta: max(delta, 0.0),
    "spg": lambda delta: delta,
}
update = jax.jit(online.update, static_argnums=2)
mu = jax.jit(online.mu, static_argnums=2)


class Made(NamedTuple):
    cfg: Config
    plan: Plan
    numbers: Numbers
    state: online.State

    def step(self, batch, state=None):
        given = self.state if state is None else state
        return update(given, batch, self.plan, self.numbers)


@pytest.fixture
def make(spec):
    def build(seed=0, **settings) -> Made:
        cfg = Config(**(SMALL | settings))
        plan, numbers = online.CACLA.plan(cfg, spec), online.CACLA.numbers(cfg)
        made = online.init(jax.random.key(seed), plan, numbers)
        return Made(cfg, plan, numbers, made)

    return build


def one_step(reward, terminated=False, truncated=False, seed=0) -> Transitions:
    rng = np.random.default_rng(seed)
    f = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    flag = lambda x: jnp.full(1, x)  # noqa: E731
    return Transitions(
        mask=flag(True), obs=f(1, N), next_obs=f(1, N),
        action=jnp.asarray(rng.uniform(-1, 1, (1, M)), jnp.float32),
        reward=jnp.full(1, float(reward)), terminated=flag(terminated),
        truncated=flag(truncated), last=flag(True),
    )  # fmt: skip


def bits(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def close(a, b, **how):
    how = {"rtol": 1e-4, "atol": 1e-6} | how
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **how), a, b)


def doubles(layers):
    return [(np.asarray(w, float), np.asarray(b, float)) for w, b in layers]


def minus(layers, lr, gradient):
    """Plain gradient descent."""
    pairs = zip(layers, gradient, strict=True)
    return [(w - lr * dw, b - lr * db) for (w, b), (dw, db) in pairs]


def row(batch, field):
    return np.asarray(getattr(batch, field), float)


def discount_of(batch, cfg):
    ends = bool(batch.terminated[0]) or (
        bool(batch.truncated[0]) and cfg.time_limit == "terminal"
    )
    return 0.0 if ends else cfg.gamma


def by_v(made, batch):
    """One step of CACLA, CAC or SPG: (actor, critic, delta)."""
    cfg, act = made.cfg, made.cfg.activation
    actor, critic = doubles(made.state.actor), doubles(made.state.critic)
    s, s_next, a = (row(batch, k) for k in ("obs", "next_obs", "action"))
    (v, seen), (v_next, _) = (oracles.mlp(critic, x, act) for x in (s, s_next))
    delta = float(batch.reward[0]) + discount_of(batch, cfg) * v_next - v
    out, below = oracles.mlp(actor, s, act)
    squashed = cfg.actor_output == "tanh"
    mean, slope = (np.tanh(out), 1 - np.tanh(out) ** 2) if squashed else (out, 1.0)
    weight = WEIGHTS[cfg.actor_update](delta.item())
    # Eq. 6, 7, 1: theta moves by alpha w(delta) (a - mu(s)) grad mu(s)
    gradient, _ = oracles.mlp_gradient(actor, below, act, weight * (mean - a) * slope)
    fit, _ = oracles.mlp_gradient(critic, seen, act, -delta)
    moved = minus(actor, cfg.actor_lr, gradient), minus(critic, cfg.critic_lr, fit)
    return *moved, delta.item()


@pytest.mark.parametrize("shape", [LINEAR, {}], ids=["linear", "network"])
@pytest.mark.parametrize("rule", WEIGHTS)
def test_one_step_is_its_equation(rule, shape, make):
    """A better and a worse action, an end, a time limit: actor, critic and delta."""
    made = make(actor_update=rule, **shape)
    for batch in (
        one_step(3.0), one_step(-3.0), one_step(2.0, terminated=True),
        one_step(2.0, truncated=True),
    ):  # fmt: skip
        new, metrics = made.step(batch)
        actor, critic, delta = by_v(made, batch)
        close(doubles(new.actor), actor)
        close(doubles(new.critic), critic)
        np.testing.assert_allclose(metrics.td_error, delta, rtol=1e-5)
        np.testing.assert_allclose(metrics.value_loss, delta**2 / 2, rtol=1e-5)
        assert metrics.positive_fraction == (delta > 0)
        assert metrics.finite
    assert new.w == ()


def test_a_time_limit_can_be_an_end(make):
    """time_limit = terminal: V(s') does not count there."""
    made = make(actor_update="cac", time_limit="terminal")
    batch = one_step(2.0, truncated=True)
    new, metrics = made.step(batch)
    actor, critic, delta = by_v(made, batch)
    np.testing.assert_allclose(metrics.td_error, delta, rtol=1e-5)
    close((doubles(new.actor), doubles(new.critic)), (actor, critic))
    kept = make(actor_update="cac").step(batch)[1].td_error
    assert abs(kept - metrics.td_error) > 1e-3


@pytest.mark.parametrize("rule", ["cac", "spg", "dpg"])
def test_every_value_is_taken_before_it_moves(rule, make):
    """However large the critics' steps, the actor's is the same, bit for bit."""
    batch, ends = one_step(1.0), []
    for lr in (1e-3, 10.0):
        made = make(actor_update=rule, critic_lr=lr, q_lr=lr)
        state = with_w(made)
        ends.append(made.step(batch, state)[0])
    assert bits(ends[0].actor) == bits(ends[1].actor)
    assert bits(ends[0].critic) != bits(ends[1].critic)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("rule", ["cacla", "cac"])
def test_a_worse_action_leaves_the_actor_alone(rule, optimiser, make):
    """Bit for bit, after better ones too; the critic learns from it all the same."""
    made = make(actor_update=rule, optimiser=optimiser)
    state, _ = made.step(one_step(3.0))
    assert bits(state.actor) != bits(made.state.actor)
    new, metrics = made.step(one_step(-30.0, seed=1), state)
    assert metrics.positive_fraction == 0
    assert bits(new.actor) == bits(state.actor)
    assert bits(new.critic) != bits(state.critic)


def test_spg_goes_away_from_a_worse_action(make):
    """mu(s) moves away from a, and toward it where the action was better."""
    made = make(actor_update="spg")
    for reward, sign in ((3.0, -1), (-3.0, 1)):
        batch = one_step(reward)
        new, _ = made.step(batch)
        apart = [
            np.linalg.norm(np.asarray(mu(s, batch.obs, made.plan, made.numbers) - batch.action))
            for s in (made.state, new)
        ]  # fmt: skip
        assert np.sign(apart[1] - apart[0]) == sign


# --- DPG ------------------------------------------------------------------------------


def with_w(made, seed=5):
    """The state with compatible weights that are not 0."""
    rng = np.random.default_rng(seed)
    draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)  # noqa: E731
    return made.state._replace(w=jax.tree.map(draw, made.state.w))


def jacobian(actor, s, cfg):
    """mu(s) and d mu(s) / d theta as one [m, theta] matrix, row by row by hand."""
    out, seen = oracles.mlp(actor, s, cfg.activation)
    squashed = cfg.actor_output == "tanh"
    mean, slope = (
        (np.tanh(out), 1 - np.tanh(out) ** 2) if squashed else (out, 1 + 0 * out)
    )
    rows = []
    for j in range(M):
        g = np.zeros((1, M))
        g[0, j] = slope[0, j]
        gradient, _ = oracles.mlp_gradient(actor, seen, cfg.activation, g)
        rows.append(flat(gradient))
    return mean[0], np.array(rows)


def flat(layers):
    return np.concatenate([np.ravel(x) for pair in layers for x in pair])


@pytest.mark.parametrize("shape", [LINEAR, {}], ids=["linear", "network"])
def test_dpg_with_compatible_features_is_written_out(shape, make):
    """Q = (a - mu) . J w + V; w, v and theta move as COPDAC-Q has them (Eq. 3)."""
    made = make(actor_update="dpg", q="compatible", **shape)
    cfg, state, batch = made.cfg, with_w(made), one_step(1.5)
    new, metrics = made.step(batch, state)
    actor, critic, w = (doubles(x) for x in (state.actor, state.critic, state.w))
    s, s_next = row(batch, "obs"), row(batch, "next_obs")
    mean, jac = jacobian(actor, s, cfg)
    direction, apart = jac @ flat(w), row(batch, "action")[0] - mean
    (v, seen), (v_next, _) = (
        oracles.mlp(critic, x, cfg.activation) for x in (s, s_next)
    )
    delta = (1.5 + cfg.gamma * v_next - (apart @ direction + v)).item()
    np.testing.assert_allclose(metrics.td_error, delta, rtol=1e-4)
    close(flat(doubles(new.w)), flat(w) + cfg.q_lr * delta * (apart @ jac))
    close(flat(doubles(new.actor)), flat(actor) + cfg.actor_lr * (direction @ jac))
    fit, _ = oracles.mlp_gradient(critic, seen, cfg.activation, np.array([[-delta]]))
    close(doubles(new.critic), minus(critic, cfg.critic_lr, fit))


@pytest.mark.parametrize("shape", [LINEAR, {}], ids=["linear", "network"])
def test_spg_with_compatible_features_is_written_out(shape, make):
    """w and V move as DPG's; theta by (a - mu) . J w times (a - mu) J, whichever way."""
    made = make(actor_update="spg", spg_critic="compatible", **shape)
    cfg, state = made.cfg, with_w(made)
    actor, w = doubles(state.actor), doubles(state.w)
    for seed in range(4):
        batch = one_step(1.5, seed=seed)
        new, _ = made.step(batch, state)
        mean, jac = jacobian(actor, row(batch, "obs"), cfg)
        apart = row(batch, "action")[0] - mean
        said = apart @ jac @ flat(w)  # Q(s, a) - V(s)
        moved = flat(actor) + cfg.actor_lr * said * (apart @ jac)
        close(flat(doubles(new.actor)), moved)
        up_q = make(actor_update="dpg", **shape)
        beside, _ = up_q.step(batch, state)
        close((new.w, new.critic), (beside.w, beside.critic))


def test_dpg_starts_without_a_direction(make):
    """w = 0: the first step moves w and V, not the actor."""
    made = make(actor_update="dpg")
    new, _ = made.step(one_step(1.5))
    assert bits(new.actor) == bits(made.state.actor)
    assert np.abs(flat(doubles(new.w))).max() > 0


def test_dpg_with_a_network_is_written_out(make):
    """delta from Q(s', mu(s')); theta up grad_a Q(s, mu(s)) of the old Q."""
    made = make(actor_update="dpg", q="network")
    cfg, batch = made.cfg, one_step(1.5)
    new, metrics = made.step(batch)
    actor, critic = doubles(made.state.actor), doubles(made.state.critic)
    s, s_next, a = (row(batch, k) for k in ("obs", "next_obs", "action"))

    def q(s, a):
        return oracles.mlp(critic, np.concatenate([s, a], axis=1), cfg.activation)

    out, below = oracles.mlp(actor, s, cfg.activation)
    mean = np.tanh(out)
    ahead = np.tanh(oracles.mlp(actor, s_next, cfg.activation)[0])
    value, seen = q(s, a)
    delta = 1.5 + cfg.gamma * q(s_next, ahead)[0] - value
    np.testing.assert_allclose(metrics.td_error, delta.item(), rtol=1e-4)
    fit, _ = oracles.mlp_gradient(critic, seen, cfg.activation, -delta)
    close(doubles(new.critic), minus(critic, cfg.critic_lr, fit))
    _, slope = oracles.mlp_gradient(
        critic, q(s, mean)[1], cfg.activation, -np.ones((1, 1))
    )
    g = slope[:, N:] * (1 - mean**2)
    gradient, _ = oracles.mlp_gradient(actor, below, cfg.activation, g)
    close(doubles(new.actor), minus(actor, cfg.actor_lr, gradient))


# --- features, several worlds, many learners ------------------------------------------

TILES = LINEAR | {"features": "tiles", "tilings": 4, "tiles": 3, "tile_low": -3.0,
                  "tile_high": 3.0}  # fmt: skip


@pytest.mark.parametrize("memory", [4096, 50], ids=["apart", "hashed"])
def test_with_tiles_a_step_moves_the_tiles_that_are_on(memory, make):
    """From 0: V's are lr delta, the actor's lr delta a; each as often as it is on."""
    made = make(actor_update="cac", tile_memory=memory, **TILES)
    batch = one_step(2.0)
    assert not any(
        np.any(x) for x in jax.tree.leaves((made.state.actor, made.state.critic))
    )
    new, metrics = made.step(batch)
    np.testing.assert_allclose(metrics.td_error, 2.0)  # V is 0 everywhere
    tiling = made.plan.tiling
    on = np.bincount(
        tile_indices(np.asarray(batch.obs)[0], tiling), minlength=tiling.size
    )
    assert on.sum() == 4
    (w, b), (theta, shift) = new.critic[0], new.actor[0]
    close(w[:, 0], made.cfg.critic_lr * 2.0 * on)
    close(b, [made.cfg.critic_lr * 2.0])
    step = made.cfg.actor_lr * 2.0 * np.asarray(batch.action)[0]
    close(theta, on[:, None] * step)
    close(shift, step)


def test_with_tiles_v_is_learned_where_tiles_are_shared(make):
    """On the same state again the error is smaller; far away it is as it was."""
    made = make(actor_update="cac", **TILES)
    batch = one_step(2.0, terminated=True)
    state, first = made.step(batch)
    _, again = made.step(batch, state)
    bias, tiles = made.cfg.critic_lr * 2.0, 4 * made.cfg.critic_lr * 2.0
    np.testing.assert_allclose(again.td_error, first.td_error - bias - tiles, rtol=1e-5)
    far = batch._replace(obs=-10 * jnp.sign(batch.obs))
    _, there = made.step(far, state)
    np.testing.assert_allclose(there.td_error, first.td_error - bias, rtol=1e-5)


RULES = [
    {"actor_update": "cacla"},
    {"actor_update": "spg", "spg_critic": "compatible"},
    {"actor_update": "dpg"},
]


@pytest.mark.parametrize("optimiser", slow_except(["sgd", "adam"], "adam"))
@pytest.mark.parametrize("hidden", [(), (3,)], ids=["linear", "network"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["actor_update"])
def test_with_tiles_a_step_is_that_of_their_features_as_inputs(
    rule, hidden, optimiser, make, spec
):
    """phi(s) with a 1 where a tile is on (2 where hashing made two meet) as the input of
    a plain network: the same steps of actor, critic and w, with three worlds at once."""
    size = {"actor_hidden": hidden, "critic_hidden": hidden, "optimiser": optimiser}
    made = make(**(TILES | size | rule | {"tile_memory": 20}))
    tiling = made.plan.tiling
    plain_cfg = dataclasses.replace(made.cfg, features="observation")
    plain = online.CACLA.plan(plain_cfg, spec._replace(obs_dim=tiling.size))
    rng = np.random.default_rng(1)
    draw = lambda x: jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype)  # noqa: E731
    start = {k: jax.tree.map(draw, getattr(made.state, k)) for k in PARAMETERS}
    ours = made.state._replace(**start)
    observed = running_init(tiling.size)
    theirs = ours._replace(observed=observed)
    for turn in range(3):
        batch = jax.tree.map(
            lambda *rows: jnp.concatenate(rows),
            *(one_step(rng.normal(), seed=10 * turn + k) for k in range(3)),
        )
        seen = batch._replace(
            obs=tile_features(batch.obs, tiling),
            next_obs=tile_features(batch.next_obs, tiling),
        )
        ours, told = made.step(batch, ours)
        theirs, due = update(theirs, seen, plain, made.numbers)
        np.testing.assert_allclose(told.td_error, due.td_error, rtol=1e-4)
    for name in PARAMETERS:
        close(getattr(ours, name), getattr(theirs, name), rtol=2e-4, atol=2e-6)


def test_a_row_that_is_no_number_is_heard_of(make):
    """The guard looks at what a step changed."""
    made = make(actor_update="cac", **TILES)
    _, told = made.step(one_step(jnp.inf))
    assert not told.finite
    _, told = made.step(one_step(1.0))
    assert told.finite


def test_tiles_lie_over_the_box_that_is_given(make):
    made = make(**TILES, tile_box=(-1.0, 2.0, 0.0, 4.0, -7.0, 7.0))
    assert made.plan.tiling.low == (-1.0, 0.0, -7.0)
    assert made.plan.tiling.high == (2.0, 4.0, 7.0)
    with pytest.raises(ConfigError, match="3 components, so it must hold 6 numbers"):
        make(**TILES, tile_box=(-1.0, 2.0))


@pytest.mark.parametrize("box", [(1.0,), (1.0, 1.0), (0.0, float("inf"))])
def test_a_box_that_is_none_is_refused(box):
    with pytest.raises(ConfigError, match=r"must be (low,high|finite)"):
        check(Config(tile_box=box))


def test_with_tiles_the_deployed_policy_is_mu(make):
    """Numpy weights and their tiling answer as mu does."""
    made = make(actor_update="cac", **TILES)
    state = made.state
    for seed in range(4):
        state, _ = made.step(one_step(2.0, seed=seed), state)
    obs = np.random.default_rng(0).normal(size=(30, N)).astype(np.float32)
    weights = online.CACLA.policy(state, made.plan, made.numbers)
    ours = mu(state, jnp.asarray(obs), made.plan, made.numbers)
    assert np.abs(ours).max() > 0.01
    np.testing.assert_allclose(mean_action(weights, obs), ours, atol=1e-6)


@pytest.mark.parametrize("rule", ["cac", "dpg"])
def test_several_worlds_move_by_the_mean_of_their_steps(rule, make, batch):
    """The change is the mean of each world's alone; padding has none."""
    made = make(actor_update=rule)
    state = with_w(made)
    new, _ = made.step(batch, state)
    alone = [
        made.step(jax.tree.map(lambda x, i=i: x[i : i + 1], batch), state)[0]
        for i in np.flatnonzero(np.asarray(batch.mask))
    ]
    for name in ("actor", "critic", "w"):
        own = getattr(state, name)
        mean = jax.tree.map(
            lambda *x: np.mean(np.stack(x), axis=0), *(getattr(s, name) for s in alone)
        )
        close(getattr(new, name), mean, atol=1e-5)
        if name != "w" or rule == "dpg":
            assert bits(own) != bits(mean)


@pytest.mark.parametrize("rule", ["cac", "dpg"])
def test_what_lies_in_padding_changes_nothing(rule, make, batch):
    """Other finite numbers where the mask is False: the same learner, to rounding."""
    made = make(actor_update=rule)
    hidden = ~np.asarray(batch.mask)

    def spoiled(x):
        garbage = np.random.default_rng(0).normal(size=x.shape) * 3
        shape = (-1, *[1] * (x.ndim - 1))
        return jnp.asarray(np.where(hidden.reshape(shape), garbage, x), jnp.float32)

    dirty = batch._replace(**{
        k: spoiled(getattr(batch, k)) for k in ("obs", "next_obs", "action", "reward")
    })  # fmt: skip
    state = with_w(made)
    clean_end, dirty_end = (made.step(b, state) for b in (batch, dirty))
    close(clean_end, dirty_end, rtol=1e-5)


def test_the_normaliser_used_is_the_one_before_the_step(make, batch):
    """(s - mean) / std of what was seen till then, clipped; then it sees this step."""
    made = make(actor_update="spg", normalise="running", obs_clip=1.5)
    state, _ = made.step(batch)
    seen = np.asarray(batch.obs)[np.asarray(batch.mask)]
    assert state.observed.seen == len(seen)
    mean, variance = oracles.two_pass(seen)
    enter = lambda x: np.clip((x - mean) / np.sqrt(variance), -1.5, 1.5)  # noqa: E731
    step = one_step(1.0)
    plain = step._replace(**{
        k: jnp.asarray(enter(row(step, k)), jnp.float32) for k in ("obs", "next_obs")
    })  # fmt: skip
    raw = make(actor_update="spg", normalise="none")
    new, _ = made.step(step, state)
    same, _ = raw.step(
        plain, raw.state._replace(actor=state.actor, critic=state.critic)
    )
    close((new.actor, new.critic), (same.actor, same.critic))
    assert new.observed.seen == len(seen) + 1


def test_adam_moves_like_adam(make):
    """Three steps of CAC: Kingma and Ba on the gradients of Eq. 7."""
    made = make(actor_update="spg", optimiser="adam", adam_b1=0.5)
    cfg = made.cfg
    flats = {k: [np.asarray(x, float) for x in jax.tree.leaves(getattr(made.state, k))]
             for k in ("actor", "critic")}  # fmt: skip
    adams = {
        k: oracles.Adam(lr, 0.5, cfg.adam_b2, flats[k])
        for k, lr in (("actor", cfg.actor_lr), ("critic", cfg.critic_lr))
    }
    state = made.state
    for seed in range(3):
        batch = one_step(1.0, seed=seed)
        actor, critic, _ = by_v(made._replace(state=state), batch)
        for name, moved, lr in (
            ("actor", actor, cfg.actor_lr), ("critic", critic, cfg.critic_lr),
        ):  # fmt: skip
            own = [np.asarray(x, float) for x in jax.tree.leaves(getattr(state, name))]
            there = jax.tree.leaves(moved)
            gradient = [(a - b) / lr for a, b in zip(own, there, strict=True)]
            flats[name] = adams[name].step(flats[name], gradient)
        state, _ = made.step(batch, state)
        for name in ("actor", "critic"):
            close(jax.tree.leaves(getattr(state, name)), flats[name], rtol=1e-3)


@pytest.mark.parametrize("rule", ["cacla", "dpg"])
def test_thousands_of_learners_learn_as_one_does(rule, make):
    """2000 states side by side, each with its own step: equal to single ones."""
    made, count = make(actor_update=rule, **LINEAR), 2000
    keys = jax.random.split(jax.random.key(1), count)
    start = lambda k: online.init(k, made.plan, made.numbers)  # noqa: E731
    states = jax.jit(jax.vmap(start))(keys)
    draw = lambda i, *shape: jax.random.normal(jax.random.key(i), (count, 1, *shape))  # noqa: E731
    flag = jnp.zeros((count, 1), bool)
    batches = Transitions(
        ~flag, draw(2, N), draw(3, N), draw(4, M), draw(5), flag, flag, ~flag
    )
    many = jax.jit(jax.vmap(lambda s, b: online.update(s, b, made.plan, made.numbers)))
    new, metrics = many(states, batches)
    assert np.all(np.asarray(metrics.finite))
    for i in range(0, count, 100):
        pick = lambda t, i=i: jax.tree.map(lambda x: x[i], t)  # noqa: E731
        single, _ = made.step(pick(batches), pick(states))
        close(pick(new), single)


def test_the_initial_state_is_a_function_of_its_key(make):
    """The same key, the same bits; another key, other networks; the updates have none."""
    first, again, other = make(3), make(3), make(4)
    assert bits(first.state) == bits(again.state)
    assert bits(first.state.actor) != bits(other.state.actor)
    batch = one_step(1.0)
    assert bits(first.step(batch)) == bits(again.step(batch))
