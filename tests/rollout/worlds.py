"""Environments whose every number says where it comes from, and policies to play them."""

from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
from gymnasium import spaces

from penfac.core.noise import Exploration
from penfac.envs.calls import Watch
from penfac.envs.gym import GymWorld
from penfac.envs.options import EnvOptions
from penfac.envs.worlds import GymWorlds
from penfac.policy import PolicyWeights
from penfac.randomness import Stream, env_seed
from penfac.rollout.explorer import Explorer
from penfac.rollout.host import Collected, HostWorlds
from penfac.rollout.lockstep import play_alone

EPISODES = 400  # how many episode numbers a tagged environment can tell apart


class Tagged(gymnasium.Env):
    """obs = (episode, t, world), reward = 1000 episode + t.

    The episode is known by the seed of its reset, so nothing but the promised seeds can
    produce a sensible tag. `lengths[episode]` steps; even episodes terminate, odd ones
    are truncated. `both`: what terminates is truncated at the same step too.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own idiom
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(
        self,
        lengths: Sequence[int],
        run_seed: int,
        world: int,
        reuse: bool = False,
        both: bool = False,
    ):
        self.lengths, self.world = lengths, world
        self.reuse, self.both = reuse, both
        self.numbers = {
            env_seed(run_seed, Stream.TRAIN_RESET, e): e for e in range(EPISODES)
        }
        self.buffer = np.zeros(3, np.float32)

    def observe(self):
        tag = np.array([self.episode, self.t, self.world], np.float32)
        if not self.reuse:
            return tag
        self.buffer[:] = tag  # the same array every time
        return self.buffer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.numbers[seed], 0
        return self.observe(), {}

    def step(self, action):
        reward = 1000.0 * self.episode + self.t
        self.t += 1
        over = self.t == self.lengths[self.episode]
        terminates = self.episode % 2 == 0
        truncates = self.both or not terminates
        return self.observe(), reward, over and terminates, over and truncates, {}


class Wanderer(gymnasium.Env):
    """A linear system that long remembers its past; deterministic after its reset."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, limit: int, shaken: bool = False):
        self.limit = limit
        self.shake = np.random.default_rng() if shaken else None  # deaf to its seed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state = 0, self.np_random.normal(size=2)
        return self.state.astype(np.float32), {}

    def step(self, action):
        turn = 0.95 * np.array([[0.8, 0.6], [-0.6, 0.8]])
        self.state = turn @ self.state + action
        if self.shake is not None:
            self.state = self.state + self.shake.normal(size=2)
        self.t += 1
        obs = self.state.astype(np.float32)
        return obs, float(self.state[0]), False, self.t == self.limit, {}


class Constant(gymnasium.Env):
    """One state, reward 1, no end of its own: V = 1 / (1 - gamma)."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


class Uneven(gymnasium.Env):
    """Ends after a number of steps drawn at its reset: 10 to 250."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(10, 251))
        return np.float32([self.left / 250]), {}

    def step(self, action):
        self.left -= 1
        reward = -(float(action[0]) ** 2)
        return np.float32([self.left / 250]), reward, self.left == 0, False, {}


CONSTANT, UNEVEN, WANDERER = "tests/Constant-v0", "tests/Uneven-v0", "tests/Wanderer-v0"
CONSTANT_LIMIT = 8


def register() -> None:
    """Make the environments known to Gymnasium, for engines that open them by id."""
    for env_id, kind, limit, kwargs in (
        (CONSTANT, Constant, CONSTANT_LIMIT, {}),
        (UNEVEN, Uneven, 1000, {}),
        (WANDERER, Wanderer, 40, {"limit": 40}),
    ):
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id, entry_point=kind, max_episode_steps=limit, kwargs=kwargs
            )


register()


def opener(build: Callable[[int], gymnasium.Env]) -> Callable[[], GymWorld]:
    """Open worlds around `build(number of the world)`."""
    opened = 0

    def open_world() -> GymWorld:
        nonlocal opened
        env = build(opened)
        opened += 1
        return GymWorld("tests/Some-v0", env, EnvOptions(), Watch())

    return open_world


def tagged(lengths: Sequence[int], run_seed: int, **more) -> Callable[[], GymWorld]:
    return opener(lambda number: Tagged(lengths, run_seed, number, **more))


class LoneWorlds(HostWorlds):
    """The worlds of one learner that plays alone."""

    def __init__(self, open_one: Callable[[], GymWorld], seed: int, count: int, **more):
        super().__init__(GymWorlds(open_one, count), seed, count, **more)

    def collect_episodes(self, *args) -> Collected:
        return play_alone(self.worlds, super().collect_episodes(*args))

    def collect_steps(self, *args) -> Collected:
        return play_alone(self.worlds, super().collect_steps(*args))


def linear(n: int, m: int, gain: float = 0.0) -> PolicyWeights:
    """mu(s) = gain * (sum of s) in every action; 0 without a gain."""
    layers = [(np.full((n, m), gain, np.float32), np.zeros(m, np.float32))]
    zero, one = np.zeros(n, np.float32), np.ones(n, np.float32)
    return PolicyWeights(zero, one, np.inf, one, zero, layers, "tanh", "linear")


def pure_noise(n: int, m: int = 2, sigma: float = 0.1) -> Explorer:
    """Actions are the noise and nothing else; at 0.1 the bounds are ten sigma away."""
    return Explorer(linear(n, m), Exploration("clipped"), sigma)
