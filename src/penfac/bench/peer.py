# pyright: reportMissingImports=false
"""Stable-Baselines3 PPO with VecNormalize, the way its users run it on HalfCheetah."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

ENV = "HalfCheetah-v5"
LIMIT = 1_000_000


def make(envs: int) -> VecNormalize:
    import gymnasium

    return VecNormalize(DummyVecEnv([lambda: gymnasium.make(ENV) for _ in range(envs)]))


def learner(envs: int, seed: int, threads: int) -> PPO:
    torch.set_num_threads(threads)
    return PPO("MlpPolicy", make(envs), n_steps=2048 // envs, seed=seed, device="cpu")


def steps_per_second(envs: int, steps: int = 8192) -> float:
    """The better of one and two threads, after a warm-up."""
    rates = []
    for threads in (1, 2):
        model = learner(envs, 0, threads)
        model.learn(2048)
        started = time.perf_counter()
        model.learn(steps, reset_num_timesteps=False)
        rates.append(steps / (time.perf_counter() - started))
    return max(rates)


class Judge(BaseCallback):
    """Every 16 384 steps, five deterministic episodes; their time is left out."""

    def __init__(self, aim: float):
        super().__init__()
        self.aim, self.judging = aim, 0.0
        self.reached: float | None = None
        self.test = make(1)
        self.next = 16_384

    def _on_step(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        self.next += 16_384
        before = time.perf_counter()
        mean = self.play()
        self.judging += time.perf_counter() - before
        if mean >= self.aim:
            self.reached = mean
            return False
        return True

    def play(self) -> float:
        training: Any = self.model.get_env()
        self.test.obs_rms, self.test.training = training.obs_rms, False
        self.test.norm_reward = False
        totals = []
        for episode in range(5):
            self.test.seed(1000 + episode)
            obs, total, done = self.test.reset(), 0.0, False
            while not done:
                action, _ = self.model.predict(obs, deterministic=True)  # type: ignore[arg-type]
                obs, reward, dones, _ = self.test.step(action)
                total, done = total + float(reward[0]), bool(dones[0])
            totals.append(total)
        return statistics.fmean(totals)


def seconds_to_return(
    aim: float, seeds: int, say: Callable[[str], None]
) -> list[tuple[float, bool]]:
    """Seconds and whether the aim was reached, with the faster of one and two threads."""
    rates = {}
    for threads in (1, 2):
        model = learner(4, 0, threads)
        model.learn(2048)
        started = time.perf_counter()
        model.learn(8192, reset_num_timesteps=False)
        rates[threads] = 8192 / (time.perf_counter() - started)
    threads = max(rates, key=lambda t: rates[t])
    times = []
    for seed in range(seeds):
        judge = Judge(aim)
        started = time.perf_counter()
        model = learner(4, seed, threads)
        model.learn(LIMIT, callback=judge)
        seconds = time.perf_counter() - started - judge.judging
        what = "not reached" if judge.reached is None else f"{judge.reached:.0f}"
        say(
            f"  SB3 PPO seed {seed}: {what} at {model.num_timesteps} steps, "
            f"{seconds:.0f} s ({threads} threads)"
        )
        times.append((seconds, judge.reached is not None))
    return times
