"""Episodes of mu without noise, on environments and seeds that training never sees."""

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.special

from penfac.core.noise import Exploration, explore, stationary_sigma
from penfac.envs.worlds import Worlds
from penfac.errors import PenfacError
from penfac.policy import PolicyWeights, mean_action
from penfac.randomness import Stream, env_seed
from penfac.rollout.host import Explorer, Played, play_episodes
from penfac.rollout.lockstep import Player, play_together

Act = Callable[[np.ndarray, int], np.ndarray]  # (observations, step number) -> actions
Key = TypeVar("Key", bound=Hashable)


class Candidate(NamedTuple):
    """Who is to be judged, and on which set of initial states."""

    seed: int
    act: Act
    evaluation: int = 0  # names the set; 0 for always the same
    clip: bool = True  # its actions, before the environment gets them


def deterministic(weights: PolicyWeights) -> Act:
    """mu."""
    return lambda obs, t: mean_action(weights, obs)


MODES = {"sampled": 1, "mean-of-15": 15}  # how many samples are averaged


def chooser(mode: str, act: Explorer, noise: np.random.Generator) -> Act:
    """How a policy is judged: by its mean; by what it samples; by the mean of 15 samples,
    the paper's deterministic PPO."""
    if mode == "mean":
        return deterministic(act.weights)
    samples, how, sigma = MODES[mode], act.how, act.sigma
    if how.law == "ou":  # as wide as it becomes; rows of an evaluation come and go
        sigma = stationary_sigma(sigma, how.theta, how.dt)
        how = Exploration("clipped")

    def choose(obs, t):
        mu = mean_action(act.weights, obs).astype(np.float64)
        uniform = noise.random((samples, *mu.shape))
        means, still = np.broadcast_to(mu, uniform.shape), np.zeros(uniform.shape)
        actions, _ = explore(how, means, sigma, uniform, still, scipy.special)
        return actions.mean(axis=0)

    return choose


class Evaluator:
    """The evaluation worlds of all learners, opened when first needed."""

    def __init__(self, open_worlds: Callable[[int], Worlds], poll=lambda: None):
        self.open_worlds, self.poll = open_worlds, poll
        self.worlds: Worlds | None = None

    def play(
        self,
        candidates: dict[Key, Candidate],
        episodes: int,
        stream: Stream = Stream.EVAL_RESET,
    ) -> Iterator[tuple[Key, Played | PenfacError]]:
        """`episodes` of each candidate, all in lock-step."""
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
