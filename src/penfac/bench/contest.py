"""What our baselines and Stable-Baselines3's share: task, settings, evaluation."""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

FIRST_STATE = 1_000_000  # seeds of the initial states, the same for both sides


class Race(NamedTuple):
    """A task, a budget, and the number of evaluation episodes."""

    env: str
    steps: dict[str, int]
    episodes: int
    seeds: int


PENDULUM = Race(
    "Pendulum-v1",
    {"ppo": 20_480, "ddpg": 20_000, "td3": 20_000, "sac": 20_000},
    20,
    seeds=30,
)
HALFCHEETAH = Race(
    "HalfCheetah-v5",
    {"ppo": 301_056, "ddpg": 60_000, "td3": 60_000, "sac": 60_000},
    10,
    seeds=5,
)


def settings(algo: str, race: Race) -> dict[str, Any]:
    """The hyperparameters of both sides, under our names."""
    small = race is PENDULUM
    if algo == "ppo":
        return {
            "worlds": 4,
            "steps_per_world": 256 if small else 512,
            "minibatches": 16 if small else 32,  # of 64 steps
            "epochs": 10,
            "lr": 1e-3 if small else 3e-4,
            "gamma": 0.9 if small else 0.99,
            "lam": 0.95,
            "normalise_obs": not small,
            "normalise_returns": not small,
            # theirs where our default differs
            "lr_end": None,
            "clip_end": None,
            "entropy_weight": 0.0,
            "max_grad_norm": 0.5,
            "sigma": 1.0,
            "critic_hidden": (64, 64),
        }
    replayed = {
        "actor_lr": 1e-3,
        "critic_lr": 1e-3,
        "replay": 100_000,
        "learning_starts": 1000 if small else 5000,
        "random_steps": 1000 if small else 5000,
        "batch_size": 128 if small else 256,
        "tau": 0.005,
        "gamma": 0.98 if small else 0.99,
        "worlds": 1,
        "steps_per_world": 50,
        "gradient_steps": 50,
        "init": "uniform",
        "activation": "relu",
        "actor_hidden": (64, 64),
        "critic_hidden": (64, 64),
    }
    if algo == "sac":
        return replayed | {"temperature_lr": 1e-3, "normalise_obs": False}
    return replayed | {
        "exploration": "clipped",
        "sigma": 0.1,
        "normalise_actor": "none",
        "normalise_critic": "none",
    }


def mean_return(
    act: Callable[[np.ndarray], np.ndarray],
    race: Race,
    make: Callable[[str], gymnasium.Env] = gymnasium.make,
) -> float:
    """Return the mean return from the same initial states, for any policy."""
    env, totals = make(race.env), []
    for episode in range(race.episodes):
        obs, _ = env.reset(seed=FIRST_STATE + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    env.close()
    return statistics.fmean(totals)
