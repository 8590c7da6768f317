"""Many worlds of one environment, stepped together and reset one by one.

The interface is the same for Gymnasium environments in a loop and for a task whose worlds
are rows of arrays in C threads.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from gymnasium.utils.seeding import np_random

from penfac.envs.calls import Watch
from penfac.envs.gym import GymWorld, action_scale, is_vector, open_world
from penfac.envs.mujoco_warnings import hear_mujoco
from penfac.envs.options import EnvOptions
from penfac.envs.roboschool.registration import HORIZON, IDS
from penfac.envs.stepped import Stepped
from penfac.errors import ConfigError, EnvironmentFault
from penfac.policy import ActionScale
from penfac.types import EnvSpec


class Worlds(Protocol):
    """`seconds` is the time spent in the environments' own step. `repeats`: seed and
    actions bring an episode back."""

    id: str
    actions: ActionScale
    obs_dim: int
    seconds: float
    repeats: bool

    @property
    def count(self) -> int: ...

    def spec(self) -> EnvSpec: ...

    def reset(self, w: int, seed: int) -> np.ndarray | None:
        """The initial observation. None: the world's row of the next step is its reset,
        whatever the action, and no step of an episode."""
        ...

    def step(self, rows: np.ndarray, actions: np.ndarray) -> Stepped: ...

    def replace(self, w: int) -> None: ...

    def grow(self, count: int) -> None: ...

    def close(self) -> None: ...


class Crew(Protocol):
    """Processes that hold worlds: penfac.envs.processes."""

    def open(self, count: int) -> Worlds: ...


def open_worlds(
    env_id: str, options: EnvOptions, count: int, watch: Watch | None = None,
    crew: Crew | None = None, size: int | None = None,
) -> Worlds:  # fmt: skip
    """Open worlds by id; the kinds of worlds differ in speed only. `size` is the number
    of worlds of a learner."""
    if is_vector(env_id):
        from penfac.envs.vector import VectorWorlds

        return VectorWorlds(env_id, options, count, size, watch or Watch())
    if plays_in_threads(env_id, options):
        return RoboschoolWorlds(env_id, options, count, watch or Watch())
    if crew is not None:
        return crew.open(count)
    return GymWorlds(lambda: open_world(env_id, options, watch), count)


def plays_in_threads(env_id: str, options: EnvOptions) -> bool:
    """Whether one call of our engine steps all worlds of a task."""
    return env_id.rpartition(":")[2] in IDS and options.kwargs.keys() <= {"rules"}


class GymWorlds:
    """Gymnasium environments, one after the other."""

    repeats = True

    def __init__(self, open_one: Callable[[], GymWorld], count: int):
        self.open_one = open_one
        self.worlds = [open_one() for _ in range(count)]
        first = self.worlds[0]
        self.id, self.actions, self.obs_dim = first.id, first.actions, first.obs_dim
        self.seconds = 0.0

    @property
    def count(self) -> int:
        return len(self.worlds)

    def spec(self) -> EnvSpec:
        return self.worlds[0].spec()

    def reset(self, w: int, seed: int) -> np.ndarray:
        return self.worlds[w].reset(seed)

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is caught as such
    def step(self, rows: np.ndarray, actions: np.ndarray) -> Stepped:
        k = len(rows)
        obs, reward = np.zeros((k, self.obs_dim), np.float32), np.zeros(k)
        terminated, truncated = np.zeros(k, bool), np.zeros(k, bool)
        terms: dict[str, np.ndarray] = {}
        faults: dict[int, EnvironmentFault] = {}
        entered = time.monotonic()
        for i, w in enumerate(rows):
            try:
                # an array even of shape ()
                step = self.worlds[w].step(actions[i, ...])
                obs[i], reward[i], terminated[i], truncated[i], parts = step
            except EnvironmentFault as fault:
                faults[i] = fault
                continue
            for name, part in parts.items():
                if name not in terms:
                    terms[name] = np.zeros(k)
                terms[name][i] = part
        self.seconds += time.monotonic() - entered
        return Stepped(obs, reward, terminated, truncated, terms, faults)

    def replace(self, w: int) -> None:
        """Close a broken world and open a new one in its place."""
        with contextlib.suppress(
            EnvironmentFault
        ):  # closing a broken world may fail too
            self.worlds[w].close()
        self.worlds[w] = self.open_one()

    def grow(self, count: int) -> None:
        while len(self.worlds) < count:
            self.worlds.append(self.open_one())

    def close(self) -> None:
        for world in self.worlds:
            world.close()


class RoboschoolWorlds:
    """Rows of arrays: one call of the engine plays them all, in C threads."""

    repeats = True

    def __init__(self, env_id: str, options: EnvOptions, count: int, watch: Watch):
        from penfac.envs.roboschool.cpu import CpuEngine
        from penfac.envs.roboschool.env import box_spaces
        from penfac.envs.roboschool.task import make_task

        hear_mujoco()
        self.id, self.watch = env_id, watch
        try:
            self.task = make_task(IDS[env_id.rpartition(":")[2]], **options.kwargs)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{env_id}: {error}") from None
        self.engine = CpuEngine(self.task)
        self.obs_dim = self.task.obs_dim
        self.actions = action_scale(env_id, box_spaces(self.task)[1], options)
        self.horizon = options.max_episode_steps or HORIZON
        self.seconds = 0.0
        self.worlds, _ = self.engine.start(np.full((count, self.task.draws), 0.5))
        self.length = np.zeros(count, np.int64)

    @property
    def count(self) -> int:
        return len(self.length)

    def spec(self) -> EnvSpec:
        low, high = self.actions.low, self.actions.high
        return EnvSpec(self.id, self.obs_dim, low, high, self.horizon)

    def reset(self, w: int, seed: int) -> np.ndarray:
        u = np_random(seed)[0].random((1, self.task.draws))
        fresh, obs = self.engine.start(u)
        self.worlds.put(slice(w, w + 1), fresh)
        self.length[w] = 0
        return obs[0]

    def step(self, rows: np.ndarray, actions: np.ndarray) -> Stepped:
        entered = self.watch.entered = time.monotonic()
        everyone = (
            len(rows) == self.count and rows[0] == 0 and (np.diff(rows) == 1).all()
        )
        before = self.worlds if everyone else self.worlds.rows(rows)
        after, result, broken = self.engine.step(before, actions)
        if everyone:
            self.worlds = after
        else:
            self.worlds.put(rows, after)
        self.length[rows] += 1
        truncated = self.length[rows] >= self.horizon
        faults = {
            int(i): EnvironmentFault(
                f"{self.id}: the simulation of world {rows[i]} became non-finite"
            )
            for i in np.flatnonzero(broken)
        }
        terms = {f"reward_{name}": term for name, term in result.terms.items()}
        self.watch.entered = None
        self.seconds += time.monotonic() - entered
        return Stepped(
            result.obs, result.reward, result.terminated, truncated, terms, faults
        )  # fmt: skip

    def replace(self, w: int) -> None:
        """Nothing to do: a reset replaces the whole state."""

    def grow(self, count: int) -> None:
        if count > self.count:
            self.worlds, _ = self.engine.start(np.full((count, self.task.draws), 0.5))
            self.length = np.zeros(count, np.int64)

    def close(self) -> None:
        self.engine.close()
