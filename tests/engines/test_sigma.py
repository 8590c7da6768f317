"""The width of exploration may depend on the observation, on both engines."""

import jax.numpy as jnp
import pytest
from tests.engines.jobs import make_job
from tests.rollout.worlds import WANDERER

from penfac.algos.penfac import Metrics
from penfac.engines.base import Counters
from penfac.engines.device import DeviceEngine
from penfac.engines.host import HostEngine

LEFT, RIGHT = 1e-9, 0.3


def wide_on_the_right(state, obs, sigma, plan, numbers):
    return jnp.where(obs[..., :1] > 0, RIGHT, LEFT)


def distances(algo):
    """An update that reports how far actions are from mu, left and right of 0."""

    def update(state, batch, plan, numbers, now):
        away = jnp.abs(batch.action - algo.mu(state, batch.obs, plan, numbers))
        away = jnp.where(batch.mask, jnp.max(away, axis=-1), 0)
        right = batch.obs[:, 0] > 0
        values = dict.fromkeys(Metrics._fields, jnp.zeros(()))
        values |= {
            "distance": jnp.max(jnp.where(right, 0, away)),
            "value_loss": jnp.max(jnp.where(right, away, 0)),
            "finite": jnp.bool_(True),
        }
        return state, Metrics(**values)

    return update


@pytest.mark.parametrize("collect", ["episodes", "steps"])
@pytest.mark.parametrize(
    ("kind", "env"), [(HostEngine, WANDERER), (DeviceEngine, "penfac/LQR-v0")]
)
def test_actions_spread_as_wide_as_sigma_says_where_they_are_taken(kind, env, collect):
    job = make_job(env, collect=collect)
    algo = job.algo._replace(sigma=wide_on_the_right, update=distances(job.algo))
    engine = kind(job._replace(algo=algo), [0])
    ((_, progress),) = engine.advance([(0, Counters())])
    assert progress.metrics["distance"] < 1e-4
    assert progress.metrics["value_loss"] > 0.1
    assert progress.sigma == pytest.approx(LEFT)  # reported at an observation of zeros
