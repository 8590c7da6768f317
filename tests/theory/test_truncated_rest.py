"""Where mu rests at a bound: closed form, quadrature, samples, and PeNFAC itself."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.full_batch import FULL_BATCH
from tests.learning.loop import Learner

from penfac.envs.base import JaxEnv, Outcome
from penfac.theory import truncated
from penfac.types import EnvSpec

ONE = np.ones(1, np.float32)
LINEAR = JaxEnv(
    EnvSpec("test/Linear-v0", 1, -ONE, ONE, 1),
    reset=lambda key: jnp.ones(1),
    observe=lambda state: state,
    step=lambda state, action, key: Outcome(state, action[0], jnp.bool_(True)),
    summary="one state, one step, reward a",
)
# truncated around a linear mu: what a command refuses, and what this is about
SETTINGS = FULL_BATCH | {
    "sigma": 0.2,
    "actor_hidden": (),
    "actor_output": "linear",
    "critic_hidden": (),
    "normalise_actor": "none",
    "normalise_critic": "none",
    "min_steps_per_update": 4000,
    "actor_lr": 2e-3,
    "actor_steps": 5,
    "critic_lr": 2e-2,
    "critic_steps": 20,
    "fitted_iterations": 1,
    "d_target": 0.03,
}


@pytest.mark.parametrize("rule", ["cac", "cacla"])
@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.5])
def test_the_closed_form_is_where_the_integral_vanishes(rule, sigma):
    found = truncated.rest(rule, sigma)
    np.testing.assert_allclose(
        found, truncated.rest_by_quadrature(rule, sigma), atol=1e-8
    )


@pytest.mark.parametrize("law", ["truncated", "clipped"])
@pytest.mark.parametrize("rule", ["cac", "cacla"])
@pytest.mark.parametrize("sigma", [0.1, 0.4])
def test_training_pulls_as_the_closed_form_says(rule, sigma, law):
    """Not only where it rests: the pull at other mu too, divided by the mass."""
    for mu in (0.3, 0.9):
        found = truncated.pull_of_training(rule, mu, sigma, law)
        wanted = truncated.PULLS[law](rule, mu, sigma)
        if law == "truncated":
            inside = truncated.normal_moments((-1 - mu) / sigma, (1 - mu) / sigma, 0)
            wanted /= inside[0]
        scale = sigma if rule == "cacla" else sigma**2
        np.testing.assert_allclose(found, wanted * scale, atol=1e-4 * sigma)


@pytest.mark.parametrize("rule", ["cac", "cacla"])
def test_the_distance_to_the_bound_is_so_many_sigmas(rule):
    told = truncated.distance_in_sigmas(rule)
    for sigma in (0.01, 0.1):
        found = (1 - truncated.rest(rule, sigma)) / sigma
        np.testing.assert_allclose(found, told, rtol=1e-6)


def test_less_is_lost_with_cac_and_with_clipping():
    for sigma in (0.1, 0.3):
        cac, cacla = (truncated.rest(r, sigma) for r in ("cac", "cacla"))
        clipped = truncated.rest("cac", sigma, "clipped")
        assert cacla < cac < clipped < 1


@pytest.mark.parametrize(("algo", "rule"), [("penfac", "cac"), ("nfac", "cacla")])
def test_the_library_itself_comes_to_rest_there(algo, rule):
    """PeNFAC with its critic, its trust region and Adam; measured within 0.001 to 0.003
    of the closed form, where one update moves mu by about as much."""
    learner = Learner(LINEAR, algo, seed=0, **SETTINGS)
    learner.update(100)
    places = []
    for _ in range(10):
        places.append(float(learner.update(10).mu([[1.0]])[0, 0]))
    np.testing.assert_allclose(np.mean(places), truncated.rest(rule, 0.2), atol=4e-3)
