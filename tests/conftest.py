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
    ["penfac.types", "penfac.core", "penfac.nets", "penfac.replay", "penfac.algos"],
    "beartype.beartype",
)

from typing import NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.algos import penfac as algorithm
from penfac.algos.base import Moment
from penfac.algos.penfac import State
from penfac.algos.penfac_config import Config, Numbers, Plan
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


SPEC = EnvSpec("test/Small-v0", 3, -np.ones(2), np.ones(2), horizon=7)

# (steps, how the episode ended, padding behind it): whole episodes and a row that was
# cut, with padding between rows and at the end, as both collectors leave it
ROWS = (
    (5, "terminated", 0),
    (7, "truncated", 0),
    (6, "cut", 3),
    (1, "terminated", 6),
    (4, "both", 0),
    (7, "truncated", 9),
)
# what a test does not say is fixed here, so that tuning the defaults moves no test
SMALL = {
    "gamma": 0.99,
    "lam": 0.9,
    "time_limit": "bootstrap",
    "normalise_returns": False,
    "minibatches": 1,
    "rates_end": 1.0,
    "centred": False,
    "ratio_limit": None,
    "actor_update": "cac",
    "nonpositive": "ignore",
    "advantage_scale": "none",
    "actor_steps": 4,
    "actor_lr": 1e-2,
    "trust_region": True,
    "d_target": 0.03,
    "distance": "rms",
    "beta_start": 1.0,
    "beta_keep": True,
    "beta_rule": "step",
    "beta_min": 0.01,
    "beta_max": 20.0,
    "early_stop": False,
    "penalty": 1.0,
    "fitted_iterations": 3,
    "critic_steps": 2,
    "critic_lr": 1e-2,
    "adam_b1": 0.0,
    "adam_b2": 0.999,
    "exploration": "gaussian",
    "actor_hidden": (8,),
    "critic_hidden": (8,),
    "activation": "leaky_relu",
    "actor_output": "tanh",
    "init": "orthogonal",
    "normalise_actor": "running",
    "normalise_critic": "running",
    "obs_clip": 5.0,
}


# in the middle of a run: what a test of a single update does not look at
NOW = Moment(jax.random.key(7), jnp.float32(0.5), jnp.float32(0.5))


class Learner(NamedTuple):
    """One learner, ready for `update`."""

    cfg: Config
    plan: Plan
    numbers: Numbers
    state: State


def make_learner(seed: int = 0, **settings) -> Learner:
    """A learner with small networks; `settings` are values of the config."""
    cfg = Config(**(SMALL | settings))
    plan, numbers = algorithm.plan(cfg, SPEC), algorithm.numbers(cfg)
    state = algorithm.init(jax.random.key(seed), plan, numbers)
    return Learner(cfg, plan, numbers, state)


def make_batch(seed: int = 0, rows=ROWS, dtype=np.float32) -> Transitions:
    """Random steps, packed row after row; padding is zero."""
    rng = np.random.default_rng(seed)
    flags = {k: [] for k in ("mask", "terminated", "truncated", "last")}
    for steps, end, padding in rows:
        behind = [False] * (steps - 1), [False] * padding
        for key, value in {
            "terminated": end in ("terminated", "both"),
            "truncated": end in ("truncated", "both"),
            "last": True,
        }.items():
            flags[key] += [*behind[0], value, *behind[1]]
        flags["mask"] += [True] * steps + behind[1]
    flags = {k: np.array(v) for k, v in flags.items()}
    mask, (n, m) = flags["mask"], (SPEC.obs_dim, SPEC.action_dim)
    size = len(mask)

    def draw(*shape):
        x = rng.normal(size=(size, *shape)).astype(dtype)
        return x * mask.reshape(size, *(1 for _ in shape))

    obs, final = draw(n), draw(n)
    follows = ~flags["last"] & mask  # inside an episode s_{t+1} is the next row
    next_obs = np.where(follows[:, None], np.roll(obs, -1, axis=0), final)
    batch = Transitions(
        obs=obs, next_obs=next_obs, action=np.clip(draw(m), -1, 1), reward=draw(),
        **flags,
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, batch)


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
