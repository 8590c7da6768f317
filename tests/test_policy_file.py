"""A policy file: read back to the bit, refused when in doubt, never outside its bounds."""

import json
import os
import pickle
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from penfac import policy as module
from penfac.policy import ActionScale, Policy, PolicyFileError, PolicyWeights

ABOUT = {"environment": "Robot-v0", "seed": 3, "step": 10**10}


def make(
    seed: int = 0,
    sizes: tuple[int, ...] = (3, 5, 2),
    scale: float = 1.0,
    output: str = "tanh",
    activation: str = "leaky_relu",
    clip: float = 5.0,
) -> Policy:
    rng = np.random.default_rng(seed)
    n, m = sizes[0], sizes[-1]

    def draw(*shape):
        return (scale * rng.normal(size=shape)).astype(np.float32)

    layers = [(draw(i, o), draw(o)) for i, o in pairwise(sizes)]
    std = np.abs(draw(n)) + np.float32(0.1)
    weights = PolicyWeights(
        draw(n), std, clip, draw(n), draw(n), layers, activation, output
    )
    low, high = np.full(m, -1.5, np.float32), np.full(m, 0.5, np.float32)
    return Policy(weights, ActionScale(low, high, (m,)), ABOUT)


# --- there and back -----------------------------------------------------------------------


@pytest.mark.parametrize("clip", [5.0, np.inf])
@pytest.mark.parametrize("output", ["tanh", "linear"])
@pytest.mark.parametrize("activation", ["leaky_relu", "relu", "tanh"])
def test_what_is_read_acts_as_what_was_written(tmp_path, activation, output, clip):
    policy = make(activation=activation, output=output, clip=clip)
    (tmp_path / "policy").mkdir()
    file = tmp_path / "policy" / "policy.safetensors"
    file.write_bytes(policy.to_bytes())
    obs = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32)
    for place in (file, str(file), file.parent, tmp_path):
        again = Policy.load(place)
        assert again(obs).tobytes() == policy(obs).tobytes()
        assert again.about == ABOUT
        assert again.to_bytes() == policy.to_bytes()


def test_the_same_policy_is_the_same_file():
    assert len({make().to_bytes() for _ in range(20)}) == 1


def test_a_linear_policy_of_one_layer(tmp_path):
    policy = make(sizes=(4, 1), output="linear")
    (tmp_path / "policy.safetensors").write_bytes(policy.to_bytes())
    obs = np.ones(4)
    assert Policy.load(tmp_path)(obs).tobytes() == policy(obs).tobytes()


def test_one_observation_or_many():
    policy = make()
    obs = np.random.default_rng(2).normal(size=(7, 3)).astype(np.float32)
    assert policy(obs).shape == (7, 2)
    assert policy(obs[0]).shape == (2,)
    np.testing.assert_allclose(policy(obs)[0], policy(obs[0]), rtol=1e-5, atol=1e-6)
    assert policy(list(map(float, obs[0]))).shape == (2,)
    with pytest.raises(ValueError, match="must hold 3 numbers"):
        policy(np.zeros((7, 4)))


def test_actions_have_the_shape_of_the_space():
    flat = make(sizes=(3, 6))
    low, high = np.full(6, -1, np.float64), np.full(6, 2, np.float64)
    policy = Policy(flat.weights, ActionScale(low, high, (2, 3)), {})
    assert policy(np.zeros(3)).shape == (2, 3)
    assert policy(np.zeros((5, 3))).shape == (5, 2, 3)
    assert policy(np.zeros(3)).dtype == np.float64
    assert Policy(flat.weights, policy.actions, {}).description()["action_shape"] == [
        2,
        3,
    ]


# --- files that must not be used ------------------------------------------------------------


def read(tmp_path: Path, data: bytes) -> Policy:
    file = tmp_path / "policy.safetensors"
    file.write_bytes(data)
    return Policy.load(file)


def forged(change) -> bytes:
    """A policy file with something changed, signed as if it were ours."""
    policy = make()
    tensors, about = load(policy.to_bytes()), policy.description()
    change(tensors, about)
    text = json.dumps(about, sort_keys=True)
    signed = {"policy": text, "sha256": module._digest(tensors, text)}
    return save(tensors, metadata={"penfac": json.dumps(signed)})


def test_a_file_in_which_nothing_is_forged_is_read(tmp_path):
    """So that the files below are refused for what was changed, not for how."""
    read_back = read(tmp_path, forged(lambda tensors, about: None))
    assert read_back.to_bytes() == make().to_bytes()


TILES = {"low": [-1] * 3, "high": [1] * 3, "tilings": 8, "tiles": 8, "memory": 8}
MADE_UP = (
    ("action_shape", [10**15]),
    ("action_shape", [-1, -2]),
    ("action_shape", [2.0]),
    ("action_shape", [True, 2]),
    ("action_shape", "2"),
    ("action_shape", None),
    ("layers", 10**15),
    ("layers", True),
    ("layers", 1.5),
    ("spread", 10**15),
    ("spread", -1),
    ("format", True),
    ("format", -1),
    ("format", 10**400),
    ("clip", 10**400),
    ("clip", -1),
    ("clip", float("nan")),
    ("about", None),
    ("about", [1]),
    ("tiling", TILES | {"tilings": 2**31}),
    ("tiling", TILES | {"tiles": 10**4000}),
    ("tiling", TILES | {"memory": 10**15}),
    ("tiling", TILES | {"low": ["x"] * 3}),
    ("tiling", TILES | {"low": [10**400] * 3}),
    ("tiling", TILES | {"tiles": None}),
    ("tiling", 7),
)
FORGERIES = {
    "a NaN": (lambda t, d: t["layers.0.w"].__setitem__((0, 0), np.nan), "non-finite"),
    "an infinity": (lambda t, d: t["std"].__setitem__(0, np.inf), "non-finite"),
    "a newer format": (lambda t, d: d.update(format=3), "format 3"),
    "no format": (lambda t, d: d.pop("format"), "lacks 'format'"),
    "a format that is no number": (
        lambda t, d: d.update(format="1"),
        "not a penfac policy",
    ),
    "an unknown activation": (lambda t, d: d.update(activation="exec"), "activation"),
    "an unknown output": (lambda t, d: d.update(output="softmax"), "output"),
    "no bias": (lambda t, d: t.pop("layers.1.b"), "lacks 'layers.1.b'"),
    "no bounds": (lambda t, d: t.pop("low"), "lacks 'low'"),
    "another width": (lambda t, d: t.update({"layers.0.b": np.zeros(4, "f")}), "fit"),
    "another mean": (lambda t, d: t.update(mean=np.zeros(2, "f")), "fit"),
    "a square mean": (lambda t, d: t.update(mean=np.zeros((3, 3), "f")), "fit"),
    "another scale": (lambda t, d: t.update(scale=np.zeros(9, "f")), "fit"),
    "other bounds": (lambda t, d: t.update(low=np.zeros(3, "f")), "fit"),
    "another shape": (lambda t, d: d.update(action_shape=[5]), "fit"),
    "no layers": (lambda t, d: d.update(layers=0), "fit"),
    "layers of words": (lambda t, d: d.update(layers="two"), "not a penfac policy"),
    **{
        f"{key} made up, {n}": (
            lambda t, d, key=key, value=value: d.update({key: value}),
            "not a penfac policy|do not match|does not fit",
        )
        for n, (key, value) in enumerate(MADE_UP)
    },
    "squares": (
        lambda t, d: t.update({k: np.zeros((3, 3), "f") for k in module.INPUTS}),
        "do not match",
    ),
    "a clip of words": (lambda t, d: d.update(clip="far"), "not a penfac policy"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_file_that_does_not_fit_is_refused(tmp_path, what):
    change, words = FORGERIES[what]
    with pytest.raises(PolicyFileError, match=words) as refusal:
        read(tmp_path, forged(change))
    assert "policy.safetensors" in str(refusal.value)


JUNK = {
    "nothing": b"",
    "garbage": b"\x93NUMPY" + bytes(range(256)),
    "a pickle": pickle.dumps(ABOUT),
    "a header too long": struct.pack("<Q", 2**40) + b"{}",
    "no metadata": save({"mean": np.zeros(3, np.float32)}),
    "metadata of others": save({"x": np.zeros(3)}, metadata={"format": "pt"}),
    "no JSON": save({"x": np.zeros(3)}, metadata={"penfac": "{"}),
    "nested too deep": save({"x": np.zeros(3)}, metadata={"penfac": "[" * 100_000}),
    "no object": save({"x": np.zeros(3)}, metadata={"penfac": "7"}),
}


@pytest.mark.parametrize("what", JUNK)
def test_a_file_of_others_is_refused(tmp_path, what):
    with pytest.raises(PolicyFileError):
        read(tmp_path, JUNK[what])


def test_truncated_at_every_percent(tmp_path):
    data = make().to_bytes()
    for percent in range(100):
        with pytest.raises(PolicyFileError):
            read(tmp_path, data[: len(data) * percent // 100])


@settings(max_examples=300)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(tmp_path_factory, place, bit):
    data = bytearray(make().to_bytes())
    header = 8 + struct.unpack("<Q", data[:8])[0]
    where = int(place * len(data))
    flipped = bytearray(data)
    flipped[where] ^= 1 << bit
    folder = tmp_path_factory.getbasetemp()
    try:
        read(folder, flipped)
    except PolicyFileError:
        return
    # the padding of the header means nothing; all else must be noticed
    assert bytes(flipped[8:header]).strip() == bytes(data[8:header]).strip()
    assert where < header


def test_missing_files_are_named(tmp_path):
    with pytest.raises(PolicyFileError, match=r"has no policy\.safetensors"):
        Policy.load(tmp_path)
    with pytest.raises(PolicyFileError, match="nowhere"):
        Policy.load(tmp_path / "nowhere")


# --- bounds -----------------------------------------------------------------------------------


@st.composite
def boxes(draw):
    """Box spaces as robots have them, and some as nobody has."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = 32 if dtype == np.float32 else 64
    m = draw(st.integers(1, 4))
    far = 2.0**100
    numbers = st.floats(-far, far, width=width, allow_subnormal=False)
    ends = hnp.arrays(dtype, (2, m), elements=numbers)
    low, high = np.sort(draw(ends), axis=0)
    high = np.where(low == high, np.nextafter(low, dtype(np.inf)), high)
    return spaces.Box(low, high, dtype=dtype)


@settings(max_examples=500)
@given(
    space=boxes(),
    seed=st.integers(0, 2**32 - 1),
    power=st.floats(-3, 6),
    far=st.floats(-3, 6),
    output=st.sampled_from(["tanh", "linear"]),
    activation=st.sampled_from(["leaky_relu", "relu", "tanh"]),
    clip=st.sampled_from([5.0, np.inf]),
)
def test_actions_never_leave_the_space(
    space, seed, power, far, output, activation, clip
):
    m = space.shape[0]
    size = (3, 8, 8, m)
    weights = make(seed, size, 10.0**power, output, activation, clip).weights
    policy = Policy(weights, ActionScale(space.low, space.high, space.shape), {})
    rng = np.random.default_rng(seed)
    obs = (10.0**far * rng.normal(size=(200, 3))).astype(np.float32)
    actions = policy(obs)  # in all examples together, a hundred thousand of them
    assert actions.dtype == space.dtype
    assert np.all((space.low <= actions) & (actions <= space.high))
    assert space.contains(actions[0])


@settings(max_examples=300)
@given(space=boxes(), a=st.floats(-2, 2, width=32))
def test_the_ends_are_exact(space, a):
    scale = ActionScale(space.low, space.high, space.shape)
    m = space.shape[0]
    for unit, end in ((-1, space.low), (1, space.high)):
        assert scale.to_env(np.full(m, unit, np.float32)).tobytes() == end.tobytes()
        assert scale.to_env(np.full(m, 7.0 * unit)).tobytes() == end.tobytes()
    assert space.contains(scale.to_env(np.full(m, a, np.float32)))


def test_bounds_survive_the_file_to_the_bit(tmp_path):
    weights = make().weights
    for dtype in (np.float32, np.float64):
        low, high = np.array([-0.1, 1 / 3], dtype), np.array([0.7, 2 / 3], dtype)
        policy = Policy(weights, ActionScale(low, high, (2,)), {})
        again = read(tmp_path, policy.to_bytes()).actions
        assert again.low.dtype == dtype
        assert again.low.tobytes() == low.tobytes()
        assert again.high.tobytes() == high.tobytes()


# --- what it needs -----------------------------------------------------------------------------


def test_a_policy_needs_neither_jax_nor_gymnasium(tmp_path):
    (tmp_path / "policy.safetensors").write_bytes(make().to_bytes())
    script = (
        "import sys\n"
        "from penfac.policy import Policy\n"
        "action = Policy.load(sys.argv[1])([0.1, 0.2, 0.3])\n"
        "heavy = {'jax', 'jaxlib', 'gymnasium', 'optax', 'scipy', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)), action.shape)\n"
    )
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert done.stdout == "[] (2,)\n"


def test_a_run_of_several_seeds_names_them(tmp_path):
    for seed in (0, 3):
        folder = tmp_path / f"seed-{seed}" / "policy"
        folder.mkdir(parents=True)
        (folder / "policy.safetensors").write_bytes(make().to_bytes())
    with pytest.raises(PolicyFileError, match="has seed-0, seed-3: give one of these"):
        Policy.load(tmp_path)
    Policy.load(tmp_path / "seed-3")
