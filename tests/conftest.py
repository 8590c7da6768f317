"""What every test shares: executed shapes, one device, small learners, one batch.

The shapes in the annotations of the equations are executed: the hook must be in place
before anything of penfac is imported, so it comes first.
"""
# ruff: noqa: E402

import os
from pathlib import Path

# One cache of compiled programs for all tests and the processes they start, kept between
# runs: compiling is most of what a cold run costs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
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
from tests import compile_cache  # noqa: F401
from tests.small_learners import NOW, SPEC, make_batch, make_learner
from tests.worker_memory import (  # noqa: F401
    allowed,
    few_programs,
    little_memory,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

from penfac.algos import penfac as algorithm
from penfac.types import EnvSpec, Transitions

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


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
