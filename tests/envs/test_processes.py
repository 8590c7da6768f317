"""Worlds in other processes give what worlds in this one give, whatever happens to them."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest
from tests.faults import bad_envs
from tests.faults.commands import BAD, environment

from penfac.envs.calls import Watch
from penfac.envs.hiring import crew_for
from penfac.envs.options import EnvOptions
from penfac.envs.processes import Crew
from penfac.envs.worlds import GymWorlds, open_worlds
from penfac.errors import EnvironmentFault

WORLDS = 5


@contextlib.contextmanager
def worlds_of(env_id: str, processes: int, count: int = WORLDS, **kwargs):
    """Some worlds, and the processes that hold them."""
    options = EnvOptions(kwargs=kwargs)
    notes: list[str] = []
    with crew_for(env_id, options, count, processes, Watch(), notes.append) as crew:
        worlds = open_worlds(env_id, options, count, None, crew)
        assert isinstance(worlds, GymWorlds) == (processes == 0), notes
        yield worlds, crew
        worlds.close()


def play(worlds, steps: int) -> list:
    """Some rounds of some of the worlds, which begin again when they end or break; all
    that comes back."""
    rng, seen, episode = np.random.default_rng(0), [], worlds.count
    for w in range(worlds.count):
        seen.append(worlds.reset(w, w).tobytes())
    for t in range(steps):
        rows = np.sort(rng.permutation(worlds.count)[: 1 + t % worlds.count])
        actions = rng.uniform(-1, 1, (len(rows), *worlds.actions.shape))
        got = worlds.step(rows, actions.astype(np.float32))
        seen += [array.tobytes() for array in got[:4]]
        seen += [(name, got.terms[name].tobytes()) for name in sorted(got.terms)]
        seen += [(i, str(fault)) for i, fault in got.faults.items()]
        for i, w in enumerate(rows):
            if i in got.faults:
                worlds.replace(w)
            if i in got.faults or got.terminated[i] or got.truncated[i]:
                seen.append(worlds.reset(w, episode).tobytes())
                episode += 1
    return seen


@pytest.mark.parametrize("env_id", ["Hopper-v5", f"{BAD}RaisesInChosen-v0"])
def test_the_number_of_processes_changes_nothing(env_id):
    """Observations, rewards, ends, parts of rewards and faults, in their order."""
    kwargs = {"chosen": [2, 3, 7]} if BAD in env_id else {}
    with worlds_of(env_id, 0, **kwargs) as (worlds, _):
        alone = play(worlds, 60)
    assert BAD not in env_id or any("a bad place" in str(x) for x in alone)
    for processes in (1, 3):
        with worlds_of(env_id, processes, **kwargs) as (worlds, _):
            assert play(worlds, 60) == alone


def test_a_process_that_is_killed_is_one_broken_world():
    """The others of that process go on where they were, to the bit."""
    with worlds_of("Hopper-v5", 0) as (worlds, _):
        undisturbed = play(worlds, 30)
    with worlds_of("Hopper-v5", 2) as (worlds, crew):
        assert play(worlds, 30) == undisturbed
        obs = [worlds.reset(w, w) for w in range(WORLDS)]
        worlds.step(np.arange(WORLDS), np.zeros((WORLDS, 3), np.float32))
        kill(crew.processes[1])
        got = worlds.step(np.arange(WORLDS), np.ones((WORLDS, 3), np.float32))
        (broken,) = got.faults
        assert "its process was killed by SIGKILL" in str(got.faults[broken])
    with worlds_of("Hopper-v5", 0) as (alone, _):
        for w in range(WORLDS):
            np.testing.assert_array_equal(alone.reset(w, w), obs[w])
        alone.step(np.arange(WORLDS), np.zeros((WORLDS, 3), np.float32))
        want = alone.step(np.arange(WORLDS), np.ones((WORLDS, 3), np.float32))
    others = [w for w in range(WORLDS) if w != broken]
    assert broken in (1, 3)
    np.testing.assert_array_equal(got.obs[others], want.obs[others])
    np.testing.assert_array_equal(got.reward[others], want.reward[others])


def test_an_environment_that_ends_its_process_breaks_where_it_is():
    """As one that raises there: the same worlds, episodes and numbers of the others."""
    raised, died = (
        play_with(f"{BAD}{name}InChosen-v0", 2, chosen=[1, 3, 4, 9])
        for name in ("Raises", "Dies")
    )
    as_died = [
        (x[0], "killed") if "a bad place" in str(x) or "SIGKILL" in str(x) else x
        for x in raised
    ]
    assert [(x[0], "killed") if "SIGKILL" in str(x) else x for x in died] == as_died
    assert sum("killed" in str(x) for x in as_died) == 4


def play_with(env_id: str, processes: int, **kwargs) -> list:
    with worlds_of(env_id, processes, **kwargs) as (worlds, _):
        return play(worlds, 60)


def test_a_reset_that_ends_its_process_is_a_fault():
    with worlds_of(f"{BAD}DiesResetting-v0", 2, chosen=[5]) as (worlds, _):
        with pytest.raises(EnvironmentFault, match="its process ended with code 7"):
            worlds.reset(1, 5)
        assert worlds.reset(1, 6).shape == (3,)


def test_a_fault_tells_where_in_the_environment_it_was():
    stuck = worlds_of(f"{BAD}RaisesResetting-v0", 1)
    with stuck as (worlds, _), pytest.raises(EnvironmentFault) as caught:
        worlds.reset(0, 0)
    assert 'raise RuntimeError("the gripper is stuck")' in caught.value.__notes__[0]


def test_a_watch_sees_a_call_of_another_process():
    watch, options = Watch(), EnvOptions()
    with crew_for(f"{BAD}HangsResetting-v0", options, 2, 1, watch, print) as crew:
        assert isinstance(crew, Crew)
        worlds = crew.open(2)
        assert watch.since() is None
        crew.processes[0].ask("reset", worlds.which, 0, 0)
        deadline = time.monotonic() + 30
        while watch.since() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 0 <= time.monotonic() - watch.since() < 30


def test_signals_of_the_terminal_reach_the_parent_alone():
    """A process survives what its parent turns into a stop, and has a group of its own."""
    with worlds_of("Pendulum-v1", 1) as (worlds, crew):
        child = crew.processes[0].process.pid
        assert os.getpgid(child) != os.getpgid(0)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(child, number)
        assert len(play(worlds, 5)) > 0


def test_processes_leave_when_they_are_let_go():
    with worlds_of("Pendulum-v1", 2) as (_, crew):
        children = [p.process.pid for p in crew.processes]
        assert all(is_there(pid) for pid in children)
    assert not any(is_there(pid) for pid in children)


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True])
def test_no_process_survives_a_killed_parent(hangs, tmp_path):
    """Not even in a call that never returns."""
    env_id = f"{BAD}{'HangsResetting' if hangs else 'Plain'}-v0"
    program = f"""
import os, signal, threading, time
from penfac.envs.calls import Watch
from penfac.envs.hiring import crew_for
from penfac.envs.options import EnvOptions
watch = Watch()
with crew_for({env_id!r}, EnvOptions(), 4, 2, watch, lambda text: None) as crew:
    worlds = crew.open(4)
    crew.processes[0].ask("reset", worlds.which, 0, 0)
    while {hangs} and watch.since() is None:
        time.sleep(0.01)
    print(*(p.process.pid for p in crew.processes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    children = [int(pid) for pid in done.stdout.split()]
    assert len(children) == 2
    deadline = time.monotonic() + 10
    while any(is_there(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_there(pid) for pid in children)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(process) -> None:
    process.process.kill()
    process.process.wait()


# --- who steps the environments ---------------------------------------------------------


def hired(env_id: str, worlds: int, asked: int | None) -> tuple[int, list[str]]:
    notes: list[str] = []
    with crew_for(env_id, EnvOptions(), worlds, asked, Watch(), notes.append) as crew:
        return (0 if crew is None else len(crew)), notes


class Slow(bad_envs.Plain):
    """A step takes a millisecond."""

    def reward(self):
        time.sleep(0.001)
        return super().reward()


gymnasium.register("tests/Slow-v0", Slow, max_episode_steps=10)
gymnasium.register("tests/SlowHere-v0", lambda: Slow(), max_episode_steps=10)


def test_processes_are_hired_where_a_step_costs_enough(monkeypatch):
    monkeypatch.setattr("penfac.envs.hiring.usable_cores", lambda: [0, 1])
    assert hired("tests/Slow-v0", 8, None) == (2, ["2 processes step the environments"])
    assert hired("Pendulum-v1", 4, None) == (0, [])  # cheap
    assert hired("tests/Slow-v0", 1, None) == (0, [])  # one world
    assert hired("RoboschoolHopper-v2", 64, None) == (0, [])  # has threads
    assert hired("tests/Slow-v0", 8, 0) == (0, [])
    assert hired("tests/Slow-v0", 2, 3)[0] == 2  # no more than worlds
    monkeypatch.setattr("penfac.envs.hiring.usable_cores", lambda: [0])
    assert hired("tests/Slow-v0", 8, None) == (0, [])


def test_what_a_program_holds_is_copied_when_one_says_so(monkeypatch):
    """Left to itself a run keeps it here, where it may share its state, and says so."""
    monkeypatch.setattr("penfac.envs.hiring.usable_cores", lambda: [0, 1])
    count, (note,) = hired("tests/SlowHere-v0", 8, None)
    assert count == 0
    assert "is made by this program; env_workers=2 sends copies" in note
    assert hired("tests/SlowHere-v0", 8, 2)[0] == 2


def test_what_cannot_be_copied_stays_here():
    lock = __import__("threading").Lock()
    gymnasium.register("tests/Locked-v0", lambda: (lock, Slow())[1])
    count, (note,) = hired("tests/Locked-v0", 8, 2)
    assert count == 0
    assert "cannot be copied" in note
    gymnasium.registry.pop("tests/Locked-v0")
