# pyright: reportMissingImports=false
"""A PPO as CleanRL writes it, with its hyperparameters for continuous control: one file,
PyTorch, a vector of environments in one process.

After CleanRL's ppo_continuous_action.py. Observations and rewards are normalised by the
statistics of all environments together.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from penfac.bench.ours import Told

LR, GAMMA, LAM, CLIP = 3e-4, 0.99, 0.95, 0.2
EPOCHS, MINIBATCHES, BATCH = 10, 32, 2048


class Agent(nn.Module):
    """A Gaussian around a network, and a critic."""

    def __init__(self, n: int, m: int):
        super().__init__()
        self.critic = nn.Sequential(*body(n), layer(64, 1, 1.0))
        self.mean = nn.Sequential(*body(n), layer(64, m, 0.01))
        self.log_std = nn.Parameter(torch.zeros(1, m))

    def law(self, obs: torch.Tensor) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean(obs), self.log_std.exp())


def layer(i: int, o: int, gain: float = 2**0.5) -> nn.Linear:
    made = nn.Linear(i, o)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def body(n: int) -> list[nn.Module]:
    return [layer(n, 64), nn.Tanh(), layer(64, 64), nn.Tanh()]


def train(env: Any, seed: int, steps: int, told: Told) -> None:
    """Train on Stable-Baselines3's VecNormalize for so many steps, or until `told`, which
    hears the steps and the policy after every update, returns True."""
    torch.manual_seed(seed)
    env.seed(seed)
    n, m = env.observation_space.shape[0], env.action_space.shape[0]
    agent = Agent(n, m)
    adam = torch.optim.Adam(agent.parameters(), lr=LR, eps=1e-5)

    @torch.no_grad()
    def act(obs: np.ndarray) -> np.ndarray:
        return clipped(env, agent.mean(tensor(env.normalize_obs(obs))))

    obs, updates = tensor(env.reset()), steps // BATCH
    for k in range(updates):
        adam.param_groups[0]["lr"] = LR * (1 - k / updates)
        obs, batch = collect(env, agent, obs)
        improve(agent, adam, batch)
        if told((k + 1) * BATCH, act):
            break


def clipped(env: Any, action: torch.Tensor) -> np.ndarray:
    return np.clip(action.numpy(), env.action_space.low, env.action_space.high)


def tensor(x: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(x), dtype=torch.float32)


@torch.no_grad()
def collect(env: Any, agent: Agent, obs: torch.Tensor) -> tuple[Any, list[Any]]:
    """Play; the next observation, and obs, actions, log-likelihoods, advantages, returns."""
    rows, values, rewards, goes_on = [], [], [], []
    length = BATCH // len(obs)
    for _ in range(length):
        law = agent.law(obs)
        action = law.sample()
        rows.append((obs, action, law.log_prob(action).sum(1)))
        values.append(agent.critic(obs).flatten())
        after, reward, over, _ = env.step(clipped(env, action))
        obs = tensor(after)
        rewards.append(tensor(reward))
        goes_on.append(tensor(~over))
    values.append(agent.critic(obs).flatten())
    advantages, later = [], torch.zeros_like(values[0])
    for t in reversed(range(length)):
        delta = rewards[t] + GAMMA * goes_on[t] * values[t + 1] - values[t]
        later = delta + GAMMA * LAM * goes_on[t] * later
        advantages.insert(0, later)
    columns = [torch.cat(column) for column in zip(*rows, strict=True)]
    advantage, value = torch.cat(advantages), torch.cat(values[:-1])
    return obs, [*columns, advantage, advantage + value, value]


def improve(agent: Agent, adam: torch.optim.Adam, batch: list[torch.Tensor]) -> None:
    """Clipped steps on shuffled minibatches."""
    size = len(batch[0]) // MINIBATCHES
    for _ in range(EPOCHS):
        for part in torch.randperm(len(batch[0])).split(size):
            obs, action, before, advantage, target, value = (x[part] for x in batch)
            ratio = (agent.law(obs).log_prob(action).sum(1) - before).exp()
            scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            policy_loss = -torch.min(scaled * ratio, scaled * clipped).mean()
            v = agent.critic(obs).flatten()
            near = value + (v - value).clamp(-CLIP, CLIP)
            errors = torch.max((v - target) ** 2, (near - target) ** 2)
            adam.zero_grad()
            (policy_loss + 0.25 * errors.mean()).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            adam.step()
