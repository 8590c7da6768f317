"""Episodes of mu without noise, on environments and seeds that training never sees."""

from collections.abc import Callable

import numpy as np
import scipy.special

from penfac.core.noise import EXPLORATION_LAWS
from penfac.envs.gym import World
from penfac.policy import PolicyWeights, mean_action
from penfac.randomness import Stream, env_seed, generator
from penfac.rollout.host import play_episodes

Played = tuple[list[float], list[int], list[bool]]  # returns, lengths, terminated


class Evaluator:
    """The evaluation worlds of one learner, opened when first needed."""

    def __init__(self, open_world: Callable[[], World], seed: int, poll=lambda: None):
        self.open_world, self.seed, self.poll = open_world, seed, poll
        self.worlds: list[World] = []

    def deterministic(
        self,
        weights: PolicyWeights,
        episodes: int,
        evaluation: int = 0,
        stream: Stream = Stream.EVAL_RESET,
    ) -> Played:
        """Play mu. `evaluation` names the set of initial states; 0 for always the same."""
        return self._play(
            lambda obs, t: mean_action(weights, obs), episodes, evaluation, stream
        )

    def sampled(
        self,
        weights: PolicyWeights,
        law: str,
        sigma: float,
        episodes: int,
        evaluation: int = 0,
    ) -> Played:
        """Play the exploring policy, on the initial states of `penfac eval`."""
        noise = generator(self.seed, Stream.PLAY_NOISE, evaluation)

        def act(obs, t):
            mu = mean_action(weights, obs).astype(np.float64)
            return EXPLORATION_LAWS[law](
                mu, sigma, noise.random(mu.shape), scipy.special
            )

        return self._play(act, episodes, evaluation, Stream.PLAY_RESET)

    def close(self) -> None:
        for world in self.worlds:
            world.close()

    def _play(self, act, episodes: int, evaluation: int, stream: Stream) -> Played:
        while len(self.worlds) < episodes:
            self.worlds.append(self.open_world())
        seeds = [env_seed(self.seed, stream, evaluation, e) for e in range(episodes)]
        return play_episodes(self.worlds[:episodes], act, seeds, self.poll)
