"""The two engines under one task: a step in C against a step in MJX, and whole episodes."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.faults.commands import TINY, command

from penfac.envs.roboschool.cpu import CpuEngine, WorldStates
from penfac.envs.roboschool.records import Scene, TaskStep
from penfac.envs.roboschool.task import make_task
from penfac.policy import Policy

pytest.importorskip("mujoco.mjx")
from penfac.envs.roboschool.mjx import MjxEngine, MjxState, roboschool_env

pytestmark = pytest.mark.slow

WALKERS = ["Hopper", "Walker2d", "HalfCheetah", "Ant", "Humanoid"]
STATES, WORLDS = 1000, 256


def states_met(engine: CpuEngine, count: int) -> tuple[WorldStates, np.ndarray]:
    """Where random actions lead within 30 steps, in single precision, and actions."""
    task, rng = engine.task, np.random.default_rng(0)
    worlds, _ = engine.start(rng.random((count, task.draws)))
    length = rng.integers(1, 31, count)
    for t in range(30):
        on = t < length
        after, _, _ = engine.step(worlds, rng.uniform(-1, 1, (count, task.joints)))
        worlds.put(on, after.rows(on))
    worlds.physics[:, 1:] = worlds.physics[:, 1:].astype(np.float32)
    worlds.sensors[:] = worlds.sensors.astype(np.float32)
    return worlds, rng.uniform(-1, 1, (count, task.joints)).astype(np.float32)


class Compared(NamedTuple):
    """One control step from the same states in both engines."""

    after: WorldStates
    moment: TaskStep
    judged: TaskStep  # MJX's
    near: np.ndarray  # [states] within 1e-4 in qpos and 5e-3 in qvel
    rest: list[tuple[int, str, str]]  # which are not, and by how much


@functools.cache
def compared(name: str) -> Compared:
    task = make_task(name)
    engine, nq = CpuEngine(task), task.machine.model.nq
    worlds, action = states_met(engine, STATES)
    after, moment, broken = engine.step(worlds, action)
    assert not broken.any()
    physics = MjxEngine.of(task)

    @jax.jit
    @jax.vmap
    def step(qpos, qvel, sensors, flags, action):
        world = MjxState(qpos, qvel, sensors, flags, jnp.zeros(task.obs_dim))
        scene = physics.play(world, action)
        return scene, task.score(jnp, sensors, flags, scene, action)

    state = worlds.physics[:, 1:].astype(np.float32)
    sensors = worlds.sensors.astype(np.float32)
    scene, judged = step(state[:, :nq], state[:, nq:], sensors, worlds.flags, action)
    dq = np.abs(np.asarray(scene.qpos) - after.physics[:, 1 : 1 + nq]).max(1)
    dv = np.abs(np.asarray(scene.qvel) - after.physics[:, 1 + nq :]).max(1)
    near = (dq < 1e-4) & (dv < 5e-3)
    rest = [(int(i), f"{dq[i]:.0e}", f"{dv[i]:.0e}") for i in np.flatnonzero(~near)]
    return Compared(after, moment, judged, near, rest)


def test_physics_is_single_precision_whoever_asks():
    """A GPU left alone multiplies matrices with 10 bits of mantissa."""
    env, key = roboschool_env("RoboschoolHopper-v2"), jax.random.key(0)

    def step(world, action):
        return env.step(world, action, key).state

    world = jax.eval_shape(env.reset, key)
    text = jax.jit(step).lower(world, jnp.zeros(env.spec.action_dim)).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)


@pytest.mark.parametrize("name", WALKERS)
def test_a_control_step_is_the_same_in_both_engines(name):
    """From 1 000 states, contacts among them, within 1e-4 in qpos and 5e-3 in qvel."""
    got = compared(name)
    assert got.near.mean() >= 0.995, got.rest


@pytest.mark.parametrize("name", WALKERS)
def test_flags_ends_and_terms_are_the_same_in_both_engines(name):
    """Nowhere another end; where the states agree, no other flag and the same terms."""
    got = compared(name)
    np.testing.assert_array_equal(got.judged.terminated, got.moment.terminated)
    differ = (np.asarray(got.judged.flags) != got.after.flags).any(1)
    assert not (differ & got.near).any(), np.flatnonzero(differ)
    for term, value in got.moment.terms.items():
        far = np.abs(np.asarray(got.judged.terms[term]) - value)
        assert far[got.near].max() < 0.01, term


def test_wrong_rules_on_the_device_are_2(tmp_path):
    """One line and no folder, as on the host."""
    words = ["--env=RoboschoolHopper-v2", "--on=device", "--env-arg=rules=v9"]
    done = command("train", *words, f"--out={tmp_path}")
    assert done.code == 2
    assert "rules = v9: must be roboschool or bullet" in done.line
    assert not list(tmp_path.rglob("*"))


def played(start, step, act, count: int) -> np.ndarray:
    """Returns of one episode each, at most 200 steps of it."""
    returned, alive, state = np.zeros(count), np.ones(count, bool), start
    for t in range(200):
        state, reward, terminated = step(state, act(t))
        returned += alive * np.asarray(reward)
        alive &= ~np.asarray(terminated)
        if not alive.any():
            break
    return returned


@pytest.mark.parametrize("policy", ["random", "zero"])
@pytest.mark.parametrize("name", WALKERS)
def test_episodes_earn_the_same_in_both_engines(name, policy):
    """256 worlds from the same states, under no action and under fixed random ones: mean
    returns within two standard errors."""
    task, rng = make_task(name), np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (200, WORLDS, task.joints)).astype(np.float32)
    act = lambda t: actions[t] * (policy == "random")  # noqa: E731
    engine = CpuEngine(task)
    u = rng.random((WORLDS, task.draws))
    worlds, obs = engine.start(u)

    def in_c(worlds, action):
        after, moment, _ = engine.step(worlds, action)
        return after, sum(moment.terms.values()), moment.terminated

    env = roboschool_env(f"Roboschool{name}-v2")
    qpos = jax.vmap(lambda u: task.initial(jnp, u))(jnp.array(u, jnp.float32))
    sensors = jax.vmap(MjxEngine.of(task).sensors_at_rest)(qpos)
    still = jnp.zeros((WORLDS, task.machine.model.nv))
    fresh = MjxState(qpos, still, sensors, jnp.array(worlds.flags), jnp.array(obs))
    jitted = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))

    def in_mjx(worlds, action):
        outcome = jitted(worlds, action, jax.random.key(0))
        assert not np.asarray(outcome.broken).any()
        return outcome.state, outcome.reward, outcome.terminated

    a, b = played(worlds, in_c, act, WORLDS), played(fresh, in_mjx, act, WORLDS)
    error = np.sqrt(a.var(ddof=1) / WORLDS + b.var(ddof=1) / WORLDS)
    assert abs(a.mean() - b.mean()) < 2 * error, (a.mean(), b.mean(), error)


def test_a_reset_sees_what_the_c_engine_sees():
    """From the same numbers: the same pose, the same sensors, the same observation."""
    task = make_task("Humanoid")
    physics = MjxEngine.of(task)
    u = np.random.default_rng(2).random((4, task.draws))
    worlds, obs = CpuEngine(task).start(u)
    for k in range(4):
        qpos = task.initial(jnp, jnp.array(u[k], jnp.float32))
        sensors = physics.sensors_at_rest(qpos)
        np.testing.assert_allclose(sensors, worlds.sensors[k], atol=1e-5)
        scene = Scene(qpos, jnp.zeros(task.machine.model.nv), sensors)
        seen = task.observe(jnp, scene, jnp.zeros(2, bool))
        np.testing.assert_allclose(seen, obs[k], atol=1e-5)


def test_every_reset_is_fresh():
    """Other keys, other states: none of 64 is another's."""
    env = roboschool_env("RoboschoolInvertedPendulum-v2")
    worlds = jax.vmap(env.reset)(jax.random.split(jax.random.key(3), 64))
    assert len({row.tobytes() for row in np.asarray(worlds.qpos)}) == 64


def test_a_world_that_blows_up_says_so():
    env = roboschool_env("RoboschoolInvertedPendulum-v2")
    world = env.reset(jax.random.key(0))
    fast = world._replace(qvel=jnp.array([1e12, jnp.inf]))
    step = jax.jit(env.step)
    assert bool(step(fast, jnp.zeros(1), jax.random.key(0)).broken)
    assert not bool(step(world, jnp.zeros(1), jax.random.key(0)).broken)


def test_a_run_on_the_device_is_a_run_like_any_other(tmp_path):
    """Stopped and resumed, it leaves the folder that the C engine's runs leave."""
    words = ["--env=RoboschoolInvertedPendulum-v2", "--on=device", "--seeds=2", *TINY]
    words += ["--set=collect=steps", "--set=worlds=2", "--set=steps_per_world=50"]
    done = command("train", *words, f"--out={tmp_path}", "--name=run")
    assert (done.code, done.err) == (0, "")
    folder = tmp_path / "penfac" / "run"
    longer = command("resume", folder, "--steps=200")
    assert (longer.code, longer.err) == (0, "")
    for seed in (0, 1):
        assert Policy.load(folder / f"seed-{seed}")(np.zeros(5)).shape == (1,)
    judged = command("eval", folder, "--episodes=2", "--json")  # in C, from the policy
    assert judged.code == 0
