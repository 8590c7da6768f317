"""A policy as ONNX: the same actions, checked before anyone gets the file."""

import hashlib
import json
import sys

import numpy as np
import pytest
from tests.export.some_policies import POLICIES, at_edges, make

from penfac.errors import ConfigError, CorruptFile
from penfac.export import check
from penfac.export.onnx import check_onnx, onnx_bytes, open_session
from penfac.policy import Policy, mean_action

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def run(policy: Policy, obs: np.ndarray) -> np.ndarray:
    return open_session(onnx_bytes(policy)).run(["action"], {"obs": obs})[0]


def moved(policy: Policy, by: float) -> Policy:
    """The policy with one bias changed."""
    *rest, (matrix, bias) = policy.weights.layers
    layers = [*rest, (matrix, bias + np.float32(by))]
    return Policy(policy.weights._replace(layers=layers), policy.actions, policy.about)


@pytest.mark.parametrize("kind", POLICIES)
def test_the_graph_is_the_policy(kind):
    policy = POLICIES[kind]
    found = check_onnx(onnx_bytes(policy), policy)
    assert found.worst <= 1e-5
    assert found.states == check.STATES
    assert found.settled >= 0.8 * found.states


@pytest.mark.parametrize("kind", [k for k, p in POLICIES.items() if p.weights.tiling])
def test_tiles_are_found_to_the_bit(kind):
    policy = POLICIES[kind]
    obs = at_edges(policy.weights.tiling)
    np.testing.assert_allclose(run(policy, obs), policy(obs), rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", POLICIES)
def test_any_batch_in_the_shape_and_dtype_of_the_space(kind):
    policy = POLICIES[kind]
    for count in (0, 1, 7):
        obs = np.ones((count, len(policy.weights.mean)), np.float32)
        action = run(policy, obs)
        assert action.shape == (count, *policy.actions.shape)
        assert action.dtype == policy.actions.low.dtype


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_gives_nan_in_its_own_row_alone(kind, value):
    policy = POLICIES[kind]
    obs = np.zeros((3, len(policy.weights.mean)), np.float32)
    obs[1, -1] = value
    action = run(policy, obs).reshape(3, -1)
    assert np.isnan(action[1]).all()
    np.testing.assert_allclose(action[0], policy(obs[0]).reshape(-1), rtol=0, atol=1e-5)
    assert action[2].tobytes() == action[0].tobytes()


def test_the_file_says_what_it_is():
    policy = POLICIES["float64"]
    model = onnx.load_model_from_string(onnx_bytes(policy))
    said = {p.key: p.value for p in model.metadata_props}
    assert said["environment"] == "Robot-v0"
    assert said["algorithm"] == "penfac"
    assert (said["seed"], said["step"], said["penfac"]) == ("3", "1000000", "0.1.0")
    assert said["observation_size"] == "5"
    assert json.loads(said["action_low"]) == policy.actions.low.tolist()
    assert json.loads(said["action_high"]) == policy.actions.high.tolist()
    assert said["policy_sha256"] == hashlib.sha256(policy.to_bytes()).hexdigest()
    assert [i.name for i in model.graph.input] == ["obs"]  # weights are not asked for


def test_the_same_policy_is_the_same_file():
    assert onnx_bytes(make()) == onnx_bytes(make())


@pytest.mark.parametrize("kind", POLICIES)
def test_another_policy_is_noticed(kind):
    policy = POLICIES[kind]
    with pytest.raises(CorruptFile, match=r"of the range at state \[") as refusal:
        check_onnx(onnx_bytes(moved(policy, 1e-3)), policy)
    assert "\n" not in str(refusal.value)


def test_a_policy_of_other_sizes_is_noticed():
    with pytest.raises(CorruptFile, match="returns float32"):
        check_onnx(onnx_bytes(POLICIES["as learned"]), POLICIES["float64"])


def test_an_export_that_acts_on_a_nan_is_noticed():
    policy = make()

    def deaf(obs):
        return policy(np.nan_to_num(obs, posinf=0, neginf=0))

    with pytest.raises(CorruptFile, match="must return NaN for a NaN"):
        check.compare(deaf, policy, "--onnx")


def test_an_export_that_leaves_the_bounds_is_noticed():
    policy = make(output="linear", sizes=(4, 1))
    above = float(policy.actions.high[0]) * (1 + 1e-6)

    def far(obs):
        broken = ~np.isfinite(obs).all(1)
        action = policy(np.nan_to_num(obs))
        action[action == policy.actions.high] = above
        action[broken] = np.nan
        return action

    with pytest.raises(CorruptFile, match="inf of the range"):
        check.compare(far, policy, "--onnx")


def knows_no(policy: Policy, at: np.ndarray):
    """An export that gives NaN at some states of the check, and is right elsewhere."""

    def act(obs):
        usable = np.isfinite(obs).all(1)
        action = np.full((len(obs), len(policy.actions.low)), np.nan, np.float32)
        unit = mean_action(policy.weights, obs[usable])
        action[usable] = policy.actions.to_env(unit)
        if len(obs) == len(at):
            action[at] = np.nan
        return action

    return act


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_nan_is_no_answer_but_where_float32_overflows():
    policy = POLICIES["relu"]
    obs = check.states(policy)
    far = check.may_overflow(policy, obs)
    assert far.any()
    assert np.abs(obs[far]).max(1).min() > 1e30
    assert not check.may_overflow(policy, np.full((1, 5), 1e6, np.float32)).any()
    check.compare(knows_no(policy, far), policy, "--onnx")
    one = np.zeros(len(obs), bool)
    one[np.argmin(far)] = True
    with pytest.raises(CorruptFile, match="nan of the range"):
        check.compare(knows_no(policy, one), policy, "--onnx")


def test_junk_is_refused():
    with pytest.raises(CorruptFile, match="onnxruntime refuses the file"):
        check_onnx(b"junk", make())


def test_states_reach_every_extreme():
    obs = check.states(make(sizes=(3, 2)))
    assert obs.shape == (check.STATES, 3)
    assert np.isfinite(obs).all()
    for end in check.EXTREMES:
        for sign in (1, -1):
            assert (obs == np.float32(sign * end)).all(1).any()
            alone = sign * end * np.eye(3, dtype=np.float32)[1]
            assert (obs == alone.astype(np.float32)).all(1).any()


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_without_the_extra_it_is_named(monkeypatch, name):
    data = onnx_bytes(make())
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r'pip install "penfac\[onnx\]"'):
        check_onnx(data, make()) if name == "onnxruntime" else onnx_bytes(make())


def test_an_action_of_half_precision_is_refused():
    with pytest.raises(ConfigError, match="float16"):
        onnx_bytes(make(dtype=np.float16))
