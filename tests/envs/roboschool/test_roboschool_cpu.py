"""The threaded engine: the same bits however worlds are played, no silent blow-up, energy,
and how far doing nothing or anything gets."""

import gymnasium
import mujoco
import numpy as np
import pytest

import penfac.envs  # noqa: F401  registers the ids
from penfac.envs.mujoco_warnings import hear_mujoco
from penfac.envs.roboschool.cpu import START_TIME, CpuEngine, WorldStates
from penfac.envs.roboschool.task import PENDULUMS, WALKS, make_task
from penfac.errors import EnvironmentFault

TASKS = (*WALKS, *PENDULUMS)
TOO_FAST = 1e11  # beyond what MuJoCo takes for a number


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """MuJoCo writes its warnings to no file."""
    hear_mujoco()


@pytest.fixture(scope="module")
def engines():
    """Engines by task and threads, opened once."""
    made = {}

    def get(name: str, threads: int = 2, rules: str = "roboschool") -> CpuEngine:
        if (name, threads, rules) not in made:
            made[name, threads, rules] = CpuEngine(make_task(name, rules), threads)
        return made[name, threads, rules]

    yield get
    for engine in made.values():
        engine.close()


def bits(worlds: WorldStates) -> list[bytes]:
    return [x.tobytes() for x in worlds]


def random_walk(engine: CpuEngine, worlds: WorldStates, seed: int, steps: int) -> list:
    """Each step's bits of worlds, observation and reward under actions of a seed."""
    rng, trace = np.random.default_rng(seed), []
    for _ in range(steps):
        action = rng.uniform(-1.2, 1.2, (len(worlds.physics), engine.nu))
        worlds, moment, broken = engine.step(worlds, action)
        assert not broken.any()
        terms = [term.tobytes() for term in moment.terms.values()]
        trace.append([*bits(worlds), moment.obs.tobytes(), *terms])
    return trace


# --- the same bits ------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_the_same_numbers_give_the_same_trajectory(engines, name):
    """In the same engine and in a fresh one."""
    engine = engines(name)
    u = np.random.default_rng(0).random((8, engine.task.draws))
    fresh = CpuEngine(make_task(name), threads=2)
    traces = []
    for played in (engine, engine, fresh):
        worlds, obs = played.start(u)
        traces.append([obs.tobytes(), random_walk(played, worlds, 1, 60)])
    fresh.close()
    assert traces[0] == traces[1] == traces[2]


@pytest.mark.parametrize("name", TASKS)
def test_a_saved_world_goes_on_elsewhere(engines, name, tmp_path):
    """Two of eight worlds, saved as arrays after 40 steps, go on with the very bits among
    three strangers, in a new engine without threads."""
    engine, rng = engines(name), np.random.default_rng(2)
    worlds, _ = engine.start(rng.random((8, engine.task.draws)))
    actions = rng.uniform(-1, 1, (80, 8, engine.nu))
    for action in actions[:40]:
        worlds, _, _ = engine.step(worlds, action)
    np.savez(tmp_path / "saved", **worlds.rows([5, 2])._asdict())
    other = CpuEngine(make_task(name), threads=0)
    mixed, _ = other.start(rng.random((5, engine.task.draws)))
    with np.load(tmp_path / "saved.npz") as saved:
        mixed.put([1, 4], WorldStates(**saved))
    for action in actions[40:]:
        worlds, moment, _ = engine.step(worlds, action)
        theirs = rng.uniform(-1, 1, (5, engine.nu))
        theirs[[1, 4]] = action[[5, 2]]
        mixed, other_moment, _ = other.step(mixed, theirs)
        assert bits(worlds.rows([5, 2])) == bits(mixed.rows([1, 4]))
        assert moment.obs[[5, 2]].tobytes() == other_moment.obs[[1, 4]].tobytes()
    other.close()


@pytest.mark.parametrize("name", TASKS)
def test_worlds_are_played_in_any_order_and_company(engines, name):
    """One at a time, in random subsets, all at once: each world's path has one set of
    bits."""
    engine, rng = engines(name), np.random.default_rng(3)
    together, _ = engine.start(rng.random((6, engine.task.draws)))
    apart = WorldStates(*(x.copy() for x in together))
    for step in range(40):
        action = rng.uniform(-1, 1, (6, engine.nu))
        together, _, _ = engine.step(together, action)
        order = rng.permutation(6)
        for rows in np.split(order, np.sort(rng.integers(0, 7, 2))):
            if len(rows):
                after, _, _ = engine.step(apart.rows(rows), action[rows])
                apart.put(rows, after)
        assert bits(apart) == bits(together), f"step {step}"


@pytest.mark.parametrize("name", TASKS)
def test_a_first_observation_does_not_depend_on_neighbours(engines, name):
    """One world started alone sees what it sees among eight."""
    engine = engines(name)
    u = np.random.default_rng(4).random((8, engine.task.draws))
    worlds, obs = engine.start(u)
    for k in range(8):
        one, seen = engines(name, 0).start(u[k : k + 1])
        assert seen.tobytes() == obs[k : k + 1].tobytes()
        assert bits(one) == bits(worlds.rows([k]))


def test_a_step_leaves_its_worlds_alone(engines):
    """What was given is not written into: a world can be gone back to."""
    engine = engines("Hopper")
    worlds, _ = engine.start(np.full((3, engine.task.draws), 0.3))
    before = bits(worlds)
    first, _, _ = engine.step(worlds, np.ones((3, engine.nu)))
    kept = bits(first)
    engine.step(worlds, -np.ones((3, engine.nu)))
    assert bits(worlds) == before
    assert bits(first) == kept


def test_buffers_are_those_of_the_largest_company():
    """Playing every number of worlds up to 20 holds no more than playing 20."""
    engine = CpuEngine(make_task("Hopper"), threads=0)
    for count in (*range(1, 21), 5):
        worlds, _ = engine.start(np.full((count, engine.task.draws), 0.5))
        engine.step(worlds, np.zeros((count, engine.nu)))
    held = [len(buffer.control) for buffer in engine.buffers.values()]
    assert held == [20, 20]
    engine.close()


# --- blow-ups -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("steps", [0, 7])
def test_a_world_that_blows_up_is_told_and_harms_no_other(engines, name, steps):
    """In its very first step too; its neighbours' bits are those of a healthy batch."""
    engine, rng = engines(name), np.random.default_rng(5)
    worlds, _ = engine.start(rng.random((6, engine.task.draws)))
    for _ in range(steps):
        worlds, _, _ = engine.step(worlds, rng.uniform(-1, 1, (6, engine.nu)))
    action = rng.uniform(-1, 1, (6, engine.nu))
    healthy, moment, broken = engine.step(worlds, action)
    assert not broken.any()
    worlds.physics[[1, 4], -1] = TOO_FAST, np.nan
    after, odd, broken = engine.step(worlds, action)
    assert broken.tolist() == [False, True, False, False, True, False]
    good = np.flatnonzero(~broken)
    assert bits(after.rows(good)) == bits(healthy.rows(good))
    assert odd.obs[good].tobytes() == moment.obs[good].tobytes()
    again, _, broken = engine.step(healthy, action)
    assert not broken.any()
    assert np.isfinite(again.physics).all()


def test_a_single_environment_says_that_it_blew_up():
    """An error, not a healthy looking first pose; a reset mends it."""
    env = gymnasium.make("RoboschoolHopper-v2")
    env.reset(seed=0)
    env.unwrapped.worlds.physics[0, -1] = TOO_FAST
    with pytest.raises(
        EnvironmentFault, match=r"^Hopper: the simulation became non-finite$"
    ):
        env.step(env.action_space.sample())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(env.action_space.sample())
    env.reset(seed=0)
    assert np.isfinite(env.step(np.zeros(3, np.float32))[0]).all()
    env.close()


def test_a_vector_environment_names_the_world_that_blew_up():
    """The others stand where they stood; the next step resets it and goes on."""
    env = gymnasium.make_vec("RoboschoolHopper-v2", num_envs=4)
    env.reset(seed=0)
    inner = env.unwrapped
    inner.worlds.physics[2, -1] = TOO_FAST
    others = bits(inner.worlds.rows([0, 1, 3]))
    with pytest.raises(
        EnvironmentFault, match=r"^Hopper: the simulation of world 2 became non-finite$"
    ):
        env.step(np.zeros((4, 3), np.float32))
    assert bits(inner.worlds.rows([0, 1, 3])) == others
    obs, _, terminated, truncated, _ = env.step(np.zeros((4, 3), np.float32))
    assert np.isfinite(obs).all()
    assert inner.worlds.physics[2, 0] == START_TIME
    assert not (terminated | truncated).any()
    env.close()


@pytest.mark.parametrize("name", TASKS)
def test_no_world_blows_up_under_full_torques(engines, name):
    """25 000 control steps of actions that are all -1 or 1, never reset: finite, and no
    clock that MuJoCo turned back."""
    engine, rng = engines(name), np.random.default_rng(6)
    worlds, _ = engine.start(rng.random((64, engine.task.draws)))
    for _ in range(400):
        action = rng.choice([-1.0, 1.0], (64, engine.nu))
        worlds, moment, broken = engine.step(worlds, action)
        assert not broken.any()
        assert np.isfinite(moment.obs).all()
        assert np.isfinite(sum(moment.terms.values())).all()
    assert np.isfinite(worlds.physics).all()
    np.testing.assert_allclose(worlds.physics[:, 0], START_TIME + 400 * 0.0165)
    assert np.abs(worlds.physics[:, -engine.nu :]).max() < 200


# --- physics ------------------------------------------------------------------------------


def energy(engine: CpuEngine, data: mujoco.MjData, physics: np.ndarray) -> np.ndarray:
    """(potential, kinetic) by MuJoCo."""
    state = mujoco.mjtState.mjSTATE_FULLPHYSICS
    mujoco.mj_setState(engine.model, data, physics, state)
    mujoco.mj_forward(engine.model, data)
    mujoco.mj_energyPos(engine.model, data)
    mujoco.mj_energyVel(engine.model, data)
    return data.energy.copy()


@pytest.mark.parametrize("name", TASKS)
def test_energy_does_not_grow_without_torque(engines, name):
    """Thrown a metre up at some speed, nothing in limits, contacts, drag or integrator
    feeds a robot: no more energy than at the start, and what rises between (limits
    and floor are springs) stays below a tenth of the most there was in motion."""
    engine, rng = engines(name), np.random.default_rng(7)
    task, m, data = engine.task, engine.nu, mujoco.MjData(engine.model)
    worlds, _ = engine.start(np.full((4, task.draws), 0.5))
    physics, after_time = worlds.physics, 1 + engine.nq
    if name in WALKS:
        middle = task.middle + rng.uniform(-0.5, 0.5, (4, m)) / task.per_range
        physics[:, after_time - m : after_time] = middle
        physics[:, 2 if task.planar else 3] += 1
    physics[:, after_time:] = rng.normal(0, 2, (4, engine.nv))
    _, sensors = engine.play(physics, 0.0, 0.0, sub_steps=1)
    worlds = worlds._replace(sensors=sensors)
    track = [[energy(engine, data, row) for row in worlds.physics]]
    for _ in range(100):
        for _ in range(2):
            worlds, _, broken = engine.step(worlds, np.zeros((4, m)))
            assert not broken.any()
        track.append([energy(engine, data, row) for row in worlds.physics])
    track = np.array(track)
    total, most = track.sum(-1), track[..., 1].max()
    assert (total - total[0]).max() < 0.01 * most
    assert (total - np.minimum.accumulate(total)).max() < 0.1 * most
    if name in WALKS:  # it lies on the floor by then
        assert (track[-1, :, 1] < 0.1 * most).all()


# return and length of an episode, mean over 100 worlds: what a policy that does nothing
# and one that does anything get
BASELINES = {
    ("Hopper", "zero"): (46.9, 5.7, 35.0),
    ("Hopper", "random"): (20.4, 3.3, 12.3),
    ("Walker2d", "zero"): (38.4, 6.8, 33.0),
    ("Walker2d", "random"): (17.5, 4.4, 16.5),
    ("HalfCheetah", "zero"): (10.0, 0.8, 21.9),
    ("HalfCheetah", "random"): (0.1, 4.0, 18.8),
    ("Humanoid", "zero"): (52.0, 9.0, 29.9),
    ("Humanoid", "random"): (-32.0, 8.0, 21.0),
}


@pytest.mark.parametrize(("name", "policy"), BASELINES)
def test_doing_nothing_or_anything_gets_as_far_as_ever(engines, name, policy):
    """Within 0.6 of the standard deviation, six errors of the mean: a change of physics,
    reward or end shows here."""
    mean, spread, length = BASELINES[name, policy]
    engine, rng = engines(name), np.random.default_rng(8)
    worlds, _ = engine.start(rng.random((100, engine.task.draws)))
    returns, steps, alive = np.zeros(100), np.zeros(100), np.ones(100, bool)
    for _ in range(200):
        action = rng.uniform(-1, 1, (100, engine.nu)) * (policy == "random")
        worlds, moment, _ = engine.step(worlds, action)
        returns += alive * sum(moment.terms.values())
        steps += alive
        alive &= ~moment.terminated
    assert not alive.any()
    assert returns.mean() == pytest.approx(mean, abs=0.6 * spread)
    assert returns.std() == pytest.approx(spread, rel=0.5)
    assert steps.mean() == pytest.approx(length, rel=0.15)


def test_an_ant_stands_on_its_own(engines):
    """It lives through any actions; its height rests on its legs."""
    engine, rng = engines("Ant"), np.random.default_rng(9)
    worlds, _ = engine.start(rng.random((8, engine.task.draws)))
    for _ in range(300):
        action = rng.uniform(-1, 1, (8, engine.nu))
        worlds, moment, _ = engine.step(worlds, action)
        assert (moment.terms["alive"] == 1).all()
    assert (moment.obs[:, 0] < 0).all()


def test_a_hanging_pole_hangs(engines):
    """Left alone the swing-up is paid about -1 in every step."""
    engine = engines("InvertedPendulumSwingup")
    worlds, _ = engine.start(np.random.default_rng(10).random((8, 1)))
    pay = np.zeros(8)
    for _ in range(1000):
        worlds, moment, _ = engine.step(worlds, np.zeros((8, 1)))
        pay += moment.terms["upright"]
    assert ((pay > -1000) & (pay < -990)).all()
