"""Evaluation on the host, in environments and initial states that training never sees."""

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.special

from penfac.core.noise import Exploration, explore, stationary_sigma
from penfac.envs.worlds import Worlds
from penfac.errors import PenfacError
from penfac.policy import PolicyWeights, mean_action
from penfac.randomness import Stream, env_seed
from penfac.rollout.episodes import Played, play_episodes
from penfac.rollout.explorer import Explorer
from penfac.rollout.lockstep import Player, play_together

Act = Callable[[np.ndarray, int], np.ndarray]  # (observations, step number) -> actions
Key = TypeVar("Key", bound=Hashable)


class Candidate(NamedTuple):
    """A policy to evaluate, and its set of initial states."""

    seed: int
    act: Act
    evaluation: int = 0  # the name of the set; 0 repeats the same one
    clip: bool = True  # clip its actions before the environment gets them


def act_by_mean(weights: PolicyWeights) -> Act:
    """The deterministic policy: actions are mu."""
    return lambda obs, t: mean_action(weights, obs)


MODES = {"sampled": 1, "mean-of-15": 15}  # the number of samples that are averaged


def action_chooser(mode: str, act: Explorer, noise: np.random.Generator) -> Act:
    """The actions of an evaluation mode: mu; one sample; or the mean of 15 samples, the
    paper's deterministic PPO."""
    if mode == "mean":
        return act_by_mean(act.weights)
    samples, how = MODES[mode], act.how
    # the rows here change as episodes end, so there is no drift to carry on: correlated
    # noise has its stationary deviation instead
    correlated = how.law == "ou"
    law = Exploration("clipped") if correlated else how

    def choose(obs, t):
        mu, sigma = act.around(obs)
        if correlated:
            sigma = stationary_sigma(sigma, how.theta, how.dt)
        uniform = noise.random((samples, *mu.shape))
        means, drift = np.broadcast_to(mu, uniform.shape), np.zeros(uniform.shape)
        actions, _ = explore(law, means, sigma, uniform, drift, scipy.special)
        return actions.mean(axis=0)

    return choose


class Evaluator:
    """The evaluation worlds of all learners, opened at the first evaluation."""

    def __init__(self, open_worlds: Callable[[int], Worlds], poll=lambda: None):
        self.open_worlds, self.poll = open_worlds, poll
        self.worlds: Worlds | None = None

    def play(
        self,
        candidates: dict[Key, Candidate],
        episodes: int,
        stream: Stream = Stream.EVAL_RESET,
    ) -> Iterator[tuple[Key, Played | PenfacError]]:
        """Play `episodes` of each candidate, all in lock-step."""
        needed = episodes * len(candidates)
        if self.worlds is None:
            self.worlds = self.open_worlds(needed)
        self.worlds.grow(needed)
        players = {
            key: self._player(who, episodes, stream, place * episodes)
            for place, (key, who) in enumerate(candidates.items())
        }
        yield from play_together(self.worlds, players)

    def _player(
        self, who: Candidate, episodes: int, stream: Stream, first: int
    ) -> Player[Played]:
        assert self.worlds is not None  # noqa: S101  opened by play
        seeds = [env_seed(who.seed, stream, who.evaluation, e) for e in range(episodes)]
        return play_episodes(
            self.worlds, who.act, seeds, self.poll, first, clip=who.clip
        )

    def close(self) -> None:
        if self.worlds is not None:
            self.worlds.close()
