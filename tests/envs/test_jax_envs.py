"""Own environments in JAX: functions, gymnax's and Brax's form, by id and as objects."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.envs.jax_rails import LIMIT, RAIL, BraxLike, GymnaxLike
from tests.faults.commands import TINY, command, environment, same_end
from tests.faults.conftest import in_own_folder  # noqa: F401

import penfac
from penfac.envs.builtin import REGISTERED
from penfac.envs.jax_envs import as_jax_env, functions_env
from penfac.errors import ConfigError, EnvironmentFault

SMALL = {"actor_hidden": (4,), "critic_hidden": (4,), "actor_steps": 2}
ID = "tests.envs.jax_rails:JaxRail-v0"


def made(env, limit=LIMIT):
    found = as_jax_env(env, "Test-v0", limit)
    assert found is not None
    return found


def test_a_key_in_the_state_is_numbers():
    """A typed key becomes numbers and comes back: the same walk as the functions alone."""
    env = REGISTERED["JaxRail-v0"]
    key, action = jax.random.key(3), jnp.ones(1)
    state, plain = env.reset(key), RAIL["reset"](key)
    for k in range(3):
        assert all(x.dtype in (jnp.float32, jnp.uint32, jnp.int32)
                   for x in jax.tree.leaves(state))  # fmt: skip
        outcome = env.step(state, action, jax.random.key(k))
        plain, reward, ended = RAIL["step"](plain, action, jax.random.key(k))
        state = outcome.state
        np.testing.assert_array_equal(env.observe(state), plain["x"])
        assert outcome.reward == reward
        assert bool(outcome.terminated) == bool(ended)


def test_the_end_of_the_time_is_no_terminal_state():
    """gymnax says done for both; the limit becomes the horizon, the fall stays."""
    env = made(GymnaxLike(), None)
    assert env.spec.horizon == LIMIT
    state, still = env.reset(jax.random.key(0)), jnp.zeros(1)
    for _ in range(LIMIT + 5):
        outcome = env.step(state, still, jax.random.key(1))
        state = outcome.state
        assert not outcome.terminated
    for _ in range(40):
        outcome = env.step(state, jnp.full(1, 2.0), jax.random.key(1))
        state = outcome.state
    assert outcome.terminated


def test_observations_of_playground():
    """`state` of the dict is what the policy sees, not what the critic may know."""
    env = made(BraxLike())
    assert env.spec.obs_dim == 2
    assert env.spec.horizon == LIMIT


def test_pair_of_gymnax():
    pair = (GymnaxLike(), GymnaxLike.default_params._replace(max_steps_in_episode=7))
    assert made(pair, None).spec.horizon == 7
    assert made(pair, 9).spec.horizon == 9


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_episode_steps": None}, "has no time limit"),
        ({"action_low": 1.0}, "low below high"),
        ({"action_high": np.inf}, "must be finite"),
        ({"action_low": [1.0, 2.0], "action_high": [1, 2, 3]}, "numbers of one shape"),
        ({"reset": lambda: 0}, "reset cannot be traced"),
        ({"observe": lambda state: state["y"]}, "observe cannot be traced"),
        ({"step": lambda state, action, key: state}, "step cannot be traced"),
        (
            {"step": lambda s, a, k: ({"x": s["x"]}, 0.0, False)},
            "step cannot be traced",
        ),
        ({"step": lambda s, a, k: (s, jnp.zeros(2), False)}, "step cannot be traced"),
    ],
)
def test_functions_that_do_not_fit(changes, told):
    with pytest.raises(ConfigError, match=told) as refused:
        functions_env("Test-v0", **RAIL | changes)
    assert str(refused.value).startswith("Test-v0: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("id", "env", "more", "told"),
    [
        ("penfac/LQR-v0", None, RAIL, "is taken"),
        ("Pendulum-v1", None, RAIL, "is taken"),
        ("a:b", None, RAIL, "without a colon"),
        ("New-v0", None, {}, "needs action_high, action_low, reset, step"),
        ("New-v0", None, RAIL | {"rest": 1}, "rest"),
        ("New-v0", GymnaxLike(), {"step": RAIL["step"]}, "of no use beside env"),
        ("New-v0", object(), {}, "no JAX environment that penfac knows"),
        ("New-v0", BraxLike(), {}, "has no time limit"),
    ],
)
def test_what_cannot_be_registered(id, env, more, told):
    with pytest.raises(ConfigError, match=told):
        penfac.register_jax_env(id, env, **more)
    assert id not in REGISTERED


def test_a_cell_of_a_notebook_runs_twice():
    """The same id again means the new functions."""
    penfac.register_jax_env("Again-v0", **RAIL)
    penfac.register_jax_env("Again-v0", **RAIL | {"max_episode_steps": 5})
    assert REGISTERED["Again-v0"].spec.horizon == 5
    assert gymnasium.spec("Again-v0").max_episode_steps == 5


@pytest.mark.slow
def test_commands(monkeypatch):
    """By module:id on the device and on the CPU; stopped and resumed to the same bits."""
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    steps = ["train", "--env", ID, *TINY, "--set=collect=steps", "--set=worlds=2"]
    assert command(*steps, "--name=whole").code == 0
    stopped = command(*steps, "--name=parts", "--stop-after=0s")
    assert "engine=device" in stopped.out
    assert command("resume", "runs/penfac/parts", "--trust").code == 0
    from pathlib import Path

    same_end(Path("runs/penfac/whole"), Path("runs/penfac/parts"))
    assert command("eval", "runs/penfac/whole", "--episodes=2", "--trust").code == 0
    host = command("train", "--env", ID, *TINY, "--on=cpu")
    assert (host.code, host.err) == (0, "")
    assert "engine=host" in host.out
    refused = command("train", "--env", ID, *TINY, "--action-bounds=-1,1")
    assert refused.code == 2


@pytest.mark.slow
@pytest.mark.parametrize("env", [GymnaxLike, BraxLike])
def test_objects(env):
    """A model learns on it, goes on with it, and acts."""
    model = penfac.PeNFAC(env(), max_episode_steps=LIMIT, **SMALL)
    model.learn(100, eval_episodes=1)
    assert (model.run / "config.json").read_text().count('"engine": "device"') == 1
    model.learn(100)
    action, _ = model.predict(np.zeros(2))
    assert model.action_space.contains(action)
    assert np.isfinite(model.evaluate(2)["mean"])
    again = penfac.load(model.run, env=env())
    assert again.num_timesteps == model.num_timesteps


def test_a_walk_that_breaks_is_a_fault():
    """A NaN is the environment's fault, as in Gymnasium."""

    def breaks(state, action, key):
        after, reward, ended = RAIL["step"](state, action, key)
        return after, jnp.where(after["t"] > 7, jnp.nan, reward), ended

    penfac.register_jax_env("Breaks-v0", **RAIL | {"step": breaks})
    with pytest.raises(EnvironmentFault):
        penfac.PeNFAC("Breaks-v0", **SMALL).learn(100)


# --- tuples of observations -------------------------------------------------------------------


class Pair(gymnasium.Env):
    """An observation in two parts."""

    observation_space = gymnasium.spaces.Tuple(
        (gymnasium.spaces.Box(-1, 1, (2,), np.float32),
         gymnasium.spaces.Box(-1, 1, (1, 2), np.float32))
    )  # fmt: skip
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def test_a_tuple_of_observations():
    with pytest.raises(
        ConfigError, match="is Tuple, of 2 parts; flatten_obs=True joins"
    ):
        penfac.PeNFAC(Pair, max_episode_steps=10)
    model = penfac.PeNFAC(Pair, max_episode_steps=10, flatten_obs=True, **SMALL)
    model.learn(50, eval_episodes=1)
    one = (np.array([0.1, 0.2]), np.array([[0.3, 0.4]]))
    rows = np.array([[0.1, 0.2, 0.3, 0.4]] * 2)
    assert model.predict(one)[0] == pytest.approx(model.predict(rows)[0][0])
