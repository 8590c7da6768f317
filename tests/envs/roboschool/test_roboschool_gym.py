"""The Roboschool tasks as Gymnasium sees them: one world, many worlds, pictures."""

import json
import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import penfac.envs  # noqa: F401  the import registers
from penfac.envs.opengl import choose_opengl
from penfac.envs.roboschool.env import RoboschoolEnv
from penfac.envs.roboschool.registration import IDS, register_roboschool
from penfac.envs.roboschool.vector_env import RoboschoolVectorEnv
from penfac.errors import ConfigError

HOPPER = "RoboschoolHopper-v2"
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
WORLDS, LIMIT = 5, 16  # some Hoppers fall before, some do not


def fresh(program: str):
    """Run a program in an interpreter of its own; it prints one JSON value."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


# --- one world ----------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_s_own_checker_is_content(env_id):
    """check_env: spaces, seeding, determinism, types of everything returned."""
    env = gymnasium.make(env_id, disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", message=".*infinity"
        )  # nothing bounds a speed
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_ids_are_roboschool_s():
    """Seven tasks, with the time limit and the thresholds of version 1."""
    specs = {env_id: gymnasium.spec(env_id) for env_id in IDS}
    assert {spec.max_episode_steps for spec in specs.values()} == {1000}
    assert {env_id: spec.reward_threshold for env_id, spec in specs.items()} == {
        "RoboschoolHopper-v2": 2500, "RoboschoolWalker2d-v2": 2500,
        "RoboschoolHalfCheetah-v2": 3000, "RoboschoolAnt-v2": 2500,
        "RoboschoolHumanoid-v2": 3500, "RoboschoolInvertedPendulum-v2": 950,
        "RoboschoolInvertedPendulumSwingup-v2": 800,
    }  # fmt: skip


def test_registering_twice_changes_nothing():
    before = dict(gymnasium.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_roboschool()
    assert dict(gymnasium.registry) == before


def test_no_task_needs_jax():
    """Made, reset and stepped, alone and as a vector, in a program without JAX."""
    found = fresh(
        "import json, sys, gymnasium, penfac.envs\n"
        "from penfac.envs.roboschool.registration import IDS\n"
        "for env_id in IDS:\n"
        "    env = gymnasium.make(env_id)\n"
        "    env.reset(seed=0)\n"
        "    env.step(env.action_space.sample())\n"
        "many = gymnasium.make_vec(env_id, num_envs=2)\n"
        "many.reset(seed=0)\n"
        "print(json.dumps([len(IDS), 'jax' in sys.modules]))"
    )
    assert found == [7, False]


def test_gymnasium_make_imports_by_itself():
    """`module:Id` needs no import of ours and gives the same world."""
    found = fresh(
        "import json, gymnasium\n"
        "env = gymnasium.make('penfac.envs:RoboschoolHopper-v2')\n"
        "obs, _ = env.reset(seed=3)\n"
        "print(json.dumps([float(x) for x in obs]))"
    )
    again, _ = gymnasium.make(HOPPER).reset(seed=3)
    np.testing.assert_array_equal(np.float32(found), again)


def test_both_rule_sets_are_taken_and_no_other():
    """The port's lower cost of a joint at its limit tells which one is played."""
    costs = {}
    for rules in ("roboschool", "bullet"):
        env = gymnasium.make("RoboschoolHalfCheetah-v2", rules=rules)
        env.reset(seed=0)
        *_, info = env.step(np.zeros(6, np.float32))
        costs[rules] = info["reward_joints_at_limit"]
    assert costs == pytest.approx({"roboschool": -0.2, "bullet": -0.1})
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(
            ValueError, match="rules = mujoco: must be roboschool or bullet"
        ):
            make(HOPPER, rules="mujoco")


@pytest.mark.parametrize("env_id", IDS)
def test_the_reward_is_the_sum_of_its_terms(env_id):
    """All that is paid is in the info, term by term, as plain numbers."""
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(10):
        _, reward, terminated, _, info = env.step(env.action_space.sample())
        terms = {k: v for k, v in info.items() if k.startswith("reward_")}
        assert terms
        assert all(type(term) is float for term in terms.values())
        assert reward == pytest.approx(sum(terms.values()), rel=1e-12)
        if terminated:
            break
    env.close()


def test_a_seed_names_an_episode_and_going_on_draws_others():
    """The same seed repeats its state; resets without a seed give new ones."""
    env = gymnasium.make(HOPPER)
    first, again = env.reset(seed=5)[0], env.reset(seed=5)[0]
    np.testing.assert_array_equal(first, again)
    states = {env.reset()[0].tobytes() for _ in range(20)}
    assert len(states) == 20


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        (np.full(3, np.nan), "the action must be finite"),
        (np.array([0, np.inf, 0]), "the action must be finite"),
        (np.zeros(2), r"an action of shape \(2,\); must have shape \(3,\)"),
        (np.zeros((1, 3)), r"an action of shape \(1, 3\); must have shape \(3,\)"),
        (0.0, r"an action of shape \(\); must have shape \(3,\)"),
    ],
)
def test_an_action_that_is_none_is_refused(action, complaint):
    """The world stays as it was, alone and in a vector."""
    env = gymnasium.make(HOPPER).unwrapped
    env.reset(seed=0)
    before = env.state()
    with pytest.raises(ValueError, match=f"^Hopper: {complaint}"):
        env.step(action)
    for name, x in env.state().items():
        assert x.tobytes() == before[name].tobytes()


def test_an_action_that_is_none_is_refused_by_many():
    env = gymnasium.make_vec(HOPPER, num_envs=2)
    env.reset(seed=0)
    one_bad = np.array([[0, 0, 0], [0, np.nan, 0]])
    with pytest.raises(ValueError, match=r"^Hopper: the action must be finite"):
        env.step(one_bad)
    with pytest.raises(ValueError, match=r"shape \(3, 3\); must have shape \(2, 3\)"):
        env.step(np.zeros((3, 3)))
    env.close()


def test_nothing_is_played_before_a_reset():
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make(HOPPER).unwrapped.step(np.zeros(3))
    with pytest.raises(gymnasium.error.ResetNeeded):
        gymnasium.make_vec(HOPPER, num_envs=2).step(np.zeros((2, 3)))


def test_a_saved_state_goes_on_in_another_environment():
    """Bit for bit."""
    one, other = (gymnasium.make("RoboschoolHumanoid-v2").unwrapped for _ in range(2))
    one.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (15, 17)).astype(np.float32)
    for action in actions[:5]:
        one.step(action)
    other.set_state(one.state())
    for action in actions[5:]:
        mine, theirs = one.step(action), other.step(action)
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1:] == theirs[1:]


def test_the_time_limit_truncates_and_does_not_terminate():
    """The Ant lives on; a Hopper that falls is terminated and not truncated."""
    env = gymnasium.make("RoboschoolAnt-v2", max_episode_steps=7)
    env.reset(seed=0)
    ends = [env.step(np.zeros(8, np.float32))[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]
    env = gymnasium.make(HOPPER)
    env.reset(seed=0)
    ends = [(False, False)]
    while not any(ends[-1]):
        ends.append(env.step(np.zeros(3, np.float32))[2:4])
    assert ends[-1] == (True, False)


# --- many worlds --------------------------------------------------------------------------


def ours(env_id: str, mode: AutoresetMode, worlds: int = WORLDS):
    return gymnasium.make_vec(
        env_id, num_envs=worlds, vectorization_mode="vector_entry_point",
        autoreset_mode=mode, max_episode_steps=LIMIT,
    )  # fmt: skip


def gymnasium_s(env_id: str, mode: AutoresetMode, worlds: int = WORLDS):
    """The same worlds one after the other."""
    return gymnasium.make_vec(
        env_id, num_envs=worlds, vectorization_mode="sync", max_episode_steps=LIMIT,
        vector_kwargs={"autoreset_mode": mode},
    )  # fmt: skip


def equal_infos(mine: dict, theirs: dict) -> None:
    """All that Gymnasium says of a world, ours says too."""
    for key, value in theirs.items():
        if key.startswith("_"):
            assert not (value & ~mine[key]).any()
            continue
        mask = theirs[f"_{key}"]
        if isinstance(value, dict):
            equal_infos(mine[key], value)
            continue
        for k in np.flatnonzero(mask):
            np.testing.assert_array_equal(mine[key][k], value[k])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "task", ["Hopper", "HalfCheetah", "Ant", "InvertedPendulum", "Humanoid"]
)
def test_many_worlds_are_gymnasium_s_one_by_one(task, mode):
    """World i of seed s is the single environment of seed s + i, bit for bit, through
    many ends of episodes, and every mode of reset is Gymnasium's."""
    env_id = f"Roboschool{task}-v2"
    mine, theirs = ours(env_id, mode), gymnasium_s(env_id, mode)
    assert mine.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is mode
    first, peer = mine.reset(seed=11)[0], theirs.reset(seed=11)[0]
    assert first.tobytes() == peer.tobytes()
    rng, ends = np.random.default_rng(0), np.zeros(2, int)
    for _ in range(5 * LIMIT):
        shape = mine.action_space.shape
        action = rng.uniform(-1, 1, shape).astype(np.float32)
        a, b = mine.step(action), theirs.step(action)
        for x, y in zip(a[:4], b[:4], strict=True):
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes()
        equal_infos(a[4], b[4])
        over = a[2] | a[3]
        ends += [a[2].sum(), a[3].sum()]
        assert ("final_obs" in a[4]) == (mode is AutoresetMode.SAME_STEP and over.any())
        if mode is AutoresetMode.DISABLED and over.any():
            obs = [env.reset(options={"reset_mask": over})[0] for env in (mine, theirs)]
            assert obs[0].tobytes() == obs[1].tobytes()
    assert ends[1] > 0
    assert ends[0] > 0 or task in ("Ant", "Humanoid")
    mine.close()
    theirs.close()


def test_the_reward_of_many_is_the_sum_of_their_terms():
    """Row by row; a world that was only reset is paid nothing and has no terms."""
    env = ours(HOPPER, AutoresetMode.NEXT_STEP)
    env.reset(seed=0)
    rng, resets = np.random.default_rng(1), 0
    for _ in range(40):
        fresh_ones = env.unwrapped.ended.copy()
        _, reward, _, _, info = env.step(rng.uniform(-1, 1, (WORLDS, 3)))
        terms = [k for k in info if k.startswith("reward_")]
        total = np.zeros(WORLDS)
        for name in terms:
            total = total + info[name]
            np.testing.assert_array_equal(info[f"_{name}"], ~fresh_ones)
        np.testing.assert_array_equal(reward, total)
        assert (reward[fresh_ones] == 0).all()
        resets += fresh_ones.sum()
    assert resets > WORLDS
    env.close()


def test_time_limit_and_end_are_told_apart():
    """Zero actions: Hoppers stand for more than 16 steps, so all are truncated and none
    terminated; with 60 steps all fall."""
    for limit, column in ((LIMIT, 3), (60, 2)):
        env = gymnasium.make_vec(HOPPER, num_envs=4, max_episode_steps=limit)
        env.reset(seed=0)
        ends = np.zeros((2, 4), int)
        for _ in range(limit):
            outcome = env.step(np.zeros((4, 3), np.float32))
            ends += np.stack(outcome[2:4])
        assert (ends[column - 2] > 0).all()
        assert (ends[3 - column] == 0).all()
        env.close()


def test_a_world_that_ended_waits_for_its_reset():
    """Without automatic resets, stepping on is an error that says what to do; the mask
    resets these worlds and no other, with seeds for them alone."""
    env = ours("RoboschoolInvertedPendulum-v2", AutoresetMode.DISABLED, worlds=3)
    env.reset(seed=0)
    over = np.zeros(3, bool)
    while not over.any() or over.all():
        obs, _, terminated, truncated, _ = env.step(np.ones((3, 1), np.float32))
        over = terminated | truncated
        if over.all():
            env.reset()
    before = env.unwrapped.worlds.physics.copy()
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset_mask"):
        env.step(np.zeros((3, 1), np.float32))
    seen, _ = env.reset(seed=[7, 8, 9], options={"reset_mask": over})
    after = env.unwrapped.worlds.physics
    np.testing.assert_array_equal(after[~over], before[~over])
    np.testing.assert_array_equal(seen[~over], obs[~over])
    for k in np.flatnonzero(over):
        first, _ = gymnasium.make("RoboschoolInvertedPendulum-v2").reset(
            seed=7 + int(k)
        )
        np.testing.assert_array_equal(seen[k], first)
    env.step(np.zeros((3, 1), np.float32))
    env.close()


def test_a_seed_is_for_worlds_that_are_reset():
    """As in Gymnasium's own: a world left out by the mask keeps its random numbers."""
    mask = np.array([True, False, True])
    pair = [
        make(HOPPER, AutoresetMode.DISABLED, worlds=3) for make in (ours, gymnasium_s)
    ]
    for env in pair:
        env.reset(seed=0)
        env.reset(seed=100, options={"reset_mask": mask.copy()})
    mine, theirs = (env.reset()[0] for env in pair)
    assert mine.tobytes() == theirs.tobytes()
    for env in pair:
        env.close()


def test_bad_masks_and_seeds_are_refused():
    """Each by a ValueError that names the task."""
    env = ours(HOPPER, AutoresetMode.DISABLED, worlds=3)
    env.reset(seed=0)
    for mask in (np.ones(2, bool), np.ones(3), np.zeros(3, bool)):
        with pytest.raises(ValueError, match=r"^Hopper: reset_mask"):
            env.reset(options={"reset_mask": mask})
    for seeds in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match=r"^Hopper: \d seeds; must be 3"):
            env.reset(seed=seeds)
    env.close()


def test_threads_change_nothing():
    """One, two and three threads, the same bits."""
    traces = []
    for threads in (0, 2, 3):
        env = gymnasium.make_vec("RoboschoolHumanoid-v2", num_envs=7, threads=threads)
        rng, trace = np.random.default_rng(2), [env.reset(seed=1)[0].tobytes()]
        for _ in range(40):
            action = rng.uniform(-1, 1, (7, 17)).astype(np.float32)
            trace.append(b"".join(x.tobytes() for x in env.step(action)[:4]))
        env.close()
        traces.append(trace)
    assert traces[0] == traces[1] == traces[2]


def test_what_was_returned_is_not_written_into():
    """Observations and rewards of a step stay as they were when the next is played."""
    env = ours(HOPPER, AutoresetMode.SAME_STEP)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for _ in range(2 * LIMIT):
        out = env.step(np.ones((WORLDS, 3), np.float32))
        kept += out[:4]
        copies += [x.copy() for x in out[:4]]
    for x, y in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(x, y)
    env.close()


# --- pictures -----------------------------------------------------------------------------


@pytest.fixture
def opengl(monkeypatch):
    """Something to draw with, or no test; the choice is forgotten afterwards."""
    monkeypatch.setenv("MUJOCO_GL", os.environ.get("MUJOCO_GL", ""))
    try:
        choose_opengl()
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("env_id", IDS)
def test_a_picture_shows_the_robot(opengl, env_id):
    """Bytes of the asked size, not all one colour, and another one later on."""
    env = gymnasium.make(env_id, render_mode="rgb_array", width=120, height=80)
    env.reset(seed=0)
    first = env.render()
    assert (first.shape, first.dtype) == ((80, 120, 3), np.uint8)
    assert first.std() > 5
    for _ in range(10):
        env.step(np.ones(env.action_space.shape, np.float32))
    assert (env.render() != first).any()
    env.close()


def test_each_world_of_many_is_drawn(opengl):
    env = gymnasium.make_vec(
        HOPPER, num_envs=2, render_mode="rgb_array", width=64, height=48
    )
    env.reset(seed=0)
    pictures = env.render()
    assert [p.shape for p in pictures] == [(48, 64, 3)] * 2
    assert all(p.std() > 5 for p in pictures)
    env.close()


def test_without_opengl_one_line_says_what_to_install(monkeypatch):
    """No library, no screen: a ConfigError in one line; playing goes on."""
    monkeypatch.setattr("penfac.envs.opengl.find_library", lambda name: None)
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    env = gymnasium.make(HOPPER, render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="install Debian's libegl1") as caught:
        env.render()
    assert "\n" not in str(caught.value)
    env.step(np.zeros(3, np.float32))
    env.close()


@pytest.mark.parametrize("kind", [RoboschoolEnv, RoboschoolVectorEnv])
def test_other_ways_to_draw_are_refused(kind):
    """And without one there is no picture."""
    with pytest.raises(ValueError, match="render_mode ansi: must be rgb_array or none"):
        kind("Hopper", render_mode="ansi")
    env = kind("Hopper")
    env.reset(seed=0)
    assert env.render() is None
    env.close()


# --- others' learners ---------------------------------------------------------------------


@pytest.mark.slow
def test_stable_baselines3_learns_on_it():
    """PPO trains for 2 048 steps, and its policy plays an episode."""
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make(HOPPER)
    model = sb3.PPO("MlpPolicy", env, n_steps=512, seed=0, device="cpu")
    model.learn(2048)
    assert model.num_timesteps == 2048
    obs, _ = env.reset(seed=0)
    over = False
    while not over:
        action, _ = model.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    assert np.isfinite(obs).all()
