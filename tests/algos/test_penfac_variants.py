"""Every value of the config, every preset, every arm of the ablation."""

import dataclasses
import typing

import jax
import numpy as np
import pytest
from tests.small_learners import NOW
from tests.tiers import slow_except

from penfac.algos import ALGORITHMS
from penfac.algos import penfac as algorithm
from penfac.algos.networks import rule_of
from penfac.algos.numbers import numbers, plan
from penfac.engines.base import moment
from penfac.errors import ConfigError
from penfac.settings import presets
from penfac.settings.configs import check, from_values, to_values
from penfac.settings.declaration import declared, known_fields
from penfac.settings.horizon import usual_gamma
from penfac.settings.penfac import Config

WORDS = [
    (key, word)
    for key, kind in known_fields(Config).items()
    if typing.get_origin(kind) is typing.Literal
    for word in typing.get_args(kind)
]
RANGES = {k: s.within for k, s in declared(Config).items() if s.within is not None}
UPDATES = {}  # compiled, by the function they are
# the paper's tasks, by names that Gymnasium, PyBullet and Roboschool give them
ENV_IDS = (
    "Hopper-v5",
    "HalfCheetah-v5",
    "Humanoid-v5",
    "RoboschoolHalfCheetah-v2",
    "HopperBulletEnv-v0",
    "Half_Cheetah-v9",
    "Pendulum-v1",
    "RoboschoolHopper-v2",
)


@pytest.mark.parametrize(("key", "word"), WORDS)
def test_every_word_of_the_config_runs(key, word, make_learner, batch, update):
    """One finite update for each value of each choice."""
    learner = make_learner(**{key: word})
    check(learner.cfg)
    new, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.finite
    assert metrics.actor_steps > 0
    assert not np.array_equal(new.critic[0][0], learner.state.critic[0][0])


@pytest.mark.parametrize("key", ["trust_region", "beta_keep", "early_stop"])
@pytest.mark.parametrize("value", [True, False])
def test_every_switch_of_the_config_runs(key, value, make_learner, batch, update):
    learner = make_learner(**{key: value})
    _, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.finite


def range_ends():
    """(key, value) at the ends of each range that an update computes with.

    Not the high end of a step count (it would run for ever), nor what only collectors
    read.
    """
    collecting = ("episodes_per_update", "min_steps_per_update", "worlds", "sigma")
    for key, bound in RANGES.items():
        if key.endswith("_hidden") or key.startswith((*collecting, "steps_per_world")):
            continue
        if not bound.open_low:
            yield key, bound.low
        if bound.high < 1e3:
            yield key, bound.high


@pytest.mark.parametrize(("key", "end"), list(range_ends()))
def test_the_ends_of_every_range_run(key, end, make_learner, batch, update):
    """What `check` accepts gives finite updates, at the very edge too."""
    kind = known_fields(Config)[key]
    kind = next(iter(typing.get_args(kind)), kind)  # of X | None it is X
    learner = make_learner(**({"beta_min": 0.0} | {key: kind(end)}))
    check(learner.cfg)
    state = learner.state
    for _ in range(2):
        state, metrics = update(state, batch, learner.plan, learner.numbers)
        assert metrics.finite


def test_a_linear_policy_without_hidden_layers_runs(make_learner, batch, update):
    """actor_hidden = none: mu is linear in the observation."""
    learner = make_learner(actor_hidden=(), actor_output="linear")
    new, metrics = update(learner.state, batch, learner.plan, learner.numbers)
    assert metrics.finite
    ((w, b),) = new.actor.layers
    raw = new._replace(observed=learner.state.observed)
    obs = np.clip(np.asarray(batch.obs), -1, 1)
    mu = algorithm.mu(raw, jax.numpy.asarray(obs), learner.plan, learner.numbers)
    np.testing.assert_allclose(mu, obs @ np.asarray(w) + np.asarray(b), atol=1e-6)


# --- presets --------------------------------------------------------------------------


PRESETS = [
    (name, preset)
    for name, a in ALGORITHMS.items()
    for preset in presets.names(a.presets)
]


def settings_of(algo: str, preset: str, env_id: str) -> dict:
    a = ALGORITHMS[algo]
    return presets.preset(a.presets, preset, env_id) | dict(a.overrides)


def test_the_presets_are_those_of_the_documentation():
    """Every algorithm has `tuned`, first; the paper's are where it has a table."""
    found = {a.presets: presets.names(a.presets) for a in ALGORITHMS.values()}
    assert found == {
        "penfac": ("tuned", "authors", "paper"),
        "online": ("tuned",),
        "ddpg": ("tuned", "ddrl", "baselines"),
        "td3": ("tuned",),
        "offpenfac": ("tuned",),
        "sac": ("tuned", "sb3"),
        "ppo": ("tuned", "authors"),
    }


@pytest.mark.parametrize("env_id", ENV_IDS)
@pytest.mark.parametrize(("algo", "name"), PRESETS)
def test_every_preset_is_a_config_that_passes(algo, name, env_id):
    """Every preset, algorithm and task: typed, in range, and JSON gives it back."""
    a = ALGORITHMS[algo]
    cfg = from_values(a.config, settings_of(algo, name, env_id))
    check(cfg)
    assert from_values(a.config, to_values(cfg)) == cfg
    for key, value in a.overrides.items():
        assert getattr(cfg, key) == value
    if algo == "nfac":
        assert (cfg.actor_update, cfg.trust_region) == ("cacla", False)


def online_rows(batch):
    """What an online algorithm sees: one step of one world."""
    return jax.tree.map(lambda x: x[:1], batch)


@pytest.mark.parametrize(
    ("algo", "name"),
    slow_except(
        PRESETS, *((a, "tuned") for a in ("penfac", "cacla", "ddpg", "ppo", "dpg"))
    ),
)
def test_every_preset_learns_from_a_batch(algo, name, spec, batch):
    """Two finite updates of every preset, with small networks; they move the policy."""
    a = ALGORITHMS[algo]
    cfg = from_values(a.config, settings_of(algo, name, "Hopper-v5"))
    cfg = dataclasses.replace(cfg, actor_hidden=(8,), critic_hidden=(8,))
    if hasattr(cfg, "replay"):  # so that two small batches are enough to learn from
        cfg = dataclasses.replace(
            cfg, replay=1000, learning_starts=10, gradient_steps=4, batch_size=8
        )
    if a.presets == "online":
        batch = online_rows(batch)
    check(cfg)
    shape, values = a.plan(cfg, spec), a.numbers(cfg)
    program = UPDATES.setdefault(a.update, jax.jit(a.update, static_argnums=2))
    state = first = a.init(jax.random.key(0), shape, values)
    for k in range(2):
        now = moment(0, k, 0, np.float32(k / 2), np.float32(cfg.sigma))
        state, metrics = program(state, batch, shape, values, now)
        assert metrics.finite
    obs = batch.obs
    moved = a.mu(state, obs, shape, values) != a.mu(first, obs, shape, values)
    assert moved.any()


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_tuned_is_the_config_by_default(algo):
    """No setting, one meaning: but for a task's own block `tuned` adds nothing."""
    config = ALGORITHMS[algo].config
    values = presets.preset(ALGORITHMS[algo].presets, "tuned", "Pendulum-v1")
    assert from_values(config, values) == config()


# --- arms of a study ------------------------------------------------------------------

# the paper's ablation (Fig. 4): each arm leaves one thing out; the last leaves out two
ARMS = {
    "PeNFAC": {},
    "no trust region": {"trust_region": False},
    "no lambda-returns": {"lam": 0.0},
    "no fitted iteration": {"fitted_iterations": 1},
    "CACLA update": {"actor_update": "cacla"},
    "no batch norm": {"normalise_actor": "none"},
    "NFAC": {"actor_update": "cacla", "trust_region": False},
}
FULL = {"normalise_actor": "batch-norm", "normalise_critic": "none"}


def test_one_program_serves_every_arm_of_the_ablation(make_learner, batch):
    """The seven arms differ in numbers only: traced once, and each learns otherwise."""
    traces = []

    def counted(state, batch, plan, numbers):
        traces.append(plan)
        return algorithm.update(state, batch, plan, numbers, NOW)

    program = jax.jit(counted, static_argnums=2)
    full = make_learner(**FULL)
    results = {}
    for name, arm in ARMS.items():
        own = numbers(dataclasses.replace(full.cfg, **arm))
        state = full.state._replace(beta=own.beta_start)
        new, metrics = program(state, batch, full.plan, own)
        assert metrics.finite
        results[name] = np.concatenate(
            [np.ravel(x) for x in jax.tree.leaves(new.actor)]
        )
    assert len(traces) == 1
    names = list(results)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert not np.array_equal(results[a], results[b]), (a, b)


@pytest.mark.parametrize("normalisation", ["none", "running"])
def test_batch_norm_turned_off_in_the_numbers_is_a_program_without_it(
    normalisation, make_learner, make_batch, update
):
    """Plan with batch norm, numbers without: the plain learner, over two updates."""
    plain = make_learner(normalise_actor=normalisation, adam_b1=0.9)
    roomy = make_learner(normalise_actor="batch-norm").plan
    assert roomy == plain.plan._replace(batch_norm=True)
    one, other = plain.state, plain.state
    for seed in range(2):
        batch = make_batch(seed)
        one, expected = update(one, batch, plain.plan, plain.numbers)
        other, metrics = update(other, batch, roomy, plain.numbers)
        for a, b in ((one.actor, other.actor), (expected, metrics)):
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), a, b)
    np.testing.assert_array_equal(other.actor.scale, np.ones(3))
    np.testing.assert_array_equal(other.actor.shift, np.zeros(3))


def test_a_plan_is_hashable_and_says_what_shapes_the_program(make_learner):
    """Numbers do not enter it: configs that differ in them share a plan."""
    base = make_learner()
    for change in ({"lam": 0.5}, {"actor_lr": 1.0}, {"actor_update": "spg"}):
        assert make_learner(**change).plan == base.plan
    for change in ({"actor_hidden": (4,)}, {"activation": "tanh"}, FULL):
        other = make_learner(**change).plan
        assert other != base.plan
        assert hash(other) != hash(base.plan)


def test_numbers_hold_what_the_config_says(spec):
    """Words become numbers: each choice of D8, D11, D12 and D3 in its place."""
    cfg = Config(
        gamma=0.5, time_limit="terminal", nonpositive="hold", advantage_scale="rms",
        distance="printed", actor_update="spg", beta_start=3.0, beta_max=np.inf,
        trust_region=True, normalise_actor="none", normalise_critic="running",
    )  # fmt: skip
    n = numbers(cfg)
    assert n.gamma == 0.5
    assert n.time_limit._asdict() == {"bootstrap": False, "terminal": True}
    assert n.nonpositive.hold
    assert n.advantage_scale.rms
    assert n.distance._asdict() == {"rms": False, "printed": True, "sigma": False}
    assert tuple(map(float, rule_of(n.actor_update))) == (0, 1, 1)
    assert (n.beta_start, n.beta_max) == (3, np.inf)
    running, batch_norm = n.normalise_actor.running, n.normalise_actor.batch_norm
    assert not running
    assert not batch_norm
    assert n.normalise_critic.running
    assert plan(cfg, spec).batch_norm is False


def test_without_a_trust_region_beta_is_zero_and_nothing_stops_early():
    """The switch acts through the settings that it governs."""
    n = numbers(Config(trust_region=False, early_stop=True))
    assert (n.beta_start, n.beta_min, n.beta_max) == (0, 0, 0)
    assert not n.early_stop
    assert numbers(Config(early_stop=True)).early_stop


def test_none_is_the_number_it_means(spec):
    """No limit is infinite; no end of the noise is its start; no gamma is the task's."""
    n = numbers(Config(ratio_limit=None, sigma=0.5, sigma_end=None, gamma=None))
    assert (n.ratio_limit, n.sigma_end) == (np.inf, 0.5)
    assert n.gamma == np.float32(usual_gamma(None))
    quick = numbers(Config(gamma=None), spec._replace(time_step=0.001))
    assert quick.gamma == np.float32(usual_gamma(0.001))


# --- what cannot be meant -------------------------------------------------------------


def outside():
    """(key, value) just outside each range, and far outside it."""
    for key, bound in RANGES.items():
        if key.endswith("_hidden"):
            continue
        kind = int if known_fields(Config)[key] is int else float
        step = 1 if kind is int else 1e-3
        yield key, kind(bound.low if bound.open_low else bound.low - step)
        yield key, kind(-(10**9))
        if np.isfinite(bound.high):
            yield key, kind(bound.high + step)
        elif bound.open_high:
            yield key, float("inf")
    for key, kind in known_fields(Config).items():
        if kind is float or kind == float | None:
            yield key, float("nan")
            yield key, float("-inf")


@pytest.mark.parametrize(("key", "value"), list(outside()))
def test_a_value_out_of_range_is_refused_by_name(key, value):
    """The message names the key, the value and the rule."""
    with pytest.raises(ConfigError) as refused:
        check(Config(**{key: value}))
    message = str(refused.value)
    assert message.startswith(f"{key} = {value}: must be ")
    assert refused.value.exit_code == 2


def test_every_number_of_the_config_has_a_range():
    """A new number without a rule would let NaN through."""
    kinds = known_fields(Config)
    have_numbers = {
        k for k, kind in kinds.items() if kind in (int, float, float | None)
    }
    assert {k for k in RANGES if not k.endswith("_hidden")} == have_numbers


def test_beta_min_above_beta_max_is_refused():
    with pytest.raises(ConfigError, match=r"beta_min = 2\.0: .*beta_max = 1\.0"):
        check(Config(beta_min=2.0, beta_max=1.0))


def test_minibatches_that_do_not_divide_the_batch_are_refused():
    said = r"minibatches = 30: must divide worlds x steps_per_world = 2048"
    with pytest.raises(ConfigError, match=said):
        check(Config(minibatches=30))
    check(Config(minibatches=30, collect="episodes"))  # padded there


def test_truncated_noise_around_a_linear_output_is_refused():
    with pytest.raises(ConfigError, match=r"exploration = truncated: .*actor_output"):
        check(Config(exploration="truncated", actor_output="linear"))
    check(Config(exploration="truncated", actor_output="tanh"))


def test_an_infinite_floor_of_beta_is_refused():
    """Infinity times the distance 0 of the first step is no number."""
    with pytest.raises(ConfigError, match="beta_min = inf"):
        check(Config(beta_min=np.inf, beta_max=np.inf))


@pytest.mark.parametrize("key", ["actor_hidden", "critic_hidden"])
@pytest.mark.parametrize("size", [0, -1, 65537])
def test_a_layer_of_no_or_too_many_units_is_refused(key, size):
    with pytest.raises(ConfigError, match=rf"{key} = {size}"):
        check(Config(**{key: (64, size)}))
