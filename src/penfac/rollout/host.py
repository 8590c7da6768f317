"""Gymnasium environments in lock-step: many worlds of one learner, only the living ones.

We reset ourselves, so the final observation is never lost and a dead world costs nothing.
Every episode has a number; its reset seed and its noise follow from (run seed, number).
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from penfac.core.noise import EXPLORATION_LAWS
from penfac.envs.gym import World, non_finite
from penfac.errors import Divergence, EnvironmentFault
from penfac.policy import PolicyWeights, mean_action
from penfac.randomness import Stream, env_seed, generator
from penfac.types import EpisodeStats, Transitions

# overflow makes an infinity that is caught as such; a warning would say it twice
QUIETLY = np.errstate(over="ignore", invalid="ignore")
NOISE_BLOCK = 128  # steps of noise drawn at once


class Explorer(NamedTuple):
    """mu with exploration around it."""

    weights: PolicyWeights
    law: str
    sigma: float

    def __call__(self, obs: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        mu = mean_action(self.weights, obs).astype(np.float64)
        action = EXPLORATION_LAWS[self.law](mu, self.sigma, uniform, scipy.special)
        return action.astype(np.float32)


def finite_sum(*arrays: np.ndarray) -> bool:
    """False if any number is NaN or infinite, or if so many large ones add up to that."""
    return all(math.isfinite(np.add.reduce(x, axis=None)) for x in arrays)


def finite(action: np.ndarray) -> np.ndarray:
    """Weights that are finite but huge: no environment is to blame for what follows."""
    if not finite_sum(action):
        raise Divergence(
            "an action became non-finite, the actor's weights are too large; the last "
            "good checkpoint is kept (a smaller actor_lr helps)"
        )
    return action


class RunningWorlds(NamedTuple):
    """Where worlds in mid-episode stand: enough to play them there again."""

    episode: np.ndarray  # [W] which episode
    length: np.ndarray  # [W] steps played of it
    actions: np.ndarray  # [sum of length, m] in [-1, 1], world after world
    obs: np.ndarray  # [W, n] where that led: checked after playing it again


class HostWorlds:
    """The training worlds of one learner."""

    def __init__(
        self,
        open_world: Callable[[], World],
        seed: int,
        count: int,
        *,
        restarts: int = 0,
        poll: Callable[[], None] = lambda: None,
    ):
        self.open_world, self.seed, self.poll = open_world, seed, poll
        self.worlds = [open_world() for _ in range(count)]
        world = self.worlds[0]
        self.id, self.actions = world.id, world.actions
        n, m = world.obs_dim, len(world.actions.low)
        self.obs = np.zeros((count, n), np.float32)
        self.episode = np.full(count, -1, np.int64)
        self.length = np.zeros(count, np.int64)
        self.returned = np.zeros(count)
        self.noise: list[np.random.Generator | None] = [None] * count
        self.blocks = np.zeros((count, NOISE_BLOCK, m))
        self.played: list[list[np.ndarray]] = [[] for _ in range(count)]
        self.restarts, self.faults = restarts, 0

    # --- whole episodes, the paper's way ---------------------------------------------

    @QUIETLY
    def collect_episodes(
        self, act: Explorer, first: int, episodes: int, min_steps: int
    ) -> tuple[Transitions, EpisodeStats, int]:
        """Play episodes number `first`, first + 1, ... to their ends.

        At least `episodes` of them; whenever one ends and all played so far are fewer
        than `min_steps` steps, another starts. Whatever starts is finished and used, so
        short episodes are not favoured.
        """
        rows, stats, next_episode = Rows(), EpisodeStats([], []), first
        alive = np.zeros(len(self.worlds), bool)
        for w in range(min(episodes, len(self.worlds))):
            self._start(w, next_episode)
            alive[w], next_episode = True, next_episode + 1
        steps = 0
        while alive.any():
            living = np.flatnonzero(alive)
            ended = self._step(living, act, rows)
            steps += len(living)
            for w in ended:
                finished = self._finish(w, rows, stats)
                more = next_episode - first < episodes or steps < min_steps
                if more or not finished:
                    self._start(w, next_episode)
                    next_episode += 1
                else:
                    alive[w] = False
        return rows.by_episode(), stats, next_episode

    # --- worlds that go on across updates --------------------------------------------

    @QUIETLY
    def collect_steps(
        self, act: Explorer, next_episode: int, steps: int
    ) -> tuple[Transitions, EpisodeStats, int]:
        """`steps` steps of every world; what is under way goes on in the next batch."""
        rows, stats = Rows(), EpisodeStats([], [])
        everyone = np.arange(len(self.worlds))
        for w in everyone[self.episode < 0]:
            self._start(w, next_episode)
            next_episode += 1
        for _ in range(steps):
            ended = self._step(everyone, act, rows, remember=True)
            for w in ended:
                self._finish(w, rows, stats)
                self._start(w, next_episode)
                next_episode += 1
        batch = rows.by_world()
        if len(batch.reward) == 0:
            raise EnvironmentFault(
                f"{self.id}: every episode of a batch broke, nothing is left to learn from"
            )
        return batch, stats, next_episode

    def snapshot(self) -> RunningWorlds:
        """Where the worlds stand between two batches."""
        played = [np.asarray(p, np.float32) for p in self.played]
        m = self.blocks.shape[-1]
        actions = np.concatenate([p.reshape(-1, m) for p in played])
        return RunningWorlds(
            self.episode.copy(), self.length.copy(), actions, self.obs.copy()
        )

    def restore(self, running: RunningWorlds) -> None:
        """Play every unfinished episode again, from its seed, with the same actions."""
        offset = 0
        for w, (episode, length) in enumerate(
            zip(running.episode, running.length, strict=True)
        ):
            if episode < 0:
                continue
            self._start(w, int(episode))
            for action in running.actions[offset : offset + length]:
                obs, reward, *_ = self.worlds[w].step(self.actions.to_env(action))
                self.returned[w] += reward
                self.obs[w] = obs
                self.played[w].append(action)
                if self.length[w] % NOISE_BLOCK == 0:
                    self._draw(w)
                self.length[w] += 1
            offset += length
            if not np.array_equal(self.obs[w], running.obs[w]):
                raise EnvironmentFault(
                    f"{self.id}: episode {episode} played again with the same seed and "
                    "actions did not lead to the same state, so this run cannot be "
                    "resumed exactly; use collect=episodes with this environment"
                )

    @property
    def env_seconds(self) -> float:
        """Time spent in the environments' own step so far."""
        return sum(world.seconds for world in self.worlds)

    def close(self) -> None:
        for world in self.worlds:
            world.close()

    # --- one world -------------------------------------------------------------------

    def _start(self, w: int, episode: int) -> None:
        self.episode[w], self.length[w], self.returned[w] = episode, 0, 0.0
        self.noise[w] = generator(self.seed, Stream.NOISE, episode)
        self.played[w] = []
        seed = env_seed(self.seed, Stream.TRAIN_RESET, episode)
        while True:
            try:
                self.obs[w] = self.worlds[w].reset(seed)
                return
            except EnvironmentFault as fault:
                self._rebuild(w, fault, None)

    def _draw(self, w: int) -> None:
        """The next block: the noise of step t of an episode is row t of its stream."""
        noise = self.noise[w]
        assert noise is not None  # noqa: S101  set by _start
        noise.random(out=self.blocks[w])

    def _step(
        self, living: np.ndarray, act: Explorer, rows: "Rows", remember: bool = False
    ) -> list[int]:
        """One step of the living worlds; those whose episode ended come back."""
        self.poll()
        # all alive is the common case, and a slice is cheaper than a list of indices
        at = slice(None) if len(living) == len(self.worlds) else living
        row = self.length[at] % NOISE_BLOCK
        for w in living[row == 0]:
            self._draw(w)
        uniform = self.blocks[living, row]
        obs = self.obs[at].copy()
        action = finite(act(obs, uniform))
        to_env = self.actions.to_env(action)
        k = len(living)
        next_obs, reward = np.empty_like(obs), np.empty(k)
        terminated, truncated = np.zeros(k, bool), np.zeros(k, bool)
        failed: list[int] = []
        for i, w in enumerate(living):
            try:
                step = self.worlds[w].step(to_env[i, ...])  # an array even of shape ()
                next_obs[i], reward[i], terminated[i], truncated[i] = step
            except EnvironmentFault as fault:
                self._rebuild(w, fault, to_env[i])
                next_obs[i], reward[i] = obs[i], 0.0
                failed.append(int(w))
        if not finite_sum(next_obs, reward):
            failed += self._throw_away_non_finite(living, next_obs, reward, to_env)
        rows.append(
            obs, next_obs, action, reward, terminated, truncated,
            self.episode[at].copy(), living,
        )  # fmt: skip
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
                self._rebuild(w, non_finite(self.id, what, value, when), to_env[i])
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

    def _rebuild(
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
        with contextlib.suppress(EnvironmentFault):
            self.worlds[w].close()
        self.worlds[w] = self.open_world()


class Rows:
    """Steps in the order they were played, then in the order they belong."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, ...]] = []
        self.discarded: set[int] = set()

    def append(self, *arrays: np.ndarray) -> None:
        self.parts.append(arrays)

    def _columns(self) -> list[Any]:
        columns = [np.concatenate(c) for c in zip(*self.parts, strict=True)]
        if self.discarded:
            kept = ~np.isin(columns[6], list(self.discarded))
            columns = [c[kept] for c in columns]
        return columns

    def by_episode(self) -> Transitions:
        """Episode after episode, each in time order."""
        columns = self._columns()
        return _transitions(columns, np.argsort(columns[6], kind="stable"))

    def by_world(self) -> Transitions:
        """World after world; the end of a world's row cuts without ending an episode."""
        columns = self._columns()
        order = np.argsort(columns[7], kind="stable")
        steps = _transitions(columns, order)
        worlds = columns[7][order]
        row_end = np.append(worlds[1:] != worlds[:-1], True)
        return steps._replace(last=steps.last | row_end)


def _transitions(columns: list[Any], order: np.ndarray) -> Transitions:
    obs, next_obs, action, reward, terminated, truncated, *_ = (
        c[order] for c in columns
    )
    truncated = truncated & ~terminated  # both at once: the end is real
    mask: Any = np.ones(len(order), bool)
    with np.errstate(over="ignore"):  # 1e39 becomes inf, and the update diverges
        reward = reward.astype(np.float32)
    return Transitions(
        mask=mask,
        obs=obs,
        next_obs=next_obs,
        action=action,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        last=terminated | truncated,
    )


@QUIETLY
def play_episodes(
    worlds: list[World],
    act: Callable[[np.ndarray, int], np.ndarray],
    seeds: list[int],
    poll: Callable[[], None] = lambda: None,
) -> tuple[list[float], list[int], list[bool]]:
    """Play one episode a seed, all of them to the end: returns, lengths, terminated.

    `act` gets the living observations and the step number. Nothing of training is touched.
    """
    k = len(seeds)
    obs = np.stack([w.reset(s) for w, s in zip(worlds, seeds, strict=True)])
    returns, lengths, ended = np.zeros(k), np.zeros(k, int), np.zeros(k, bool)
    alive, t = np.ones(k, bool), 0
    actions = worlds[0].actions
    while alive.any():
        poll()
        living = np.flatnonzero(alive)
        to_env = actions.to_env(finite(act(obs[living], t)))
        for i, w in enumerate(living):
            obs[w], reward, terminated, truncated = worlds[w].step(to_env[i, ...])
            returns[w] += reward
            if not (np.isfinite(returns[w]) and np.isfinite(obs[w]).all()):
                good = np.isfinite(returns[w])
                what, bad = ("observation", obs[w]) if good else ("return", returns[w])
                when = f"after step {t} of an evaluation episode"
                raise non_finite(worlds[w].id, what, bad, when)
            lengths[w] += 1
            ended[w] = terminated
            alive[w] = not (terminated or truncated)
        t += 1
    return returns.tolist(), lengths.tolist(), ended.tolist()
