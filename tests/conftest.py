"""What every test shares: executed shapes, one device, small learners, one batch.

The shapes in the annotations of the equations are executed: the hook must be in place
before anything of penfac is imported, so it comes first.
"""
# ruff: noqa: E402

import gc
import os
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
# two threads that factor matrices for MJX may wait for each other; see envs/roboschool/mjx
os.environ["PJRT_NPROC"] = "1"

from jaxtyping import install_import_hook

install_import_hook(
    [
        "penfac.types",
        "penfac.core",
        "penfac.algos.nets",
        "penfac.algos.replay",
        "penfac.algos",
    ],
    "beartype.beartype",
)

import hypothesis
import jax
import pytest
from tests.small_learners import NOW, SPEC, make_batch, make_learner

from penfac.algos import penfac as algorithm
from penfac.types import EnvSpec, Transitions

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

MOST_MAPS = 20_000  # Linux lets a process have 65 530


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Every compiled program maps pieces of memory, and a process that runs out of them is
    aborted: what earlier modules compiled goes in time."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def spec() -> EnvSpec:
    """What the small learners know of their environment."""
    return SPEC


@pytest.fixture
def strict_dtypes():
    """Two dtypes that meet raise instead of one silently winning."""
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture
def float64():
    """Double precision inside the test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def batch() -> Transitions:
    """Several episodes (terminated, truncated, both, cut), packed and padded."""
    return make_batch()


@pytest.fixture(name="make_batch")
def batch_factory():
    return make_batch


@pytest.fixture(name="make_learner")
def learner_factory():
    return make_learner


@pytest.fixture(scope="session")
def update():
    """`update`, compiled once for each plan and shape in the whole session."""
    program = jax.jit(algorithm.update, static_argnums=2)
    return lambda *given, now=NOW: program(*given, now)
