"""Collecting on the host: the worlds of one learner step together.

Worlds are reset here and not by Gymnasium, so no final observation is lost and a finished
world costs nothing. The reset seed and the noise of an episode follow from the run's seed
and the number of the episode.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from penfac.envs.gym import non_finite
from penfac.envs.stepped import Stepped
from penfac.envs.worlds import Worlds
from penfac.errors import EnvironmentFault
from penfac.randomness import Stream, env_seed, generator
from penfac.rollout.explorer import Explorer, check_finite, finite_sum
from penfac.rollout.lockstep import Ask, Player, part_of
from penfac.rollout.running import RunningWorlds
from penfac.rollout.step_log import PlayedSteps, StepLog
from penfac.types import EpisodeStats, Transitions

NOISE_BLOCK = 128  # steps of noise drawn at once

Collected = tuple[Transitions, EpisodeStats, int]  # with the next episode's number


class HostWorlds:
    """The training worlds of one learner: `count` of `worlds`, from number `first` on."""

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
        # the actions of episodes that continue in the next batch, [W, at least length, m]
        self.played = np.zeros((count, NOISE_BLOCK, m), np.float32)
        self.waiting = np.zeros(count, bool)  # for a reset in the next step
        self.restarts, self.faults = restarts, 0

    # --- whole episodes, as in the paper ---------------------------------------------

    def collect_episodes(
        self, act: Explorer, first: int, episodes: int, min_steps: int
    ) -> Player[Collected]:
        """Play episodes number `first`, first + 1, ... to their ends.

        At least `episodes` of them; when one ends before `min_steps` steps have been
        played in all, another starts. Every episode that starts is finished and used, so
        short episodes are not favoured.
        """
        log, stats, next_episode = StepLog(), EpisodeStats([], [], {}), first
        alive = np.zeros(self.count, bool)
        for w in range(min(episodes, self.count)):
            self._start(w, next_episode)
            alive[w], next_episode = True, next_episode + 1
        steps = 0
        while alive.any():
            living = np.flatnonzero(alive)
            ended = yield from self._step(living, act, log)
            steps += len(log.parts[-1].reward)
            for w in ended:
                finished = self._finish(w, log, stats)
                more = next_episode - first < episodes or steps < min_steps
                if more or not finished:
                    self._start(w, next_episode)
                    next_episode += 1
                else:
                    alive[w] = False
        return log.by_episode(), stats._replace(terms=log.mean_terms()), next_episode

    # --- worlds that run across updates ----------------------------------------------

    def collect_steps(
        self, act: Explorer, next_episode: int, steps: int
    ) -> Player[Collected]:
        """`steps` steps of every world; unfinished episodes continue in the next batch."""
        log, stats = StepLog(), EpisodeStats([], [], {})
        everyone = np.arange(self.count)
        for w in everyone[self.episode < 0]:
            self._start(w, next_episode)
            next_episode += 1
        for _ in range(steps):
            ended = yield from self._step(everyone, act, log, remember=True)
            for w in ended:
                self._finish(w, log, stats)
                self._start(w, next_episode)
                next_episode += 1
        batch = log.by_world()
        if len(batch.reward) == 0:
            raise EnvironmentFault(
                f"{self.id}: every episode of a batch failed, so there is nothing to learn from"
            )
        return batch, stats._replace(terms=log.mean_terms()), next_episode

    def snapshot(self) -> RunningWorlds:
        """The worlds between two batches, for a checkpoint."""
        played = zip(self.played, self.length, strict=True)
        actions = np.concatenate([actions[:length] for actions, length in played])
        return RunningWorlds(
            self.episode.copy(), self.length.copy(), actions, self.obs.copy(),
            self.drift.copy(),
        )  # fmt: skip

    def restore(self, running: RunningWorlds) -> int:
        """Replay every unfinished episode from its seed with the same actions.

        Returns how many led elsewhere, as they may on another machine: their worlds begin
        new episodes with the next batch.
        """
        ended = np.zeros(self.count, bool)
        running.replay(self._start, partial(self._replay_step, ended))
        self.drift = running.drift.copy()
        astray = running.changed(self.obs) | ended
        self.episode[astray], self.length[astray] = -1, 0
        return int(astray.sum())

    def _replay_step(
        self, ended: np.ndarray, rows: np.ndarray, action: np.ndarray
    ) -> None:
        to_env = self.actions.to_env(action, clip=self.clip)
        stepped = self.worlds.step(self.first + rows, to_env)
        for i, fault in stepped.faults.items():
            if not ended[rows[i]]:
                raise fault
        ended[rows] |= stepped.terminated | stepped.truncated
        self.returned[rows] += stepped.reward
        self.obs[rows] = stepped.obs
        self._remember(rows, action)
        for w in rows[self.length[rows] % NOISE_BLOCK == 0]:
            self._draw(w)
        self.length[rows] += 1

    # --- one world -------------------------------------------------------------------

    def _start(self, w: int, episode: int) -> None:
        self.episode[w], self.length[w], self.returned[w] = episode, 0, 0.0
        self.drift[w] = 0.0
        self.noise[w] = generator(self.seed, Stream.NOISE, episode)
        seed = env_seed(self.seed, Stream.TRAIN_RESET, episode)
        while True:
            try:
                obs = self.worlds.reset(self.first + w, seed)
            except EnvironmentFault as fault:
                self._replace(w, fault, None)
                continue
            self.waiting[w] = obs is None
            if obs is not None:
                self.obs[w] = obs
            return

    def _draw(self, w: int) -> None:
        """Draw the next block of noise; step t of an episode uses row t of its stream."""
        noise = self.noise[w]
        assert noise is not None  # noqa: S101  set by _start
        noise.random(out=self.blocks[w])

    def _remember(self, rows: np.ndarray, action: np.ndarray) -> None:
        """Keep the next actions of these worlds."""
        length = self.length[rows]
        if length.max() == self.played.shape[1]:
            more = np.zeros_like(self.played)
            self.played = np.concatenate([self.played, more], axis=1)
        self.played[rows, length] = action

    def _step(
        self, living: np.ndarray, act: Explorer, log: StepLog, remember: bool = False
    ) -> Player[list[int]]:
        """One step of the living worlds; returns the worlds whose episode ended."""
        self.poll()
        waiting = living[self.waiting[living]]
        if len(waiting) == len(living):  # a step of its own, which nobody plays
            nothing = self.actions.to_env(self.drift[:0])
            yield from self._ask(living[:0], nothing, living)
        elif len(waiting):
            living = living[~self.waiting[living]]
        # mostly all are alive, and a slice is cheaper than a list of indices
        at = slice(None) if len(living) == self.count else living
        obs, action = self._choose(living, at, act)
        to_env = self.actions.to_env(action, clip=self.clip)
        stepped = yield from self._ask(living, to_env, waiting)
        next_obs, reward = stepped.obs, stepped.reward
        terminated, truncated = stepped.terminated, stepped.truncated
        failed: list[int] = []
        for i, fault in stepped.faults.items():
            self._replace(living[i], fault, to_env[i])
            next_obs[i], reward[i] = obs[i], 0.0
            failed.append(int(living[i]))
        if not finite_sum(next_obs, reward):
            failed += self._replace_non_finite(living, next_obs, reward, to_env)
        log.append(
            PlayedSteps(
                obs, next_obs, action, reward, terminated, truncated,
                episode=self.episode[at].copy(), world=living,
            )
        )  # fmt: skip
        log.add_terms(stepped.terms)
        if remember:
            self._remember(living, action)
        self.obs[at] = next_obs
        self.length[at] += 1
        self.returned[at] += reward
        over = terminated | truncated
        if not (failed or over.any()):
            return []
        log.discarded.update(int(self.episode[w]) for w in failed)
        return [int(w) for w in living[over] if w not in failed] + failed

    def _ask(
        self, living: np.ndarray, to_env: np.ndarray, waiting: np.ndarray
    ) -> Player[Stepped]:
        """Step worlds. The same step resets those that wait; it is none of theirs."""
        waiting = waiting[self.waiting[waiting]]
        if not len(waiting):
            return (yield Ask(living + self.first, to_env))
        k, middle = len(living), self.actions.to_env(0 * self.drift[waiting])
        rows = np.concatenate([living, waiting]) + self.first
        stepped = yield Ask(rows, np.concatenate([to_env, middle]))
        begun = part_of(stepped, k, len(rows))
        for fault in begun.faults.values():
            raise fault
        self.obs[waiting], self.waiting[waiting] = begun.obs, False
        return part_of(stepped, 0, k)

    def _choose(
        self, living: np.ndarray, at: slice | np.ndarray, act: Explorer
    ) -> tuple[np.ndarray, np.ndarray]:
        """The observations of the living worlds, and the actions there."""
        row = self.length[at] % NOISE_BLOCK
        for w in living[row == 0]:
            self._draw(w)
        uniform = self.blocks[living, row]
        obs = self.obs[at].copy()
        action, self.drift[at] = act(obs, uniform, self.drift[at])
        return obs, check_finite(action)

    def _replace_non_finite(
        self,
        living: np.ndarray,
        next_obs: np.ndarray,
        reward: np.ndarray,
        to_env: np.ndarray,
    ) -> list[int]:
        """Treat worlds with a non-finite number as broken: it must not reach a batch."""
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

    def _finish(self, w: int, log: StepLog, stats: EpisodeStats) -> bool:
        """Count an episode that ended; False if it broke and was discarded."""
        if int(self.episode[w]) in log.discarded:
            return False
        stats.returns.append(float(self.returned[w]))
        stats.lengths.append(int(self.length[w]))
        return True

    def _replace(
        self, w: int, fault: EnvironmentFault, action: np.ndarray | None
    ) -> None:
        """Replace a broken world, `restarts` times at most; its episode is discarded."""
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
