"""Small learners and one batch: what tests of a single update are made of.

What a test does not say is fixed here, so that tuning the defaults moves no test.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos import penfac as algorithm
from penfac.algos.base import Moment
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.penfac import State
from penfac.settings.penfac import Config
from penfac.types import EnvSpec, Transitions

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
SMALL = {
    "gamma": 0.99,
    "lam": 0.9,
    "time_limit": "bootstrap",
    "normalise_returns": False,
    "minibatches": 1,
    "rates_end": 1.0,
    "softness": 0.0,
    "centred": False,
    "ratio_limit": None,
    "ratio_limit_start": None,
    "actor_update": "cac",
    "nonpositive": "ignore",
    "advantage_scale": "none",
    "actor_steps": 4,
    "actor_lr": 1e-2,
    "trust_region": True,
    "d_target": 0.03,
    "d_target_start": None,
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
    plan, numbers = algorithm.PENFAC.plan(cfg, SPEC), algorithm.PENFAC.numbers(cfg)
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
