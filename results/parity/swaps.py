"""Train one side of `penfac bench parity` on HalfCheetah-v5, with parts of the other.

    python results/parity/swaps.py SIDE ALGO STEPS SEED ... >> results/parity/curves.csv

SIDE is one of

    penfac      our program
    sb3         Stable-Baselines3's
    borrowed    Stable-Baselines3's with our gradient steps: equal up to rounding (`penfac
                bench lockstep`) and three times as fast

and, after a + each,

    noise       noise on the random actions of the start, clipped: what Stable-Baselines3
                does unless it is told not to, as `penfac bench parity` tells it
    weights     our initial weights (of sb3 and borrowed)
    draws       rows and target noise from another generator (of borrowed)

A row is the mean return of 10 episodes without noise, every 20k steps. One core.
"""

import csv
import sys
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from penfac.bench import lockstep
from penfac.bench.contest import HALFCHEETAH, mean_return, settings
from penfac.bench.ours import advance, our_engine
from penfac.bench.peer import same_replayed
from penfac.rollout import explorer

EVERY = 20_000
RACE = HALFCHEETAH


def tell(side: str, algo: str, seed: int, step: int, act: Any) -> None:
    score = f"{mean_return(act, RACE):.2f}"
    csv.writer(sys.stdout).writerow([algo, RACE.env, side, seed, step, score])
    sys.stdout.flush()


def train_ours(side: str, algo: str, steps: int, seed: int) -> None:
    if "noise" in side:
        add_noise_at_the_start(seed)
    engine, counters = our_engine(algo, RACE, seed, steps)
    while counters.step < steps:
        advance(engine, counters, min(EVERY, steps - counters.step))
        tell(side, algo, seed, counters.step, engine.policy(0))
    engine.close()


def train_theirs(side: str, algo: str, steps: int, seed: int) -> None:
    torch.set_num_threads(1)
    base, *parts = side.split("+")
    model: Any = same_replayed(algo, RACE, seed, noisy_start="noise" in parts)
    if "weights" in parts:
        give_our_weights(model, algo, seed)
    if base == "borrowed":
        other = np.random.default_rng([seed, 1]) if "draws" in parts else None
        lockstep.borrow(model, algo, RACE, other)

    def act(obs: np.ndarray) -> np.ndarray:
        return model.predict(obs, deterministic=True)[0]

    class Judge(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:  # between two collections
            if self.num_timesteps and self.num_timesteps % EVERY == 0:
                tell(side, algo, seed, self.num_timesteps, act)

    model.learn(steps, callback=Judge())
    tell(side, algo, seed, model.num_timesteps, act)


def add_noise_at_the_start(seed: int) -> None:
    draw, sigma = np.random.default_rng([seed, 2]), settings("td3", RACE)["sigma"]

    def noisy(uniform: np.ndarray) -> np.ndarray:
        return (2 * uniform - 1 + sigma * draw.normal(size=uniform.shape)).clip(-1, 1)

    explorer.anywhere = noisy


def give_our_weights(model: Any, algo: str, seed: int) -> None:
    """Start from the weights that our program has with this seed."""
    engine, _ = our_engine(algo, RACE, seed, RACE.steps[algo])
    online = engine.learners[0].state.learner.online
    engine.close()
    lockstep.give_layers(model.actor, online.actor.layers)
    for k, q in enumerate(model.critic.q_networks):
        lockstep.give_layers(q, [(w[k], b[k]) for w, b in online.critics])
    model.actor_target.load_state_dict(model.actor.state_dict())
    model.critic_target.load_state_dict(model.critic.state_dict())


if __name__ == "__main__":
    side, algo, steps, *seeds = sys.argv[1:]
    train = train_ours if side.startswith("penfac") else train_theirs
    for seed in map(int, seeds):
        train(side, algo, int(steps), seed)
