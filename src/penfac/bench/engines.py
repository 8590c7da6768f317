"""`penfac bench engines`: the Roboschool tasks in C threads, against bare MuJoCo and
PyBullet.

Both sides play the same states, recorded once under random actions.
"""

import importlib.util
import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import penfac.envs  # noqa: F401  registers the ids
from penfac.bench.figures import Figures, Say
from penfac.bench.mine import LONG, add_parts, parts_of, train_for
from penfac.envs.roboschool.cpu import CpuEngine, WorldStates
from penfac.envs.roboschool.drag import drag
from penfac.envs.roboschool.task import make_task
from penfac.machine import usable_cores
from penfac.training.request import Request

ROBOTS = ("Hopper", "HalfCheetah", "Humanoid")
MANY, FEW = 64, 5
Recorded = list[tuple[WorldStates, np.ndarray]]  # states and the actions taken there


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    threads = len(usable_cores())
    port = importlib.util.find_spec("pybullet_envs_gymnasium") is not None
    for robot in ROBOTS:
        engine = CpuEngine(make_task(robot))
        many, few = record(engine, MANY), record(engine, FEW)
        bare, ours = rates(engine, many)
        _, small = rates(engine, few)
        figures.add(
            f"{robot}: {MANY} worlds, {threads} threads / bare mujoco.rollout",
            f"{100 * ours / bare:.0f} % ({ours:,.0f}/s of {bare:,.0f}/s)",
            "at least 80 %",
        )
        figures.add(
            f"{robot}: {FEW} worlds / {MANY} worlds",
            f"{100 * small / ours:.0f} % ({small:,.0f}/s)",
            "at least 50 %",
        )
        if port and not quick:
            mine, theirs = vector_rate(robot), pybullet_rate(robot, threads)
            figures.add(
                f"{robot}: steps/s with resets / PyBullet's port, {threads} processes",
                f"{mine / theirs:.1f} times ({mine:,.0f}/s, {theirs:,.0f}/s)",
                "at least 5 times",
            )
        engine.close()
    if not port and not quick:
        figures.add(
            "against PyBullet's port", 'needs pip install "penfac[pybullet]"', "-"
        )
    training(4.0 if quick else 15.0, threads, figures)
    return {"figures": figures}


def record(engine: CpuEngine, count: int, calls: int = 60) -> Recorded:
    """Record states under random actions; a world that ends is reset."""
    rng = np.random.default_rng(0)
    task = engine.task
    worlds, _ = engine.start(rng.random((count, task.draws)))
    found = []
    for _ in range(calls):
        action = rng.uniform(-1, 1, (count, task.joints)).astype(np.float32)
        found.append((WorldStates(*(x.copy() for x in worlds)), action))
        worlds, moment, _ = engine.step(worlds, action)
        over = np.flatnonzero(moment.terminated)
        if len(over):
            worlds.put(over, engine.start(rng.random((len(over), task.draws)))[0])
    return found


def rates(engine: CpuEngine, recorded: Recorded) -> tuple[float, float]:
    """Return control steps per second of the bare engine and of ours, on the same
    states."""
    task, places = engine.task, engine.task.machine.sensors.places
    forces = [drag(np, engine.drag, w.sensors, places)[:, None] for w, _ in recorded]

    def bare() -> None:
        for (worlds, action), force in zip(recorded, forces, strict=True):
            engine.play(worlds.physics, action[:, None], force, task.sub_steps)

    def ours() -> None:
        for worlds, action in recorded:
            engine.step(worlds, action)

    steps = sum(len(action) for _, action in recorded)
    times: dict[Callable[[], None], list[float]] = {bare: [], ours: []}
    for _ in range(max(5, 20_000 // steps)):  # in turns: the machine may slow down
        for call, seconds in times.items():
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
    return steps / statistics.median(times[bare]), steps / statistics.median(
        times[ours]
    )


def vector_rate(robot: str, calls: int = 400) -> float:
    """Return steps per second of the vector environment, resets included."""
    env = gymnasium.make_vec(f"Roboschool{robot}-v2", num_envs=MANY)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(20)]
    started = time.perf_counter()
    for k in range(calls):
        env.step(actions[k % 20])
    seconds = time.perf_counter() - started
    env.close()
    return calls * MANY / seconds


def pybullet_rate(robot: str, processes: int) -> float:
    """Return steps per second of PyBullet's port, one process per core."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.map(pybullet_process, [robot] * processes))


def pybullet_process(robot: str, seconds: float = 8.0) -> float:
    importlib.import_module("pybullet_envs_gymnasium")
    env = gymnasium.make(f"{robot}BulletEnv-v0")
    env.reset(seed=0)
    steps, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - started)


def training(seconds: float, threads: int, figures: Figures) -> None:
    """Train a learner with 64 worlds, as `penfac train` does, between two measurements of
    the bare engine; add its share and its parts."""
    settings = {"worlds": MANY, "steps_per_world": 2048 // MANY}
    request = Request(
        "RoboschoolHalfCheetah-v2", settings=settings, steps=LONG, eval_every=LONG,
        eval_episodes=1, on="cpu",
    )  # fmt: skip
    engine = CpuEngine(make_task("HalfCheetah"))
    recorded = record(engine, MANY)
    before, _ = rates(engine, recorded)
    rows, _ = train_for(seconds, request, None, figures.say)
    after, _ = rates(engine, recorded)
    engine.close()
    (rate, parts), bare = parts_of(rows), (before + after) / 2
    figures.add(
        f"HalfCheetah: training PeNFAC, {MANY} worlds, {threads} threads / bare "
        "mujoco.rollout",
        f"{100 * rate / bare:.0f} % ({rate:,.0f}/s of {bare:,.0f}/s)",
        "at least 40 %",
    )
    add_parts(figures, parts)
