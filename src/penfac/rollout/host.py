"""Environments on the host in lock-step: the worlds of one learner, only the living ones.

We reset ourselves, so the final observation is never lost and a dead world costs nothing.
Every episode has a number; its reset seed and its noise follow from (run seed, number).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special

from penfac.core.noise import Exploration, anywhere, explore
from penfac.envs.gym import non_finite
from penfac.envs.worlds import Stepped, Worlds
from penfac.errors import Divergence, EnvironmentFault
from penfac.policy import PolicyWeights, mean_action
from penfac.randomness import Stream, env_seed, generator
from penfac.rollout.lockstep import Ask, Player
from penfac.rollout.rows import Rows
from penfac.types import EpisodeStats, Transitions

NOISE_BLOCK = 128  # steps of noise drawn at once


class Explorer(NamedTuple):
    """mu with exploration around it."""

    weights: PolicyWeights
    how: Exploration
    sigma: float | np.ndarray  # a number, or one for each dimension of the action
    anywhere: bool = False  # uniform actions, to begin with

    def __call__(
        self, obs: np.ndarray, uniform: np.ndarray, drift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What is done, and where noise that remembers stands then."""
        if self.anywhere:
            return anywhere(uniform).astype(np.float32), drift
        mu = mean_action(self.weights, obs).astype(np.float64)
        action, drift = explore(self.how, mu, self.sigma, uniform, drift, scipy.special)
        return action.astype(np.float32), drift


def finite_sum(*arrays: np.ndarray) -> bool:
    """False if any number is NaN or infinite, or if so many large ones add up to that."""
    return all(math.isfinite(np.add.reduce(x, axis=None)) for x in arrays)


def finite(action: np.ndarray) -> np.ndarray:
    """Weights that are finite but huge: no environment is to blame for what follows."""
    if not finite_sum(action):
        raise Divergence(
            "an action became non-finite, as the actor's weights are too large; the "
            "last good checkpoint is kept; use a smaller actor_lr"
        )
    return action


class RunningWorlds(NamedTuple):
    """Where worlds in mid-episode stand: enough to play them there again."""

    episode: np.ndarray  # [W] which episode
    length: np.ndarray  # [W] steps played of it
    actions: np.ndarray  # [sum of length, m] in [-1, 1], world after world
    obs: np.ndarray  # [W, n] where that led: checked after playing it again
    drift: np.ndarray  # [W, m] where noise that remembers stands


Collected = tuple[Transitions, EpisodeStats, int]  # ... and the next episode's number


class HostWorlds:
    """The training worlds of one learner: `count` of a set, from number `first` on."""

    def __init__(
        self,
        worlds: Worlds,
        seed: int,
        count: int,
        *,
        first: int = 0,
        restarts: int = 0,
        poll: Callable[[], None] = lambda: None,
        clip: bool = True,
    ):
        self.worlds, self.seed, self.poll, self.clip = worlds, seed, poll, clip
        self.first, self.count = first, count
        self.id, self.actions = worlds.id, worlds.actions
        n, m = worlds.obs_dim, len(worlds.actions.low)
        self.obs = np.zeros((count, n), np.float32)
        self.episode = np.full(count, -1, np.int64)
        self.length = np.zeros(count, np.int64)
        self.returned = np.zeros(count)
        self.drift = np.zeros((count, m))
        self.noise: list[np.random.Generator | None] = [None] * count
        self.blocks = np.zeros((count, NOISE_BLOCK, m))
        self.played: list[list[np.ndarray]] = [[] for _ in range(count)]
        self.restarts, self.faults = restarts, 0

    # --- whole episodes, the paper's way ---------------------------------------------

    def collect_episodes(
        self, act: Explorer, first: int, episodes: int, min_steps: int
    ) -> Player[Collected]:
        """Play episodes number `first`, first + 1, ... to their ends.

        At least `episodes` of them; whenever one ends and all played so far are fewer
        than `min_steps` steps, another starts. Whatever starts is finished and used, so
        short episodes are not favoured.
        """
        rows, stats, next_episode = Rows(), EpisodeStats([], [], {}), first
        alive = np.zeros(self.count, bool)
        for w in range(min(episodes, self.count)):
            self._start(w, next_episode)
            alive[w], next_episode = True, next_episode + 1
        steps = 0
        while alive.any():
            living = np.flatnonzero(alive)
            ended = yield from self._step(living, act, rows)
            steps += len(living)
            for w in ended:
                finished = self._finish(w, rows, stats)
                more = next_episode - first < episodes or steps < min_steps
                if more or not finished:
                    self._start(w, next_episode)
                    next_episode += 1
                else:
                    alive[w] = False
        return rows.by_episode(), stats._replace(terms=rows.mean_terms()), next_episode

    # --- worlds that go on across updates --------------------------------------------

    def collect_steps(
        self, act: Explorer, next_episode: int, steps: int
    ) -> Player[Collected]:
        """`steps` steps of every world; what is under way goes on in the next batch."""
        rows, stats = Rows(), EpisodeStats([], [], {})
        everyone = np.arange(self.count)
        for w in everyone[self.episode < 0]:
            self._start(w, next_episode)
            next_episode += 1
        for _ in range(steps):
            ended = yield from self._step(everyone, act, rows, remember=True)
            for w in ended:
                self._finish(w, rows, stats)
                self._start(w, next_episode)
                next_episode += 1
        batch = rows.by_world()
        if len(batch.reward) == 0:
            raise EnvironmentFault(
                f"{self.id}: every episode of a batch failed, so there is nothing to learn from"
            )
        return batch, stats._replace(terms=rows.mean_terms()), next_episode

    def snapshot(self) -> RunningWorlds:
        """Where the worlds stand between two batches."""
        played = [np.asarray(p, np.float32) for p in self.played]
        m = self.blocks.shape[-1]
        actions = np.concatenate([p.reshape(-1, m) for p in played])
        return RunningWorlds(
            self.episode.copy(), self.length.copy(), actions, self.obs.copy(),
            self.drift.copy(),
        )  # fmt: skip

    def restore(self, running: RunningWorlds) -> None:
        """Play every unfinished episode again, from its seed, with the same actions."""
        offset = 0
        drift = running.drift.copy()
        for w, (episode, length) in enumerate(
            zip(running.episode, running.length, strict=True)
        ):
            if episode < 0:
                continue
            self._start(w, int(episode))
            for action in running.actions[offset : offset + length]:
                to_env = self.actions.to_env(action[None], clip=self.clip)
                stepped = self._play_one(w, to_env)
                self.returned[w] += stepped.reward[0]
                self.obs[w] = stepped.obs[0]
                self.played[w].append(action)
                if self.length[w] % NOISE_BLOCK == 0:
                    self._draw(w)
                self.length[w] += 1
            offset += length
            if not np.array_equal(self.obs[w], running.obs[w]):
                raise EnvironmentFault(
                    f"{self.id}: episode {episode}, repeated with its seed and actions, led "
                    "to another state, so this run cannot be resumed exactly; use "
                    "collect=episodes with this environment"
                )
        self.drift = drift

    def _play_one(self, w: int, to_env: np.ndarray) -> Stepped:
        stepped = self.worlds.step(np.array([self.first + w]), to_env)
        for fault in stepped.faults.values():
            raise fault
        return stepped

    # --- one world -------------------------------------------------------------------

    def _start(self, w: int, episode: int) -> None:
        self.episode[w], self.length[w], self.returned[w] = episode, 0, 0.0
        self.drift[w] = 0.0
        self.noise[w] = generator(self.seed, Stream.NOISE, episode)
        self.played[w] = []
        seed = env_seed(self.seed, Stream.TRAIN_RESET, episode)
        while True:
            try:
                self.obs[w] = self.worlds.reset(self.first + w, seed)
                return
            except EnvironmentFault as fault:
                self._replace(w, fault, None)

    def _draw(self, w: int) -> None:
        """The next block: the noise of step t of an episode is row t of its stream."""
        noise = self.noise[w]
        assert noise is not None  # noqa: S101  set by _start
        noise.random(out=self.blocks[w])

    def _step(
        self, living: np.ndarray, act: Explorer, rows: Rows, remember: bool = False
    ) -> Player[list[int]]:
        """One step of the living worlds; those whose episode ended come back."""
        self.poll()
        # all alive is the common case, and a slice is cheaper than a list of indices
        at = slice(None) if len(living) == self.count else living
        obs, action = self._choose(living, at, act)
        to_env = self.actions.to_env(action, clip=self.clip)
        stepped = yield Ask(living + self.first, to_env)
        next_obs, reward = stepped.obs, stepped.reward
        terminated, truncated = stepped.terminated, stepped.truncated
        failed: list[int] = []
        for i, fault in stepped.faults.items():
            self._replace(living[i], fault, to_env[i])
            next_obs[i], reward[i] = obs[i], 0.0
            failed.append(int(living[i]))
        if not finite_sum(next_obs, reward):
            failed += self._throw_away_non_finite(living, next_obs, reward, to_env)
        rows.append(
            obs, next_obs, action, reward, terminated, truncated,
            self.episode[at].copy(), living,
        )  # fmt: skip
        rows.count_terms(stepped.terms)
        self.obs[at] = next_obs
        self.length[at] += 1
        self.returned[at] += reward
        if remember:
            for i, w in enumerate(living):
                self.played[w].append(action[i])
        over = terminated | truncated
        if not (failed or over.any()):
            return []
        rows.discarded.update(int(self.episode[w]) for w in failed)
        return [int(w) for w in living[over] if w not in failed] + failed

    def _choose(
        self, living: np.ndarray, at: slice | np.ndarray, act: Explorer
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the living worlds see, and what is done there."""
        row = self.length[at] % NOISE_BLOCK
        for w in living[row == 0]:
            self._draw(w)
        uniform = self.blocks[living, row]
        obs = self.obs[at].copy()
        action, self.drift[at] = act(obs, uniform, self.drift[at])
        return obs, finite(action)

    def _throw_away_non_finite(
        self,
        living: np.ndarray,
        next_obs: np.ndarray,
        reward: np.ndarray,
        to_env: np.ndarray,
    ) -> list[int]:
        """A non-finite number never reaches a batch: its world is treated as broken."""
        broken = []
        for i, w in enumerate(living):
            bad_obs = not np.isfinite(next_obs[i]).all()
            if bad_obs or not np.isfinite(reward[i]):
                what = "observation" if bad_obs else "reward"
                value = next_obs[i] if bad_obs else reward[i]
                when = f"after step {self.length[w]} of episode {self.episode[w]}"
                self._replace(w, non_finite(self.id, what, value, when), to_env[i])
                next_obs[i], reward[i] = 0.0, 0.0
                broken.append(int(w))
        return broken

    def _finish(self, w: int, rows: "Rows", stats: EpisodeStats) -> bool:
        """Count an episode that ended; False if a fault threw it away."""
        if int(self.episode[w]) in rows.discarded:
            return False
        stats.returns.append(float(self.returned[w]))
        stats.lengths.append(int(self.length[w]))
        return True

    def _replace(
        self, w: int, fault: EnvironmentFault, action: np.ndarray | None
    ) -> None:
        """Replace a broken world, as often as was allowed; its episode is thrown away."""
        fault.where |= {
            "seed": self.seed,
            "world": int(w),
            "episode": int(self.episode[w]),
            "step": int(self.length[w]),
            "reset_seed": env_seed(self.seed, Stream.TRAIN_RESET, int(self.episode[w])),
            "action": np.asarray(action).tolist(),
        }
        if self.faults >= self.restarts:
            raise fault
        self.faults += 1
        self.worlds.replace(self.first + int(w))


Played = tuple[list[float], list[int], list[bool]]  # returns, lengths, terminated


def play_episodes(
    worlds: Worlds,
    act: Callable[[np.ndarray, int], np.ndarray],
    seeds: list[int],
    poll: Callable[[], None] = lambda: None,
    first: int = 0,
    clip: bool = True,
) -> Player[Played]:
    """Play one episode a seed, all of them to the end, in the worlds from `first` on.

    `act` gets the living observations and the step number. Nothing of training is touched.
    """
    k = len(seeds)
    obs = np.stack([worlds.reset(first + w, seed) for w, seed in enumerate(seeds)])
    returns, lengths, ended = np.zeros(k), np.zeros(k, int), np.zeros(k, bool)
    alive, t = np.ones(k, bool), 0
    while alive.any():
        poll()
        living = np.flatnonzero(alive)
        to_env = worlds.actions.to_env(finite(act(obs[living], t)), clip=clip)
        stepped = yield Ask(living + first, to_env)
        for fault in stepped.faults.values():
            raise fault
        obs[living] = stepped.obs
        returns[living] += stepped.reward
        if not finite_sum(returns, stepped.obs):
            _blame(worlds.id, living, returns, obs, t)
        lengths[living] += 1
        ended[living] = stepped.terminated
        alive[living] = ~(stepped.terminated | stepped.truncated)
        t += 1
    return returns.tolist(), lengths.tolist(), ended.tolist()


def _blame(env_id: str, living: np.ndarray, returns, obs, t: int) -> None:
    """Name the first non-finite number of an evaluation."""
    for w in living:
        good = np.isfinite(returns[w])
        if not (good and np.isfinite(obs[w]).all()):
            what, bad = ("observation", obs[w]) if good else ("return", returns[w])
            raise non_finite(
                env_id, what, bad, f"after step {t} of an evaluation episode"
            )
