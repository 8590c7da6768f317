"""The definition of the tasks on states made by hand, against closed forms."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.envs.roboschool.states import (
    FREE,
    JOINTS,
    PLANAR,
    SEEN,
    TASKS,
    WALKERS,
    any_state,
    data_at,
    no_flags,
    scene_at,
    standing,
)

from penfac.envs.roboschool.drag import drag, drag_coefficients
from penfac.envs.roboschool.model import joint_limits
from penfac.envs.roboschool.pose import rotate
from penfac.envs.roboschool.records import Scene
from penfac.envs.roboschool.task import PENDULUMS

# --- where it is --------------------------------------------------------------------------


@pytest.mark.parametrize("name", WALKERS)
def test_sizes_are_roboschool_s(tasks, name):
    assert (tasks(name).joints, tasks(name).obs_dim) == (JOINTS[name], SEEN[name])


def test_a_vector_turns_with_a_quaternion():
    """Against SciPy, component by component."""
    rng = np.random.default_rng(0)
    for turn in Rotation.random(20, rng=rng):
        v = rng.normal(size=3)
        mine = rotate(turn.as_quat(scalar_first=True), v)
        np.testing.assert_allclose(mine, turn.apply(v), atol=1e-14)


@pytest.mark.parametrize("name", FREE)
def test_attitude_of_a_free_robot_is_its_euler_angles(tasks, name):
    """Yaw about z, then pitch, then roll, of the rotation matrix."""
    task, rng = tasks(name), np.random.default_rng(1)
    for _ in range(50):
        qpos, qvel = any_state(task, rng)
        pose = task.pose(np, qpos, qvel)
        turn = Rotation.from_quat(qpos[3:7], scalar_first=True)
        angles = turn.as_euler("ZYX")
        np.testing.assert_allclose((pose.yaw, pose.pitch, pose.roll), angles, atol=1e-7)


@pytest.mark.parametrize("name", PLANAR)
def test_attitude_of_a_planar_robot_is_its_euler_angles(tasks, name):
    """Beyond a right angle too, where roll and yaw are half a turn to either side."""
    task = tasks(name)
    qpos, qvel = np.zeros(task.machine.model.nq), np.zeros(task.machine.model.nv)
    for angle in np.linspace(-7, 7, 57):
        qpos[2] = angle
        pose = task.pose(np, qpos, qvel)
        yaw, pitch, roll = Rotation.from_euler("y", angle).as_euler("ZYX")
        assert pose.pitch == pytest.approx(pitch, abs=1e-7)
        for mine, theirs in ((pose.yaw, yaw), (pose.roll, roll)):
            assert np.exp(1j * mine) == pytest.approx(np.exp(1j * theirs), abs=1e-7)
            assert mine in (0, np.pi)


@pytest.mark.parametrize("name", WALKERS)
def test_height_and_velocity_are_those_of_the_torso_s_centre(tasks, name):
    """Its place in MuJoCo, and the difference quotient of it along the motion."""
    task, rng, h = tasks(name, "bullet"), np.random.default_rng(2), 1e-6
    model = task.machine.model
    for _ in range(20):
        qpos, qvel = any_state(task, rng)
        ends = []
        for way in (-h, h):
            data = data_at(task, qpos, qvel)
            mujoco.mj_integratePos(model, data.qpos, qvel, way)
            mujoco.mj_forward(model, data)
            ends.append(data.body("torso").xipos.copy())
        pose = task.pose(np, qpos, qvel)
        velocity = (ends[1] - ends[0]) / (2 * h)
        np.testing.assert_allclose((pose.vx, pose.vy, pose.vz), velocity, atol=1e-8)
        here = data_at(task, qpos).body("torso").xipos
        assert pose.height == pytest.approx(here[2], abs=1e-12)


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("Hopper", 10),
        ("Walker2d", 16),
        ("HalfCheetah", 16),
        ("Ant", 20),
        ("Humanoid", 29),
    ],
)
def test_the_place_is_the_mean_over_bullet_s_links(tasks, name, links):
    """One link for each joint, at its anchor, and one for each body, at its centre of
    mass; planar roots are joints too. PyBullet adds a free torso, and the floor at 0."""
    task, rng = tasks(name), np.random.default_rng(3)
    model = task.machine.model
    data = data_at(task, *any_state(task, rng))
    parts = []
    for k, body in enumerate(task.machine.robot.bodies):
        turn = data.body(body.name).xmat.reshape(3, 3)
        centre = data.body(body.name).xpos + turn @ body.com
        parts += [data.joint(hinge.name).xanchor.copy() for hinge in body.joints]
        if k > 0:
            parts.append(centre)
        elif task.planar:  # its three joints move along: they are where the frame is
            parts += [centre] + 3 * [data.body("torso").xpos.copy()]
    assert len(parts) == links
    np.testing.assert_allclose(
        task.place(np, data.sensordata), np.mean(parts, 0)[:2], atol=1e-6
    )
    more = ([] if task.planar else [data.body("torso").xipos]) + [np.zeros(3)]
    bullet = tasks(name, "bullet").place(np, data.sensordata)
    np.testing.assert_allclose(bullet, np.mean(parts + more, 0)[:2], atol=1e-6)
    assert model.nsensordata == len(data.sensordata)


# --- what it sees -------------------------------------------------------------------------


def test_the_whole_observation_of_a_hopper(tasks):
    """Every entry in its place, written out for one state."""
    task = tasks("Hopper")
    q, v = np.array([-0.5, -1.0, 0.2]), np.array([0.7, -3.0, 60.0])
    x, z, pitch, vx, vz, spin = 2.0, 0.1, 0.3, 1.5, -0.4, 0.5
    scene = scene_at(task, [x, z, pitch, *q], [vx, vz, spin, *v])
    low, high = joint_limits(task.machine.robot)
    sin, cos, arm = np.sin(pitch), np.cos(pitch), 1.25
    expected = [
        z + arm * cos - 1.25, 0, 1,
        0.3 * (vx + arm * spin * cos + v[0] * cos), 0,
        0.3 * (vz - arm * spin * sin - v[0] * sin), 0, pitch,
    ]  # fmt: skip
    for k in range(3):
        expected += [2 * (q[k] - low[k]) / (high[k] - low[k]) - 1, 0.1 * v[k]]
    expected = np.clip([*expected, 1], -5, 5)
    assert expected[13] == 5  # a speed of 60 rad/s is off the scale
    obs = task.observe(np, scene, np.array([True]))
    np.testing.assert_allclose(obs, expected, atol=1e-6)


@pytest.mark.parametrize("name", WALKERS)
def test_the_first_joint_is_in_the_velocity_of_planar_robots(tasks, name):
    """Roboschool adds its speed along the torso's own x axis; its port does not, and
    nothing else of the observation tells the two apart but the place."""
    ours, port = tasks(name), tasks(name, "bullet")
    state = any_state(ours, np.random.default_rng(4))
    quirk = ours.pose(np, *state), port.pose(np, *state)
    extra = np.subtract(*([p.vx, p.vy, p.vz] for p in quirk))
    first = state[1][-ours.joints] if ours.planar else 0.0
    along = Rotation.from_euler("y", state[0][2]).apply([first, 0, 0])
    np.testing.assert_allclose(extra, along, atol=1e-12)


def test_heading_turns_with_the_robot_and_its_target(tasks):
    """A robot turned left by 0.5 rad sees the target to its right, and its own motion in
    its own frame."""
    task = tasks("Ant")
    qpos, qvel = standing(task), np.zeros(task.machine.model.nv)
    qpos[3:7] = Rotation.from_euler("z", 0.5).as_quat(scalar_first=True)
    qvel[:2] = np.cos(0.5), np.sin(0.5)
    scene = scene_at(task, qpos, qvel)
    obs = task.observe(np, scene, no_flags(task))
    np.testing.assert_allclose(obs[1:3], (np.sin(-0.5), np.cos(-0.5)), atol=1e-3)
    np.testing.assert_allclose(obs[3:6], (0.3, 0, 0), atol=1e-6)


# --- how it begins ------------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["roboschool", "bullet"])
@pytest.mark.parametrize("name", WALKERS)
def test_an_episode_begins_around_the_first_pose(tasks, name, rules):
    """Joints within 0.1 rad of 0 whatever their limits, in drawing order; the torso's
    centre of mass where it should be, upright."""
    task, rng = tasks(name, rules), np.random.default_rng(11)
    u, m = rng.random((200, task.draws)), task.joints
    qpos = task.initial(np, u)
    np.testing.assert_allclose(qpos[:, -m:], 0.2 * u[:, :m] - 0.1, atol=1e-15)
    heights = {"Hopper": 1.25, "Walker2d": 1.25, "HalfCheetah": 0.7, "Ant": 0.75,
               "Humanoid": 1.4}  # fmt: skip
    for row in qpos[:10]:
        centre = data_at(task, row).body("torso").xipos
        np.testing.assert_allclose(centre, [0, 0, heights[name]], atol=1e-12)
    pose = task.pose(np, qpos, np.zeros((200, task.machine.model.nv)))
    assert not np.any(pose.roll)
    assert not np.any(pose.pitch)
    assert not np.any([pose.vx, pose.vy, pose.vz])


def test_a_humanoid_begins_in_any_of_a_fan_of_directions(tasks):
    """Yaw within pi/16, from the last number drawn; none in the port. Its height counts
    from 0.8 m."""
    task, rng = tasks("Humanoid"), np.random.default_rng(12)
    u = rng.random((2000, task.draws))
    still = np.zeros((2000, task.machine.model.nv))
    yaw = task.pose(np, task.initial(np, u), still).yaw
    np.testing.assert_allclose(yaw, np.pi / 16 * (2 * u[:, -1] - 1), atol=1e-12)
    assert np.ptp(yaw) == pytest.approx(np.pi / 8, rel=0.01)
    port = tasks("Humanoid", "bullet")
    assert not np.any(port.pose(np, port.initial(np, u), still).yaw)
    scene = scene_at(task, standing(task))
    assert task.observe(np, scene, no_flags(task))[0] == pytest.approx(0.6)


def test_an_ant_begins_in_one_direction(tasks):
    """Roboschool turned the Humanoid alone."""
    task = tasks("Ant")
    u = np.random.default_rng(13).random((100, task.draws))
    qpos = task.initial(np, u)
    assert (qpos[:, 3:7] == [1, 0, 0, 0]).all()


@pytest.mark.parametrize(
    ("name", "middle"), list(zip(PENDULUMS, (0, 3.1415), strict=True))
)
def test_a_pole_begins_upright_or_hanging(tasks, name, middle):
    """Within 0.1 rad; the cart in the middle."""
    task = tasks(name)
    qpos = task.initial(np, np.array([[0.0], [0.5], [1.0]]))
    np.testing.assert_allclose(qpos[:, 0], 0)
    np.testing.assert_allclose(qpos[:, 1], [middle - 0.1, middle, middle + 0.1])
    tip = data_at(task, qpos[1]).body("pole").xipos[2]
    assert tip == pytest.approx(0.3 if middle == 0 else -0.3, abs=1e-4)


@pytest.mark.parametrize(
    ("angle", "falls"), [(0, False), (0.1999, False), (0.2001, True), (-0.2001, True)]
)
def test_a_pole_falls_beyond_a_fifth(tasks, angle, falls):
    """The swing-up never ends and is paid the cosine; both see five numbers, unscaled."""
    scene = scene_at(tasks("InvertedPendulum"), [0.3, angle], [2.0, -7.0])
    for name, swings in PENDULUMS.items():
        task = tasks(name)
        moment = task.score(np, scene.sensors, no_flags(task), scene, np.zeros(1))
        assert moment.terminated == (falls and not swings)
        (pay,) = moment.terms.values()
        assert pay == (np.cos(angle) if swings else 1)
        seen = [0.3, 2.0, np.cos(angle), np.sin(angle), -7.0]
        np.testing.assert_allclose(moment.obs, seen, rtol=1e-6)


# --- drag, rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_drag_grows_with_the_square_of_speed(tasks, name):
    """Against MuJoCo's velocity of each body: -0.04 m v (1 + |v|) at its centre of mass,
    and so the torque with one inertia a body."""
    task, rng = tasks(name), np.random.default_rng(14)
    model, robot = task.machine.model, task.machine.robot
    data = data_at(task, *any_state(task, rng))
    coefficients = drag_coefficients(task.machine)
    mine = drag(np, coefficients, data.sensordata, task.machine.sensors.places)
    mine = mine.reshape(-1, 2, 3)
    assert len(mine) == len(robot.bodies) == model.nbody - 1
    for body, (force, torque) in zip(robot.bodies, mine, strict=True):
        both = np.zeros(6)
        kind, own = mujoco.mjtObj.mjOBJ_BODY, model.body(body.name).id
        mujoco.mj_objectVelocity(model, data, kind, own, both, 0)
        spin, v = both[:3], both[3:]
        free = robot.root == "free"
        inertia = np.mean(body.inertia) if free else body.inertia[1]
        for found, rate, weight in ((force, v, body.mass), (torque, spin, inertia)):
            expected = -0.04 * weight * rate * (1 + np.linalg.norm(rate))
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rules", ["roboschool", "bullet"])
@pytest.mark.parametrize("name", TASKS)
def test_a_row_does_not_depend_on_its_neighbours(tasks, name, rules):
    """Judged alone a world has the very bits that it has among 64."""
    task, rng = tasks(name, rules), np.random.default_rng(15)
    states = [scene_at(task, *any_state(task, rng)) for _ in range(64)]
    scenes = Scene(*(np.stack(x) for x in zip(*states, strict=True)))
    before = scenes.sensors + rng.normal(0, 0.01, scenes.sensors.shape)
    flags = rng.random((64, len(task.machine.robot.feet))) < 0.5
    action = rng.uniform(-2, 2, (64, task.joints)).astype(np.float32)
    all_64 = task.score(np, before, flags, scenes, action)
    many = (all_64.obs, all_64.terminated, all_64.flags, *all_64.terms.values())
    coefficients, places = drag_coefficients(task.machine), task.machine.sensors.places
    pulls = drag(np, coefficients, scenes.sensors, places)
    for k in range(64):
        row = slice(k, k + 1)
        one = task.score(
            np, before[row], flags[row], Scene(*(x[row] for x in scenes)), action[row]
        )
        alone = (one.obs, one.terminated, one.flags, *one.terms.values())
        for mine, theirs in zip(many, alone, strict=True):
            assert mine[row].tobytes() == theirs.tobytes()
        pull = drag(np, coefficients, scenes.sensors[row], places)
        assert pulls[row].tobytes() == pull.tobytes()
    u = rng.random((64, task.draws))
    starts = task.initial(np, u)
    assert all(
        starts[k].tobytes() == task.initial(np, u[k]).tobytes() for k in range(64)
    )
