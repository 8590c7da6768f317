"""The built-in environments as Gymnasium sees them."""

import json
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import penfac.envs  # noqa: F401  the import registers
from penfac.envs.adapter import JaxEnvAdapter
from penfac.envs.builtin import BUILT_IN
from penfac.envs.registration import HORIZONS, register_envs


def fresh(program: str) -> dict:
    """Run a program in an interpreter of its own; it prints one JSON object."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_the_light_table_says_what_the_environments_say():
    """The ids and time limits known without JAX are those of the built-in ones."""
    assert {k: e.spec.horizon for k, e in BUILT_IN.items()} == HORIZONS
    assert all(k == e.spec.id for k, e in BUILT_IN.items())


def test_a_fresh_program_finds_every_id_and_jax_waits():
    """`import penfac.envs` registers all ids; JAX is imported when one is made."""
    found = fresh(
        "import json, sys, gymnasium, penfac.envs\n"
        "ids = [i for i in gymnasium.registry if i.startswith('penfac/')]\n"
        "specs = {i: gymnasium.spec(i).max_episode_steps for i in ids}\n"
        "before = 'jax' in sys.modules\n"
        "gymnasium.make('penfac/LQR-v0').reset(seed=0)\n"
        "print(json.dumps([specs, before, 'jax' in sys.modules]))"
    )
    assert found == [HORIZONS, False, True]


def test_gymnasium_make_imports_by_itself():
    """`module:Id` needs no import of ours, and leaves the time limit in place."""
    found = fresh(
        "import json, sys, gymnasium\n"
        "env = gymnasium.make('penfac.envs:penfac/Pendulum-v0')\n"
        "obs, _ = env.reset(seed=3)\n"
        "over, n = False, 0\n"
        "while not over:\n"
        "    *_, terminated, truncated, _ = env.step(env.action_space.sample())\n"
        "    over, n = terminated or truncated, n + 1\n"
        "print(json.dumps([n, bool(truncated), obs.tolist()]))"
    )
    n, truncated, obs = found
    assert (n, truncated) == (HORIZONS["penfac/Pendulum-v0"], True)
    again, _ = gymnasium.make("penfac/Pendulum-v0").reset(seed=3)
    np.testing.assert_array_equal(np.float32(obs), again)


def test_registering_twice_changes_nothing():
    before = dict(gymnasium.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_envs()
    assert dict(gymnasium.registry) == before


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_gymnasium_s_own_checker_is_content(env_id):
    """check_env: spaces, seeding, determinism, types of everything returned."""
    env = gymnasium.make(env_id, disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # observations are not bounded, actions have units, and there is has no pictures
        warnings.filterwarnings("ignore", message=".*infinity")
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_spaces_are_those_of_the_spec(env_id):
    env, spec = gymnasium.make(env_id), BUILT_IN[env_id].spec
    np.testing.assert_array_equal(env.action_space.low, spec.action_low)
    np.testing.assert_array_equal(env.action_space.high, spec.action_high)
    assert env.observation_space.shape == (spec.obs_dim,)
    assert env.action_space.dtype == env.observation_space.dtype == np.float32


def test_a_seed_names_an_episode_and_going_on_draws_others():
    """The same seed repeats its state; resets without a seed give new ones."""
    env = gymnasium.make("penfac/LQR-v0")
    first, again = env.reset(seed=5)[0], env.reset(seed=5)[0]
    np.testing.assert_array_equal(first, again)
    states = {env.reset()[0].tobytes() for _ in range(20)}
    states |= {env.reset(seed=s)[0].tobytes() for s in range(20)}
    assert len(states) == 40


def test_there_is_nothing_to_draw():
    """A render mode is refused when the environment is made."""
    with pytest.raises(ValueError, match="has no pictures"):
        JaxEnvAdapter("penfac/LQR-v0", render_mode="human")
