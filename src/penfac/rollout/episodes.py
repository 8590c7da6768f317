"""Whole episodes on the host for evaluation: returns and lengths, no steps are kept."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penfac.envs.gym import non_finite
from penfac.envs.worlds import Worlds
from penfac.errors import EnvironmentFault
from penfac.rollout.explorer import check_finite, finite_sum
from penfac.rollout.lockstep import Ask, Player


class Played(NamedTuple):
    """The results of some episodes."""

    returns: list[float]
    lengths: list[int]
    terminated: list[bool]


def play_episodes(
    worlds: Worlds,
    act: Callable[[np.ndarray, int], np.ndarray],
    seeds: list[int],
    poll: Callable[[], None] = lambda: None,
    first: int = 0,
    clip: bool = True,
) -> Player[Played]:
    """Play one episode for each seed to its end, in the worlds from `first` on.

    `act` gets the observations of the worlds that still play, and the step number.
    """
    k = len(seeds)
    obs = np.stack([begun(worlds, first + w, seed) for w, seed in enumerate(seeds)])
    returns, lengths, ended = np.zeros(k), np.zeros(k, int), np.zeros(k, bool)
    alive, t = np.ones(k, bool), 0
    while alive.any():
        poll()
        living = np.flatnonzero(alive)
        to_env = worlds.actions.to_env(check_finite(act(obs[living], t)), clip=clip)
        stepped = yield Ask(living + first, to_env)
        for fault in stepped.faults.values():
            raise fault
        obs[living] = stepped.obs
        returns[living] += stepped.reward
        if not finite_sum(returns, stepped.obs):
            raise_if_non_finite(worlds.id, living, returns, obs, t)
        lengths[living] += 1
        ended[living] = stepped.terminated
        alive[living] = ~(stepped.terminated | stepped.truncated)
        t += 1
    return Played(returns.tolist(), lengths.tolist(), ended.tolist())


def begun(worlds: Worlds, w: int, seed: int) -> np.ndarray:
    """The initial observation of a world; all begin at once, so none has to wait."""
    obs = worlds.reset(w, seed)
    if obs is None:
        raise EnvironmentFault(f"{worlds.id}: world {w} cannot begin an evaluation")
    return obs


def raise_if_non_finite(
    env_id: str, living: np.ndarray, returns: np.ndarray, obs: np.ndarray, t: int
) -> None:
    """Name the first non-finite number of an evaluation."""
    for w in living:
        good = np.isfinite(returns[w])
        if not (good and np.isfinite(obs[w]).all()):
            what, bad = ("observation", obs[w]) if good else ("return", returns[w])
            when = f"after step {t} of an evaluation episode"
            raise non_finite(env_id, what, bad, when)
