"""What the tasks pay, and when a foot counts, against closed forms."""

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from tests.envs.roboschool.states import (
    PLANAR,
    WALKERS,
    any_state,
    data_at,
    judged,
    lengths,
    scene_at,
    standing,
)

from penfac.envs.roboschool.cpu import CpuEngine
from penfac.envs.roboschool.model import joint_limits
from penfac.envs.roboschool.records import CONTROL_STEP

# --- what it is paid ----------------------------------------------------------------------


def places_at(task, xy, dtype=np.float64) -> np.ndarray:
    """Sensors with every part at one place."""
    sensors = np.zeros(task.machine.model.nsensordata, dtype)
    bodies = len(task.machine.robot.bodies)
    sensors[0 : 3 * bodies : 3], sensors[1 : 3 * bodies : 3] = xy
    return sensors


def gain(start, end) -> float:
    """The distance won, plainly."""
    far = [np.hypot(1000 - x, y) for x, y in (start, end)]
    return (far[0] - far[1]) / CONTROL_STEP


@pytest.mark.parametrize("name", WALKERS)
def test_progress_is_the_distance_won(tasks, name):
    """The plain formula in float64, near and far, sideways too where it can go there."""
    task, rng = tasks(name), np.random.default_rng(5)
    for reach in (1, 50, 900):
        start = rng.uniform(-reach, reach, 2)
        end = start + rng.normal(0, 0.05, 2)
        if task.planar:
            start[1] = end[1] = 0
        mine = task.progress(np, places_at(task, start), places_at(task, end))
        assert mine == pytest.approx(gain(start, end), abs=1e-9)


def test_progress_keeps_its_digits_in_single_precision(tasks):
    """The difference of two distances of 1 km would lose all below 4 mm/s."""
    task, rng = tasks("Ant"), np.random.default_rng(6)
    worst, plain = 0.0, 0.0
    for _ in range(50):
        start = rng.uniform(-1, 1, 2).astype(np.float32)
        end = (start + rng.normal(0, 0.01, 2)).astype(np.float32)
        before, after = (
            jnp.array(places_at(task, at, np.float32)) for at in (start, end)
        )
        assert before.dtype == jnp.float32
        truth = gain(start.astype(np.float64), end.astype(np.float64))
        worst = max(worst, abs(float(task.progress(jnp, before, after)) - truth))
        far = [jnp.hypot(1000 - jnp.array(at[0]), at[1]) for at in (start, end)]
        plain = max(plain, abs(float((far[0] - far[1]) / CONTROL_STEP) - truth))
    assert worst < 3e-5
    assert plain > 1e-3


@pytest.mark.parametrize(("rules", "cost"), [("roboschool", -0.2), ("bullet", -0.1)])
def test_a_joint_near_its_limit_costs(tasks, rules, cost):
    """Above 0.99 of the range to either side, not below; beyond it too."""
    task = tasks("Walker2d", rules)
    low, high = joint_limits(task.machine.robot)
    share = np.array([0.989, 0.991, -0.989, -0.991, 1.3, 0.0])
    qpos = standing(task)
    qpos[3:] = (low + high) / 2 + share * (high - low) / 2
    assert judged(task, qpos).terms["joints_at_limit"] == pytest.approx(3 * cost)
    qpos[3:] = (low + high) / 2
    assert judged(task, qpos).terms["joints_at_limit"] == 0


def test_a_cheetah_begins_with_a_joint_at_its_limit(tasks):
    """Its front foot starts beyond its range."""
    task = tasks("HalfCheetah")
    for u in (0, 0.5, 1):
        qpos = task.initial(np, np.full(task.draws, float(u)))
        assert judged(task, qpos).terms["joints_at_limit"] == pytest.approx(-0.2)


@pytest.mark.parametrize("name", WALKERS)
def test_effort_is_paid_for_as_it_was_asked(tasks, name):
    """Power and heat by the action before it is clipped, over the number of joints."""
    task, rng = tasks(name), np.random.default_rng(7)
    factor = 4.25 if name == "Humanoid" else 1
    state = any_state(task, rng)
    action = rng.uniform(-3, 3, task.joints)
    terms = judged(task, *state, action=action).terms
    speeds = 0.1 * state[1][-task.joints :] / lengths(task)
    power = -2.0 * factor * np.mean(np.abs(action * speeds))
    assert terms["electricity"] == pytest.approx(power)
    assert terms["stall_torque"] == pytest.approx(-0.1 * factor * np.mean(action**2))


def test_torque_is_clipped_where_the_cost_is_not(tasks):
    """An action of 3 moves the robot as one of 1 does, and costs nine times the heat."""
    task = tasks("Hopper")
    engine = CpuEngine(task, threads=0)
    worlds, _ = engine.start(np.full((2, task.draws), 0.5))
    action = np.array([[1.0, -1.0, 1.0], [3.0, -3.0, 3.0]])
    after, moment, _ = engine.step(worlds, action)
    assert after.physics[0].tobytes() == after.physics[1].tobytes()
    np.testing.assert_allclose(moment.terms["stall_torque"], [-0.1, -0.9])
    engine.close()


@pytest.mark.parametrize(
    ("name", "lowest", "bonus"), [("Hopper", 0.8, 1), ("Walker2d", 0.8, 1), ("Ant", 0.26, 1),
                                  ("Humanoid", 0.78, 2)],
)  # fmt: skip
def test_a_robot_lives_above_its_height(tasks, name, lowest, bonus):
    """The bonus just above, the end and -1 just below."""
    task = tasks(name)
    qpos, up = standing(task), 1 if task.planar else 2
    start = task.pose(np, qpos, np.zeros(task.machine.model.nv)).height
    assert start == pytest.approx(task.machine.robot.start_height)
    for gap, alive in ((1e-6, bonus), (-1e-6, -1)):
        moved = qpos.copy()
        moved[up] += lowest + gap - start
        moment = judged(task, moved)
        assert moment.terms["alive"] == alive
        assert moment.terminated == (alive < 0)


@pytest.mark.parametrize("name", PLANAR)
@pytest.mark.parametrize("side", [-1, 1])
def test_a_planar_robot_lives_upright(tasks, name, side):
    """A pitch of 1 rad to either side is its end."""
    task = tasks(name)
    for pitch, alive in ((0.999, 1), (1.001, -1)):
        qpos = standing(task)
        qpos[1:3] = 1.0, side * pitch
        assert judged(task, qpos).terms["alive"] == alive


def test_a_cheetah_on_its_knees_ends_under_roboschool_alone(tasks):
    """Shin or thigh on the floor, as the flags said one step before, pays -1; only
    Roboschool ends the episode. Feet may touch."""
    feet = tasks("HalfCheetah").machine.robot.feet
    for k, foot in enumerate(feet):
        flags = np.arange(len(feet)) == k
        for rules in ("roboschool", "bullet"):
            task = tasks("HalfCheetah", rules)
            moment = judged(task, standing(task), flags=flags)
            falls = "foot" not in foot
            assert moment.terms["alive"] == (-1 if falls else 1)
            assert moment.terminated == (falls and rules == "roboschool")


# --- feet ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WALKERS)
def test_a_foot_touches_within_its_margin(tasks, name):
    """MuJoCo's own distance from the floor, a micrometre below and above."""
    task, rng = tasks(name), np.random.default_rng(8)
    model, robot = task.machine.model, task.machine.robot
    floor, up = model.geom("floor").id, 1 if task.planar else 2
    for _ in range(5):
        qpos, _ = any_state(task, rng)
        qpos[up] += 3
        for k, foot in enumerate(robot.feet):
            geom = model.geom(f"{foot}_0").id
            data = data_at(task, qpos)
            gap = mujoco.mj_geomDistance(model, data, floor, geom, 10, None)
            for more in (-1e-6, 1e-6):
                moved = qpos.copy()
                moved[up] += robot.near[k] + more - gap
                touching = task.touching(np, scene_at(task, moved).sensors)
                assert touching[k] == (more < 0)


@pytest.mark.parametrize("name", WALKERS)
def test_foot_flags_are_seen_one_step_late(tasks, name):
    """What a step found is in the next step's observation; a reset sees zeros."""
    task, rng = tasks(name), np.random.default_rng(9)
    engine, feet = CpuEngine(task, threads=0), len(tasks(name).machine.robot.feet)
    worlds, obs = engine.start(rng.random((8, task.draws)))
    assert not obs[:, -feet:].any()
    flags, seen = worlds.flags, []
    for _ in range(60):
        worlds, moment, _ = engine.step(worlds, np.zeros((8, task.joints)))
        np.testing.assert_array_equal(moment.obs[:, -feet:], flags)
        flags = task.touching(np, worlds.sensors)
        np.testing.assert_array_equal(moment.flags, flags)
        seen.append(flags)
    assert 0 < np.mean(seen) < 1
    engine.close()


def test_a_foot_strikes_what_mujoco_finds_near(tasks):
    """Each foot of the Humanoid against every limb but its own leg, by MuJoCo's distance
    of geoms, on random states; spheres touch when they overlap."""
    task, rng = tasks("Humanoid"), np.random.default_rng(10)
    model, robot = task.machine.model, task.machine.robot
    geoms = {body.name: len(body.geoms) for body in robot.bodies}
    counts = []
    for _ in range(400):
        qpos, qvel = any_state(task, rng)
        data = data_at(task, qpos, qvel)
        struck, edge = 0, np.inf
        for foot, near in zip(robot.feet, robot.near, strict=True):
            own = foot.split("_")[0]
            others = [
                model.geom(f"{limb}_{k}").id
                for limb in robot.limbs
                if limb.endswith("_arm") or not limb.startswith(own)
                for k in range(geoms[limb])
            ]
            foot_geom, ball = model.geom(f"{foot}_0").id, mujoco.mjtGeom.mjGEOM_SPHERE
            gap = min(
                mujoco.mj_geomDistance(model, data, foot_geom, other, 10, None)
                - (0 if model.geom_type[other] == ball else near)
                for other in others
            )
            struck, edge = struck + (gap < 0), min(edge, abs(gap))
        if edge > 1e-6:
            assert task.strikes(np, data.sensordata) == struck
            counts.append(struck)
    assert {0, 1, 2} <= set(counts)


def test_a_strike_costs_under_roboschool_alone(tasks):
    """-1 a foot; the port pays nothing, and robots that cannot strike have no such term."""
    task, rng = tasks("Humanoid"), np.random.default_rng(10)
    for _ in range(100):
        state = any_state(task, rng)
        struck = task.strikes(np, scene_at(task, *state).sensors)
        assert judged(task, *state).terms["foot_collision"] == -struck
    assert "foot_collision" not in judged(tasks("Humanoid", "bullet"), *state).terms
    for name in (*PLANAR, "Ant"):
        assert "foot_collision" not in judged(tasks(name), standing(tasks(name))).terms
