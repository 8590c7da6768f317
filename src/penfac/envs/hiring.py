"""How many processes step the environments of a run: as many as pay, or as one says."""

import contextlib
import pickle
import time
from collections.abc import Callable, Iterator

import cloudpickle
import gymnasium
import numpy as np

from penfac.envs.calls import Watch
from penfac.envs.gym import is_vector, open_world
from penfac.envs.options import EnvOptions
from penfac.envs.processes import Crew
from penfac.envs.worlds import plays_in_threads
from penfac.errors import ConfigError, PenfacError
from penfac.machine import usable_cores

# seconds of env.step in a round of all worlds; a round of messages takes 50 microseconds,
# and a process half a second to start
PAYS = 800e-6


@contextlib.contextmanager
def crew_for(
    env_id: str,
    options: EnvOptions,
    worlds: int,
    asked: int | None,
    watch: Watch,
    note: Callable[[str], None],
) -> Iterator[Crew | None]:
    """The processes for so many worlds, or None if this process steps them itself; `asked`
    is a number of processes, or None to measure what pays."""
    size = min(asked if asked is not None else len(usable_cores()), worlds)
    if is_vector(env_id):
        if asked is not None:
            note("--env-workers: has no effect, a vector environment steps itself")
        yield None
        return
    if plays_in_threads(env_id, options) or size < (2 if asked is None else 1):
        yield None
        return
    if asked is None and worlds * seconds_of_step(env_id, options, watch) < PAYS:
        yield None
        return
    crew = hire(env_id, options, size, watch, note, copy=asked is not None)
    try:
        yield crew
    finally:
        if crew is not None:
            crew.close()


def hire(
    env_id: str,
    options: EnvOptions,
    size: int,
    watch: Watch,
    note: Callable[[str], None],
    copy: bool,
) -> Crew | None:
    """Start the processes; None, and a note, if they cannot make the environment."""
    try:
        crew = Crew(recipe_of(env_id, options, copy), env_id, size, watch)
    except PenfacError as error:
        note(f"one process steps the environments: {' '.join(str(error).split())}")
        return None
    note(
        f"{size} {'process steps' if size == 1 else 'processes step'} the environments"
    )
    return crew


def seconds_of_step(env_id: str, options: EnvOptions, watch: Watch) -> float:
    """The shortest of some steps of an environment of its own; 0 if it fails, which the run
    will meet."""
    times = []
    with contextlib.suppress(PenfacError):
        world = open_world(env_id, options, watch)
        world.reset(0)
        middle = world.actions.to_env(np.zeros((1, len(world.actions.low))))[0, ...]
        for _ in range(9):
            entered = time.perf_counter()
            over = any(world.step(middle)[2:4])
            times.append(time.perf_counter() - entered)
            if over:
                world.reset(0)
        world.close()
    return min(times, default=0.0)


def recipe_of(env_id: str, options: EnvOptions, copy: bool) -> bytes:
    """What another process needs to make the environment. `copy`: copies of the classes
    and functions of this program too, which then share nothing with it."""
    # a module registers its ids when it is imported
    spec = None if ":" in env_id else gymnasium.spec(env_id)
    what = env_id, options, spec
    if copy:
        try:
            return cloudpickle.dumps(what)
        except Exception as error:  # whatever an object of the user raises
            raise ConfigError(f"{env_id} cannot be copied ({error})") from error
    with contextlib.suppress(Exception):
        recipe = pickle.dumps(what)
        if b"__main__" not in recipe:
            return recipe
    raise ConfigError(
        f"{env_id} is made by this program; env_workers=2 sends copies to 2 processes"
    )
