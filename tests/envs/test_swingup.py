"""The swing-up in closed form against the MuJoCo model, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penfac.envs import swingup
from penfac.envs.roboschool.cpu import CpuEngine
from penfac.envs.roboschool.registration import HORIZON
from penfac.envs.roboschool.task import make_task

STEP = jax.jit(swingup.step)


@pytest.fixture(scope="module")
def engine():
    made = CpuEngine(make_task("InvertedPendulumSwingup"), threads=0)
    yield made
    made.close()


def felt(physics: np.ndarray):
    """What the engine's sensors tell of a state."""
    across, height = swingup.pole_centre(jnp.asarray(physics[2], jnp.float32))
    return swingup.speeds(jnp.asarray(physics[3:5], jnp.float32), across, height)


def follow(engine, act, steps: int):
    """The engine's episode, and ours from each of its states: (before, ours, theirs,
    reward of ours and of theirs)."""
    worlds, _ = engine.start(np.array([[0.7]]))
    before = jnp.zeros(4)
    for t in range(steps):
        physics = worlds.physics[0].copy()
        place, speed = physics[1:3], physics[3:5]
        cart = swingup.Cart(jnp.float32(place), jnp.float32(speed), before)
        action = act(t)
        worlds, moment, _ = engine.step(worlds, np.array([[action]]))
        outcome = STEP(cart, jnp.float32([action]), None)
        before = felt(physics)
        ours = np.concatenate([outcome.state.place, outcome.state.speed])
        yield physics, ours, worlds.physics[0, 1:], outcome.reward, moment.reward[0]


RNG = np.random.default_rng(0)
ACTS = {
    "random": lambda t: RNG.uniform(-1, 1),
    "beyond": lambda t: RNG.uniform(-3, 3),
    "to and fro": lambda t: 1.0 if t // 40 % 2 else -1.0,
    "into the rail's end": lambda t: 1.0 if t < 250 else -1.0,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
def test_every_step_is_the_engine_s(engine, act):
    """Place, speed and reward, to single precision, wherever the episode leads."""
    rows = list(follow(engine, act, 500))
    before, ours, theirs, paid, due = (np.array(x) for x in zip(*rows, strict=True))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(paid, due, atol=1e-5)
    assert np.ptp(before[:, 2]) > 0.5  # it swung


def test_the_rail_s_end_was_met_from_both_sides(engine):
    """... in the episode above, or its test would say nothing of the limit."""
    rows = [r[0] for r in follow(engine, ACTS["into the rail's end"], 500)]
    x = np.array(rows)[:, 1]
    assert x.max() > 1.0
    assert x.min() < -1.0


def test_an_episode_of_its_own_stays_with_the_engine_s(engine):
    """300 steps without ever being put back: errors do not pile up."""
    worlds, _ = engine.start(np.array([[0.2]]))
    cart = swingup.Cart(jnp.float32(worlds.physics[0, 1:3]), jnp.zeros(2), jnp.zeros(4))
    for t in range(300):
        action = 0.4 * np.sin(t / 15)
        worlds, moment, _ = engine.step(worlds, np.array([[action]]))
        cart = STEP(cart, jnp.float32([action]), None).state
    np.testing.assert_allclose(swingup.observe(cart), moment.obs[0], atol=2e-3)


def test_initial_states_are_the_task_s():
    task = make_task("InvertedPendulumSwingup")
    ends = task.initial(np, np.array([[0.0], [1.0]]))[:, 1]
    carts = jax.vmap(swingup.reset)(jax.random.split(jax.random.key(0), 2000))
    angle = np.asarray(carts.place[:, 1])
    assert ends[0] <= angle.min() < ends[0] + 0.01
    assert ends[1] - 0.01 < angle.max() <= ends[1]
    assert not np.any(carts.place[:, 0])
    assert not np.any(carts.speed)
    assert swingup.HORIZON == HORIZON


def test_what_a_limit_is_made_of_is_what_mujoco_has():
    model = make_task("InvertedPendulumSwingup").machine.model
    assert model.dof_invweight0[0] == pytest.approx(swingup.AT_REST, rel=1e-6)
    assert model.opt.timestep == swingup.DT
    assert -model.opt.gravity[2] == swingup.GRAVITY
    assert model.jnt_range[0, 1] == swingup.REACH
    near, deep, width, middle, power = model.jnt_solimp[0]
    assert (near, deep, width) == (swingup.D_NEAR, swingup.D_DEEP, swingup.WIDTH)
    assert (middle, power) == (0.5, 2)
    assert model.jnt_solref[0, 0] < swingup.LIMIT_TIME  # so that two steps are the rule
    assert model.actuator_gear[0, 0] == swingup.FORCE
