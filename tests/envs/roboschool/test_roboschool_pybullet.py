"""The tasks against PyBullet's port of them: sight and pay on the same states, motion in
the air, masses. Bullet is the engine that Roboschool ran on."""

import json
from typing import NamedTuple

import gymnasium
import mujoco
import numpy as np
import pytest
from tests.faults.commands import TINY, command_alone

from penfac.envs.roboschool.cpu import START_TIME, CpuEngine, WorldStates
from penfac.envs.roboschool.model import axis_lengths
from penfac.envs.roboschool.physics import Physics
from penfac.envs.roboschool.pose import rotate
from penfac.envs.roboschool.records import Scene
from penfac.envs.roboschool.task import make_task
from penfac.envs.roboschool.walker import WalkerTask

pytest.importorskip("pybullet_envs_gymnasium")
pybullet = pytest.importorskip("pybullet")
pytestmark = pytest.mark.slow

WALKERS = ("Hopper", "Walker2d", "HalfCheetah", "Ant", "Humanoid")
PENDULUMS = ("InvertedPendulum", "InvertedPendulumSwingup")
PLACES = 1e-5
PACE = (
    3e-5  # m/s: the tables' sixth digit, 0.1 um in the mean of all parts, over 16.5 ms
)


class Peer(NamedTuple):
    """PyBullet's environment of the same task; its physics are played by hand."""

    env: gymnasium.Env
    task: WalkerTask

    @property
    def inner(self):
        return self.env.unwrapped

    @property
    def body(self) -> int:
        return self.inner.robot.objects[0]

    @property
    def bullet(self):
        return self.inner._p

    def links(self) -> dict[str, int]:
        """Index of each link with a mass, by its name; the base is -1."""
        found = {"torso": -1}
        for j in range(self.bullet.getNumJoints(self.body)):
            found[self.bullet.getJointInfo(self.body, j)[12].decode()] = j
        return found

    def hinges(self) -> list[int]:
        """Index of each motor's joint, in our order."""
        made = {
            self.bullet.getJointInfo(self.body, j)[1].decode(): j
            for j in range(self.bullet.getNumJoints(self.body))
        }
        bodies = self.task.machine.robot.bodies
        return [made[hinge.name] for body in bodies for hinge in body.joints]

    def angles(self) -> np.ndarray:
        states = self.bullet.getJointStates(self.body, self.hinges())
        return np.array([state[0] for state in states])

    def put(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Our state in Bullet: it places and moves the torso's centre of mass."""
        reset, task = self.bullet.resetJointState, self.task
        if task.planar:
            for j in range(3):
                reset(self.body, j, qpos[j], qvel[j])
        else:
            turn, spin = qpos[3:7], qvel[3:6]
            arm = np.array(task.torso)
            place = qpos[:3] + rotate(turn, arm)
            speed = qvel[:3] + rotate(turn, np.cross(spin, arm))
            self.bullet.resetBasePositionAndOrientation(
                self.body, place, turn[[1, 2, 3, 0]]
            )
            self.bullet.resetBaseVelocity(self.body, speed, rotate(turn, spin))
        m = task.joints
        # qvel is the speed of a link; the angle's is less where an axis is longer than 1
        speeds = qvel[-m:] / axis_lengths(task.machine.robot)
        for j, q, v in zip(self.hinges(), qpos[-m:], speeds, strict=True):
            reset(self.body, j, q, v)
        # link poses are cached: have them worked out anew
        self.bullet.getLinkState(self.body, 0, computeForwardKinematics=1)


def open_peer(name: str) -> Peer:
    """The floor is among the parts whose mean is taken only from the second reset on, so
    it is reset twice."""
    env = gymnasium.make(f"{name.replace('2d', '2D')}BulletEnv-v0")
    for seed in range(2):
        env.reset(seed=seed)
    return Peer(env, make_task(name, "bullet"))


@pytest.fixture
def peer(name):
    """PyBullet's environment of the test's name."""
    opened = open_peer(name)
    yield opened
    opened.env.close()


def any_state(task: WalkerTask, rng) -> tuple[np.ndarray, np.ndarray]:
    """Somewhere over the floor in any attitude, joints around their range, all moving."""
    model, m = task.machine.model, task.joints
    qpos, qvel = np.zeros(model.nq), rng.normal(0, 2, model.nv)
    if task.planar:
        qpos[:3] = rng.uniform((-3, -0.2, -2.5), (3, 0.5, 2.5))
    else:
        qpos[:3] = rng.uniform((-3, -3, 0.1), (3, 3, 1.5))
        turn = rng.normal(size=4)
        qpos[3:7] = turn / np.linalg.norm(turn)
    qpos[-m:] = task.middle + rng.uniform(-1.1, 1.1, m) / task.per_range
    qvel[-m:] = rng.normal(0, 8, m)
    return qpos, qvel


def agree(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Observations to float32. The roll of a robot upside down is half a turn to either
    side: which one is a matter of the last bit, in Bullet itself too."""
    assert ours.dtype == np.float32
    turns = np.round((ours[6] - theirs[6]) / (2 * np.pi))
    assert turns == 0 or abs(abs(theirs[6]) - np.pi) < PLACES
    theirs = theirs.copy()
    theirs[6] += 2 * np.pi * turns
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=PLACES)


def sensors_of(task, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(task.machine.model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(task.machine.model, data)
    return data.sensordata.copy()


def scene_of(task, qpos, qvel) -> Scene:
    return Scene(qpos, qvel, sensors_of(task, qpos, qvel))


@pytest.mark.parametrize("name", WALKERS)
def test_a_walker_sees_what_pybullet_shows(peer, name):
    """The whole observation on random states, foot flags included, to float32."""
    task, rng = peer.task, np.random.default_rng(0)
    robot = peer.inner.robot
    robot.initial_z = task.machine.robot.zero_height
    for _ in range(50):
        state = any_state(task, rng)
        flags = rng.random(len(task.machine.robot.feet)) < 0.5
        peer.put(*state)
        robot.feet_contact = flags.astype(np.float32)
        theirs = robot.calc_state().astype(np.float32)
        ours = task.observe(np, scene_of(task, *state), flags)
        agree(ours, theirs)


@pytest.mark.parametrize("name", WALKERS)
def test_a_walker_is_paid_as_pybullet_pays(peer, name, monkeypatch):
    """Every term of the reward, and the end, with PyBullet's own step around states put
    in place of its physics; actions reach beyond their bounds."""
    task, rng, inner = peer.task, np.random.default_rng(1), peer.inner
    inner.robot.initial_z = task.machine.robot.zero_height
    state = any_state(task, rng)
    peer.put(*state)
    inner.robot.calc_state()
    inner.potential = inner.robot.calc_potential()
    before = sensors_of(task, *state)
    ends = set()
    for _ in range(50):
        state = any_state(task, rng)
        monkeypatch.setattr(inner.scene, "global_step", lambda s=state: peer.put(*s))
        flags = rng.random(len(task.machine.robot.feet)) < 0.2
        inner.robot.feet_contact = flags.astype(np.float32)
        action = rng.uniform(-1.5, 1.5, task.joints).astype(np.float32)
        obs, reward, done, _, _ = inner.step(action)
        alive, progress, effort, limits, _ = inner.rewards
        scene = scene_of(task, *state)
        mine = task.score(np, before, flags, scene, action)
        terms = mine.terms
        agree(mine.obs, obs)
        assert terms["alive"] == alive
        assert terms["joints_at_limit"] == pytest.approx(limits, abs=1e-12)
        moved = task.progress(np, before, scene.sensors)
        assert terms["progress"] == moved == pytest.approx(progress, abs=PACE)
        mine_effort = terms["electricity"] + terms["stall_torque"]
        assert mine_effort == pytest.approx(effort, rel=1e-6, abs=PLACES)
        assert sum(terms.values()) == pytest.approx(reward, rel=1e-6, abs=PLACES + PACE)
        assert bool(mine.terminated) == done
        ends.add((alive, done))
        before = scene.sensors
    alive = task.walk.alive
    assert ends == {(alive, False), (-1.0, name != "HalfCheetah")}


@pytest.mark.parametrize("name", WALKERS)
def test_feet_touch_the_floor_where_bullet_says(peer, name):
    """Over random states near the floor the flags are those of Bullet's contact points,
    unless a foot is within 0.1 mm of where it changes."""
    task, rng = peer.task, np.random.default_rng(2)
    floor = next(iter(peer.inner.ground_ids))
    seen = np.zeros(2, int)
    for _ in range(200):
        qpos, qvel = any_state(task, rng)
        sensors = sensors_of(task, qpos, qvel)
        gaps = sensors[3 * task.foot_ends + 2].min(-1) - task.foot_reach
        up = 1 if task.planar else 2
        qpos[up] += rng.uniform(-0.01, 0.01) - rng.choice(gaps)
        peer.put(qpos, qvel)
        peer.bullet.performCollisionDetection()
        theirs = [
            bool({floor} & {(x[2], x[4]) for x in foot.contact_list()})
            for foot in peer.inner.robot.feet
        ]
        sensors = sensors_of(task, qpos, qvel)
        gaps = sensors[3 * task.foot_ends + 2].min(-1) - task.foot_reach
        sure = np.abs(gaps) > 1e-4
        ours = task.touching(np, sensors)
        np.testing.assert_array_equal(ours[sure], np.array(theirs)[sure])
        seen += [np.sum(~ours), np.sum(ours)]
    assert seen.min() > 20


@pytest.mark.parametrize("name", PENDULUMS)
def test_a_pendulum_is_seen_and_paid_as_pybullet_does(name, monkeypatch):
    """Observation, reward and end on random states."""
    env = gymnasium.make(f"{name}BulletEnv-v0")
    env.reset(seed=0)
    inner, task, rng = env.unwrapped, make_task(name), np.random.default_rng(0)
    joints = inner.robot.slider, inner.robot.j1
    for k in range(50):
        reach = 0.3 if k % 2 else 4
        qpos, qvel = rng.uniform(-reach, reach, 2), rng.normal(0, 3, 2)

        def put(qpos=qpos, qvel=qvel):
            for joint, q, v in zip(joints, qpos, qvel, strict=True):
                joint.set_state(q, v)

        monkeypatch.setattr(inner.scene, "global_step", put)
        action = rng.uniform(-2, 2, 1).astype(np.float32)
        obs, reward, done, _, _ = inner.step(action)
        nothing = np.zeros(0, bool)
        mine = task.score(np, None, nothing, Scene(qpos, qvel, None), action)
        np.testing.assert_allclose(mine.obs, obs, rtol=1e-6, atol=1e-6)
        assert sum(mine.terms.values()) == pytest.approx(reward, abs=1e-12)
        assert bool(mine.terminated) == done
    env.close()


# --- motion in the air --------------------------------------------------------------------


def fly(peer: Peer, seed: int, push: float) -> np.ndarray:
    """Largest difference of each joint's angle to Bullet's in six control steps of
    constant torques, metres above the floor, without drag, armature or damping."""
    bare = Physics(drag=0.0, armature=0.0, damping=0.0)
    task = make_task(peer.task.machine.robot.name, "bullet", bare)
    engine, m, rng = (
        CpuEngine(task, threads=0),
        task.joints,
        np.random.default_rng(seed),
    )
    qpos, qvel = np.zeros(engine.nq), np.zeros(engine.nv)
    qpos[-m:] = task.middle + rng.uniform(-0.1, 0.1, m) / task.per_range
    if task.planar:
        qpos[1:3] = 5, rng.uniform(-0.5, 0.5)
    else:
        yaw = rng.uniform(-3, 3)
        qpos[2:7] = 5, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)
    action = rng.uniform(-push, push, m)
    flags = np.zeros((1, len(task.machine.robot.feet)), bool)
    physics = np.concatenate([[START_TIME], qpos, qvel])[None]
    worlds = WorldStates(physics, sensors_of(task, qpos, qvel)[None], flags)
    peer.put(qpos, qvel)
    for j in range(-1, peer.bullet.getNumJoints(peer.body)):
        peer.bullet.changeDynamics(peer.body, j, linearDamping=0, angularDamping=0)
    apart, moved = np.zeros(m), np.zeros(m)
    for _ in range(6):
        worlds, moment, broken = engine.step(worlds, action[None])
        assert not broken
        assert moment.terms["joints_at_limit"] == 0
        ours = worlds.physics[0, 1 : 1 + engine.nq][-m:]
        peer.inner.robot.apply_action(action)
        peer.inner.scene.global_step()
        apart = np.maximum(apart, np.abs(ours - peer.angles()))
        moved = np.maximum(moved, np.abs(ours - qpos[-m:]))
    engine.close()
    assert moved.max() > 0.05
    return apart


@pytest.mark.parametrize(
    ("name", "push"), [("Hopper", 0.2), ("Walker2d", 0.2), ("HalfCheetah", 0.05)]
)
def test_a_planar_robot_flies_as_in_bullet(peer, name, push):
    """Masses, inertias, anchors, motors and the integrator: joint angles to 1e-4 rad."""
    for seed in range(5):
        assert fly(peer, seed, push).max() < 1e-4


@pytest.mark.parametrize(("name", "push"), [("Ant", 0.2), ("Humanoid", 0.05)])
def test_a_free_robot_flies_as_in_bullet(peer, name, push):
    """All joints to 1e-4 rad, the Ant's ankles and the Humanoid's arms among them: their
    axes are longer than 1, so their links move faster than their angles."""
    assert axis_lengths(peer.task.machine.robot).max() > 1.4
    for seed in range(5):
        assert fly(peer, seed, push).max() < 1e-4


# --- limbs that meet ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Humanoid"])
def test_feet_strike_limbs_where_bullet_says(peer, name):
    """Over random poses, and first ones of episodes with their feet side by side, the
    number of feet that touch another limb is that of Bullet's contact points, unless one
    is within 0.1 mm of where it changes."""
    task, rng, links = peer.task, np.random.default_rng(4), peer.links()
    feet = [links[foot] for foot in task.machine.robot.feet]
    found = []
    for k in range(1000):
        qpos, qvel = any_state(task, rng)
        qpos[2] += 3
        if k % 2:
            qpos[-17:] = rng.uniform(-0.1, 0.1, 17)
        peer.put(qpos, qvel)
        peer.bullet.performCollisionDetection()
        points = peer.bullet.getContactPoints(peer.body, peer.body)
        struck = {link for point in points for link in (point[3], point[4])}
        sensors = sensors_of(task, qpos, qvel)
        if task.strikes(np, sensors, -1e-4) == task.strikes(np, sensors, 1e-4):
            assert task.strikes(np, sensors) == len(struck & set(feet))
            found.append(len(struck & set(feet)))
    assert len(found) > 980
    assert {0, 1, 2} <= set(found)


@pytest.mark.parametrize("name", ["Humanoid"])
def test_feet_that_begin_in_each_other_fly_apart_as_in_bullet(peer, name):
    """Bullet undoes 0.9 of an overlap in its first sub-step and the legs keep that speed:
    how far apart the feet are after one control step, to a quarter."""
    task, rng = peer.task, np.random.default_rng(5)
    engine, links, ratios = CpuEngine(task, threads=0), peer.links(), []

    def apart(ends) -> float:
        return float(np.linalg.norm(np.subtract(*ends)))

    while len(ratios) < 20:
        qpos = task.initial(np, rng.random(task.draws))
        qpos[2] += 3
        still = np.zeros(engine.nv)
        sensors = sensors_of(task, qpos, still)
        centres = sensors.reshape(-1, 3)[task.foot_ends[:, 0]]
        if not 0.06 < apart(centres) < 0.14:
            continue
        state = np.concatenate([[START_TIME], qpos, still])[None]
        ours, _ = engine.play(state, 0.0, 0.0, task.sub_steps)
        last = sensors_of(task, ours[0, 1 : 1 + engine.nq], still)
        peer.put(qpos, still)
        peer.inner.robot.apply_action(np.zeros(task.joints))
        peer.inner.scene.global_step()
        theirs = []
        for foot in task.machine.robot.feet:
            at = peer.bullet.getLinkState(peer.body, links[foot], 0, 1)
            theirs.append(at[4] + np.array(rotate(np.array(at[5])[[3, 0, 1, 2]], UP)))
        mine = apart(last.reshape(-1, 3)[task.foot_ends[:, 0]]) - apart(centres)
        ratios.append(mine / (apart(theirs) - apart(centres)))
    engine.close()
    assert 0.75 < np.mean(ratios) < 1.25, ratios


UP = np.array([0, 0, 0.1])  # the centre of a foot's sphere above the origin of its body


# --- joints beyond their limits -------------------------------------------------------------


@pytest.mark.parametrize("name", ["Ant"])
def test_an_ant_that_does_nothing_ends_as_in_bullet(peer, name):
    """Its ankles begin beyond their limits and nothing pushes them back, so it falls on
    its belly: in the same control step, give or take one."""
    task, rng = peer.task, np.random.default_rng(6)
    engine = CpuEngine(task, threads=0)
    for _ in range(3):
        u = rng.random((1, task.draws))
        worlds, _ = engine.start(u)
        peer.env.reset()
        peer.put(task.initial(np, u[0]), np.zeros(engine.nv))
        ends = [0, 0]
        for t in range(1, 41):
            worlds, moment, _ = engine.step(worlds, np.zeros((1, task.joints)))
            done = peer.inner.step(np.zeros(task.joints, np.float32))[2]
            for k, over in enumerate((moment.terminated[0], done)):
                ends[k] = ends[k] or t * bool(over)
        assert min(ends) > 0
        assert abs(ends[0] - ends[1]) <= 1
    engine.close()


# --- masses -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WALKERS)
def test_every_link_weighs_what_bullet_makes_of_it(peer, name):
    """Mass, centre of mass and inertia of each link to the digits of the tables, in the
    model as MuJoCo compiled it; links that Bullet adds are without mass."""
    model, links, named = peer.task.machine.model, peer.links(), set()
    for body in peer.task.machine.robot.bodies:
        facts = peer.bullet.getDynamicsInfo(peer.body, links[body.name])
        own = model.body(body.name)
        np.testing.assert_allclose(own.mass, facts[0], rtol=0, atol=5e-6)
        np.testing.assert_allclose(own.ipos, facts[3], atol=1e-7)
        np.testing.assert_allclose(own.inertia, facts[2], atol=6e-7)
        np.testing.assert_allclose(own.iquat, [1, 0, 0, 0])
        named.add(links[body.name])
    rest = set(links.values()) | {-1}
    for j in rest - named:
        assert peer.bullet.getDynamicsInfo(peer.body, j)[0] == 0


@pytest.mark.parametrize("name", WALKERS)
def test_limits_and_motors_are_pybullet_s(peer, name):
    """The range that the observation is scaled by, and the torque at action 1, over the
    length of Bullet's axis."""
    robot = peer.task.machine.robot
    hinges = [hinge for body in robot.bodies for hinge in body.joints]
    torques = []
    for hinge, own in zip(hinges, peer.inner.robot.ordered_joints, strict=True):
        assert own.joint_name == hinge.name
        assert (hinge.low, hinge.high) == pytest.approx(
            (own.lowerLimit, own.upperLimit)
        )
        assert hinge.axis == peer.bullet.getJointInfo(peer.body, own.jointIndex)[13]
        torques.append(peer.inner.robot.power * own.power_coef)
    if name == "Humanoid":
        torques = peer.inner.robot.power * np.array(peer.inner.robot.motor_power)
    length = np.array([np.linalg.norm(hinge.axis) for hinge in hinges])
    gear = peer.task.machine.model.actuator_gear[:, 0]
    np.testing.assert_allclose(gear * length, torques)


def test_the_cart_and_pole_weigh_what_bullet_makes_of_them():
    """As the walkers' links."""
    env = gymnasium.make("InvertedPendulumBulletEnv-v0")
    env.reset(seed=0)
    inner, model = env.unwrapped, make_task("InvertedPendulum").machine.model
    for name in ("cart", "pole"):
        part = inner.robot.parts[name]
        body = part.bodies[part.bodyIndex]
        facts = inner._p.getDynamicsInfo(body, part.bodyPartIndex)
        own = model.body(name)
        np.testing.assert_allclose(own.mass, facts[0], rtol=0, atol=5e-6)
        np.testing.assert_allclose(own.ipos, facts[3], atol=1e-7)
        np.testing.assert_allclose(own.inertia, facts[2], atol=6e-7)
    env.close()


def test_the_port_itself_can_be_trained_on(tmp_path):
    """By its id; what it prints on standard output does not spoil the JSON."""
    words = ["--env=HopperBulletEnv-v0", "--json", *TINY]
    done = command_alone("train", *words, cwd=tmp_path)
    assert done.code == 0
    assert json.loads(done.out)["state"] == "finished"
