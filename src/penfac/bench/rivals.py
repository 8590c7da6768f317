# pyright: reportMissingImports=false
"""`penfac bench rivals`: PeNFAC against PPO of other libraries, in steps per second while
they learn and in seconds to a return.

Each PPO has its own defaults, batches of 2 048 steps, and eight environments in one
process, which Stable-Baselines3 makes and normalises. PeNFAC is as `penfac train` starts
it.
"""

import importlib.util
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from penfac.bench import cleanrl
from penfac.bench.contest import HALFCHEETAH, Race, mean_return
from penfac.bench.figures import Figures, Say
from penfac.bench.ours import Act, Told, train_tuned

ROBOSCHOOL = "RoboschoolHalfCheetah-v2"
BATCH, ENVS = 2048, 8
WARM, TIMED = 2, 4  # batches
EVERY, EPISODES, LIMIT = 8 * BATCH, 5, 1_000_000  # of a race


class Rival(NamedTuple):
    """A learner: `train(env_id, seed, steps, told)`."""

    name: str
    train: Callable[[str, int, int, Told], None]


class Hearing(BaseCallback):
    """Tells of every batch: steps, and the policy without noise."""

    def __init__(self, told: Told):
        super().__init__()
        self.told, self.next = told, BATCH

    def _on_step(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        self.next += BATCH
        env: Any = self.model.get_env()

        def act(obs: np.ndarray) -> np.ndarray:
            return self.model.predict(env.normalize_obs(obs), deterministic=True)[0]

        return not self.told(self.num_timesteps, act)


def train_sb3(env_id: str, seed: int, steps: int, told: Told, kind: Any = PPO) -> None:
    env = make(env_id)
    model = kind("MlpPolicy", env, n_steps=BATCH // ENVS, seed=seed, device="cpu")
    model.learn(steps, callback=Hearing(told))
    env.close()


def train_sbx(env_id: str, seed: int, steps: int, told: Told) -> None:
    import sbx

    train_sb3(env_id, seed, steps, told, sbx.PPO)


def train_cleanrl(env_id: str, seed: int, steps: int, told: Told) -> None:
    env = make(env_id)
    cleanrl.train(env, seed, steps, told)
    env.close()


def make(env_id: str) -> VecNormalize:
    return VecNormalize(DummyVecEnv([lambda: gymnasium.make(env_id)] * ENVS))


def rivals() -> list[Rival]:
    """Ourselves, then those that are installed."""
    found = [
        Rival("penfac", train_tuned),
        Rival("SB3 PPO", train_sb3),
        Rival("CleanRL-style PPO", train_cleanrl),
    ]
    if importlib.util.find_spec("sbx") is not None:
        found.append(Rival("SBX PPO", train_sbx))
    return found


# --- speed -------------------------------------------------------------------------------


def steps_per_second(rival: Rival, env_id: str) -> float:
    """Return the rate of some batches after those that compile."""
    heard: list[tuple[float, int]] = []

    def told(steps: int, act: Act) -> bool:
        heard.append((time.perf_counter(), steps))
        return False

    rival.train(env_id, 0, (WARM + TIMED) * BATCH, told)
    (began, before), (ended, after) = heard[WARM - 1], heard[-1]
    return (after - before) / (ended - began)


def fastest(rival: Rival, env_id: str) -> float:
    """Return the better rate with one and with two threads of PyTorch, which it keeps."""
    rates = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        rates[threads] = steps_per_second(rival, env_id)
    torch.set_num_threads(max(rates, key=lambda threads: rates[threads]))
    return max(rates.values())


# --- the race ----------------------------------------------------------------------------


class Judge:
    """Looks for a return of five episodes without noise, from the same initial states,
    every 16 384 steps; its own time is not counted."""

    def __init__(self, race: Race, aim: float):
        self.race, self.aim, self.next = race, aim, EVERY
        self.reached, self.mean, self.steps, self.judging = False, 0.0, 0, 0.0
        self.began = time.perf_counter()

    def __call__(self, steps: int, act: Act) -> bool:
        self.steps = steps
        if steps < self.next:
            return False
        self.next += EVERY
        before = time.perf_counter()
        self.mean = mean_return(act, self.race)
        self.judging += time.perf_counter() - before
        self.reached = self.mean >= self.aim
        return self.reached

    @property
    def seconds(self) -> float:
        """Seconds of learning; compilation counts, since a user waits for it too."""
        return time.perf_counter() - self.began - self.judging


def seconds_to_return(
    rival: Rival, env_id: str, aim: float, seeds: int, say: Say
) -> list[tuple[float, bool]]:
    """Return the seconds of each seed, and whether it reached the return."""
    found = []
    for seed in range(seeds):
        judge = Judge(Race(env_id, {}, EPISODES, seeds), aim)
        rival.train(env_id, seed, LIMIT, judge)
        found.append((judge.seconds, judge.reached))
        what = f"{judge.mean:.0f} at {judge.steps} steps, {judge.seconds:.0f} s"
        say(f"  {rival.name}, {env_id}, seed {seed}: {what}")
    return found


def words(times: list[tuple[float, bool]]) -> str:
    return ", ".join(f"{t:.0f}" if reached else f"over {t:.0f}" for t, reached in times)


def run(seeds: int, quick: bool, say: Say) -> dict[str, Any]:
    """Our ratios to every rival."""
    figures = Figures(say)
    for env_id, aim in ((HALFCHEETAH.env, 3000.0), (ROBOSCHOOL, 2500.0)):
        us, *others = rivals()
        for rival in others:  # each beside ours: the machine may slow down
            ours, theirs = steps_per_second(us, env_id), fastest(rival, env_id)
            figures.add(
                f"{env_id}: steps/s while learning / {rival.name}, {ENVS} envs",
                f"{ours / theirs:.1f} times ({ours:,.0f} / {theirs:,.0f})",
                "3 times",
            )
        if not quick:
            race(env_id, aim, seeds, figures)
    return {"figures": figures}


def race(env_id: str, aim: float, seeds: int, figures: Figures) -> None:
    us, *others = rivals()
    ours = seconds_to_return(us, env_id, aim, seeds, figures.say)
    for rival in others:
        rate = fastest(rival, env_id)  # chooses the threads
        figures.say(f"  {rival.name}: {rate:,.0f} steps/s")
        theirs = seconds_to_return(rival, env_id, aim, seeds, figures.say)
        # a seed that did not reach it counts with the time it spent: a lower bound
        ratio = fmean(t for t, _ in theirs) / fmean(t for t, _ in ours)
        figures.add(
            f"{env_id}: seconds to {aim:.0f}, {rival.name} / penfac",
            f"{ratio:.1f} times ({words(theirs)} s / {words(ours)} s)",
            "4 times",
        )
