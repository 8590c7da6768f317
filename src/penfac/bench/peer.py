# pyright: reportMissingImports=false
"""Stable-Baselines3 with our hyperparameters: its speed, and what it learns."""

import time
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import DDPG, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from penfac.bench.contest import Race, mean_return, settings


def unit_actions(env_id: str) -> gymnasium.Env:
    """Map actions to [-1, 1], as ours are and as its guide advises for PPO."""
    return gymnasium.wrappers.RescaleAction(
        gymnasium.make(env_id), np.float32(-1), np.float32(1)
    )


def vector(env_id: str, count: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: unit_actions(env_id) for _ in range(count)])


def same_ppo(race: Race, seed: int) -> PPO:
    ours = settings("ppo", race)
    env: Any = vector(race.env, ours["worlds"])
    if ours["normalise_obs"]:
        env = VecNormalize(env, gamma=ours["gamma"])
    batch = ours["worlds"] * ours["steps_per_world"] // ours["minibatches"]
    return PPO(
        "MlpPolicy", env, n_steps=ours["steps_per_world"], batch_size=batch,
        n_epochs=ours["epochs"], learning_rate=ours["lr"], gamma=ours["gamma"],
        gae_lambda=ours["lam"], seed=seed, device="cpu",
    )  # fmt: skip


class QuietAtFirst(NormalActionNoise):
    """No noise for the first calls: the random actions of the start are played as drawn.
    Stable-Baselines3 would add noise to them and clip."""

    def __init__(self, widths: np.ndarray, calls: int):
        super().__init__(np.zeros_like(widths), widths)
        self.silent = calls

    def __call__(self) -> np.ndarray:
        if self.silent > 0:
            self.silent -= 1
            return np.zeros_like(self._mu, self._dtype)
        return super().__call__()


def same_replayed(
    algo: str, race: Race, seed: int, noisy_start: bool = False
) -> DDPG | TD3 | SAC:
    """Return a learner of theirs; `noisy_start` leaves their noise on random actions."""
    ours, env = settings(algo, race), gymnasium.make(race.env)
    dimensions, noise = int(np.prod(env.action_space.shape or ())), None
    kind = {"ddpg": DDPG, "td3": TD3, "sac": SAC}[algo]
    # it learns after more than learning_starts steps, we after exactly that many:
    # without the 1 it would start a whole collection later
    starts = ours["learning_starts"] - 1
    if algo != "sac":  # its policy is random itself
        widths = ours["sigma"] * np.ones(dimensions)
        noise = QuietAtFirst(widths, calls=0 if noisy_start else starts)
    return kind(
        "MlpPolicy", env, learning_rate=ours["actor_lr"], buffer_size=ours["replay"],
        learning_starts=starts, batch_size=ours["batch_size"],
        tau=ours["tau"], gamma=ours["gamma"], gradient_steps=ours["gradient_steps"],
        train_freq=(ours["steps_per_world"], "step"), action_noise=noise, seed=seed,
        policy_kwargs={"net_arch": list(ours["actor_hidden"])}, device="cpu",
    )  # fmt: skip


def same_learner(algo: str, race: Race, seed: int) -> PPO | DDPG | TD3 | SAC:
    if algo == "ppo":
        return same_ppo(race, seed)
    return same_replayed(algo, race, seed)


def peer_score(algo: str, race: Race, seed: int) -> float:
    """Return what Stable-Baselines3 reaches in the same number of steps."""
    torch.set_num_threads(1)
    model = same_learner(algo, race, seed)
    model.learn(race.steps[algo])
    training: Any = model.get_env()
    normalised = isinstance(training, VecNormalize)

    def act(obs: np.ndarray) -> np.ndarray:
        seen = training.normalize_obs(obs) if normalised else obs
        return model.predict(seen, deterministic=True)[0]

    return mean_return(act, race, unit_actions if algo == "ppo" else gymnasium.make)


def same_steps_per_second(algo: str, race: Race, steps: int) -> float:
    """Return its speed while it learns, the better of one and two threads."""
    rates = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        model = same_learner(algo, race, 0)
        warm = 2048 if algo == "ppo" else settings(algo, race)["learning_starts"] + 500
        model.learn(warm)
        started = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        rates.append(steps / (time.perf_counter() - started))
    return max(rates)
