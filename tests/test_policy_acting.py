"""A deployed policy is the one that was trained, and can be trusted with a robot."""

import shutil
import subprocess
import sys
import time
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac import policy as module
from penfac.algos import ALGORITHMS
from penfac.policy import ActionScale, Policy, mean_action
from penfac.types import EnvSpec

N, M = 5, 3
SPEC = EnvSpec("test/Acting-v0", N, -np.ones(M), np.ones(M), horizon=10)
KINDS = {
    "penfac, tanh": ("penfac", {"actor_output": "tanh"}),
    "penfac, linear": ("penfac", {"actor_output": "linear"}),
    "cacla, tiles": (
        "cacla",
        {"features": "tiles", "normalise": "none", "actor_hidden": ()},
    ),
    "cacla, few tiles": (
        "cacla",
        {
            "features": "tiles", "normalise": "none", "actor_hidden": (8,),
            "tile_memory": 300,
        },
    ),
}  # fmt: skip
ENDS = (0.0, 1e-40, 1e-3, 1.0, 10.0, 1e6, float(np.finfo(np.float32).max))


def states(count: int) -> np.ndarray:
    """From near to far, every tenth of extremes beside each other."""
    rng = np.random.default_rng(1)
    obs = 10.0 ** rng.uniform(-3, 3, (count, 1)) * rng.normal(size=(count, N))
    obs[::10] = rng.choice([*ENDS, *(-x for x in ENDS)], obs[::10].shape)
    return obs.astype(np.float32)


def trained(kind: str):
    """mu of a learner whose every number is drawn, and its policy."""
    name, settings = KINDS[kind]
    algo = ALGORITHMS[name]
    cfg = algo.config(**settings)
    plan, numbers = algo.plan(cfg, SPEC), algo.numbers(cfg)
    state = algo.init(jax.random.key(0), plan, numbers)
    rng = np.random.default_rng(0)
    draw = lambda x: (0.1 * rng.normal(size=x.shape)).astype(np.float32)  # noqa: E731
    observed = state.observed._replace(
        **{
            key: np.abs(rng.normal(size=np.shape(value))).astype(np.float32) + 1
            for key, value in state.observed._asdict().items()
        }
    )
    layers = jax.tree.map(draw, getattr(state.actor, "layers", state.actor))
    whole = hasattr(state.actor, "layers")  # beside scale and shift of batch norm
    actor = state.actor._replace(layers=layers) if whole else layers
    state = state._replace(actor=actor, observed=observed)
    state = jax.tree.map(jnp.asarray, state)
    actions = ActionScale(-np.ones(M, np.float32), np.ones(M, np.float32), (M,))
    mu = jax.jit(lambda obs: algo.mu(state, obs, plan, numbers))
    return mu, Policy(algo.policy(state, plan, numbers), actions, {})


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", KINDS)
def test_it_acts_as_training_did(kind):
    """On 10^5 states, extremes included: to 1e-6."""
    mu, policy = trained(kind)
    obs = states(100_000)
    due = np.clip(np.asarray(mu(obs)), -1, 1)
    assert len(np.unique(due[:3000], axis=0)) > 500  # it is no constant
    np.testing.assert_allclose(policy(obs), due, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_always_inside_the_bounds_and_always_the_same(kind):
    _, policy = trained(kind)
    low, high = np.array([-0.1, -3, 1 / 3], "f"), np.array([0.7, -1, 9], "f")
    policy = Policy(policy.weights, ActionScale(low, high, (M,)), {})
    obs = states(100_000)
    actions = policy(obs)
    assert np.all((low <= actions) & (actions <= high))
    assert policy(obs).tobytes() == actions.tobytes()
    for k in range(200):
        alone = policy(obs[k])
        assert policy(obs[k]).tobytes() == alone.tobytes()
        np.testing.assert_allclose(alone, actions[k], rtol=0, atol=1e-6 * 9)


def network(sizes=(26, 64, 64, 6), clip=5.0) -> Policy:
    rng = np.random.default_rng(0)
    n, m = sizes[0], sizes[-1]
    layers = [
        ((0.1 * rng.normal(size=s)).astype(np.float32), np.zeros(s[1], np.float32))
        for s in pairwise(sizes)
    ]
    one, zero = np.ones(n, np.float32), np.zeros(n, np.float32)
    weights = module.PolicyWeights(
        zero, one, clip, one, zero, layers, "leaky_relu", "tanh"
    )
    ends = -np.ones(m, np.float32), np.ones(m, np.float32)
    return Policy(weights, ActionScale(*ends, (m,)), {})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["penfac, tanh", "cacla, tiles"])
def test_what_is_no_number_has_no_action(kind, value):
    """One state or a row of many: a controller must not send a NaN to a motor."""
    _, policy = trained(kind)
    for shape in ((N,), (7, N)):
        obs = np.zeros(shape, np.float32)
        policy(obs)
        obs[..., -1] = value
        with pytest.raises(ValueError, match="NaN or an infinity"):
            policy(obs)
    with pytest.raises(ValueError, match="NaN or an infinity"):
        policy([float(value), *[0.0] * (N - 1)])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_number_beyond_float32_is_refused():
    with pytest.raises(ValueError, match="NaN or an infinity"):
        network()(np.full(26, 1e300))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_huge_states_have_an_action_or_are_refused():
    """Where the input is clipped they act; where sums overflow there is no action."""
    huge = np.full(26, 3e38, np.float32)
    huge[::2] *= -1
    assert np.isfinite(network()(huge)).all()
    wide = network(clip=np.inf)
    with pytest.raises(ValueError, match="too large"):
        wide(huge)


def test_training_acts_without_the_check():
    """mean_action is what collectors call: what comes in decides, nothing is raised."""
    weights = network().weights
    assert np.isnan(mean_action(weights, np.full(26, np.nan, np.float32))).all()


def test_an_empty_batch_has_no_actions():
    assert network()(np.zeros((0, 26))).shape == (0, 6)


def test_one_action_takes_microseconds():
    """Thirty on an idle machine; here only that nothing slow was added."""
    policy, obs, best = network(), np.ones(26, np.float32), np.inf
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(100):
            policy(obs)
        best = min(best, (time.perf_counter() - began) / 100)
    assert best < 150e-6


ALONE = """
import sys

class Only:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("penfac", "jax", "jaxlib", "gymnasium", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Only())
from policy import Policy
action = Policy.load("policy.safetensors")([0.1] * 26)
print(action.tobytes().hex())
"""


def test_the_file_alone_is_enough_beside_a_robots_program(tmp_path):
    """policy.py and policy.safetensors, copied: numpy and safetensors, nothing of ours."""
    policy = network()
    shutil.copy(str(module.__file__), tmp_path / "policy.py")
    (tmp_path / "policy.safetensors").write_bytes(policy.to_bytes())
    (tmp_path / "robot.py").write_text(ALONE)
    done = subprocess.run(
        [sys.executable, "robot.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == policy([0.1] * 26).tobytes().hex()


def test_penfac_policy_imports_neither_jax_nor_gymnasium(tmp_path):
    (tmp_path / "policy.safetensors").write_bytes(network().to_bytes())
    script = (
        "import sys, penfac\n"
        "penfac.Policy.load(sys.argv[1])([0.1] * 26)\n"
        "heavy = {'jax', 'jaxlib', 'gymnasium', 'optax', 'scipy', 'onnx', 'typer'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_predict_is_the_same_action_in_the_words_of_others():
    policy = trained("penfac, tanh")[-1]
    obs = states(3)
    action, memory = policy.predict(obs, None, None, deterministic=True)
    np.testing.assert_array_equal(action, policy(obs))
    assert memory is None
    with pytest.raises(ValueError, match="a policy has no noise"):
        policy.predict(obs, deterministic=False)
