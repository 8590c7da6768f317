"""How often the sign of an old action's advantage, by the critic, is that of a simulation.

    python results/off-policy/sign_by_age.py > results/off-policy/sign-by-age.csv

Off-policy PeNFAC learns penfac/Pendulum-v0, whose state follows from the observation. After
some updates, actions of each batch it holds are judged twice under today's policy: by the
corrected advantage that its update uses, and by the mean of simulated returns.
"""

import csv
import sys

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos import ALGORITHMS
from penfac.algos import penfac as algorithm
from penfac.algos.batch import scaled_rewards
from penfac.algos.networks import running_inputs, value
from penfac.core.normalise import normalise
from penfac.core.offpolicy import truncated_importance
from penfac.engines.base import Counters, Job
from penfac.engines.device import DeviceEngine
from penfac.envs.classic import PENDULUM
from penfac.envs.options import EnvOptions
from penfac.training.loop import count_update

REUSE, UPDATES, SEEDS = 7, (15, 40), (0, 1, 2)
STEPS = 41 * 2048
ACTIONS, ROLLOUTS, AHEAD = 300, 64, 250


def simulated(engine, state, numbers, obs, action, sigma, gamma, key):
    """Q(s, a) - E Q(s, a'), a' ~ N(mu(s), sigma^2), by the mean of simulated returns."""
    start = jnp.stack([jnp.arctan2(obs[:, 1], obs[:, 0]), obs[:, 2]], axis=-1)

    def mu(x):
        return algorithm.mu(state, x, engine.plan, numbers)

    def one(world, first, key, given):
        def step(carry, t):
            world, total, weight = carry
            noise = jax.random.normal(jax.random.fold_in(key, t), (1,))
            own = mu(PENDULUM.observe(world)) + sigma * noise
            a = jnp.where((t == 0) & given, first, own)
            after = PENDULUM.step(world, 2.0 * jnp.clip(a, -1, 1), None)
            return (after.state, total + weight * after.reward, weight * gamma), None

        begin = (world, jnp.float32(0), jnp.float32(1))
        return jax.lax.scan(step, begin, jnp.arange(AHEAD))[0][1]

    keys = jax.random.split(key, (len(obs), ROLLOUTS))  # the same noise for both
    rolls = jax.vmap(one, (None, None, 0, None))
    many = jax.jit(jax.vmap(rolls, (0, 0, 0, None)), static_argnums=())
    return many(start, action, keys, True).mean(1) - many(
        start, action, keys, False
    ).mean(1)


def judged(engine, state, numbers, sigma):
    """Both advantages of some actions of each batch, newest first."""
    past = state.past
    inputs = running_inputs(
        state.observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    batch = past.steps
    x, x_next = normalise(batch.obs, *inputs), normalise(batch.next_obs, *inputs)
    v, v_next = (value(state.critic, y, engine.plan) for y in (x, x_next))
    mean = algorithm.mu(state, batch.obs, engine.plan, numbers)
    rho = truncated_importance(batch.action, mean, sigma, past.mean, past.sigma)
    paid = batch._replace(reward=scaled_rewards(state.returned, batch, numbers))
    told = algorithm.advantages(v, v_next, paid, numbers, rho)
    size = len(past.sigma) // (REUSE - 1)
    rng = np.random.default_rng(0)
    for age in range(REUSE - 1):
        rows = age * size + rng.choice(size, ACTIONS, replace=False)
        key = jax.random.key(age)
        found = simulated(
            engine, state, numbers, batch.obs[rows], batch.action[rows], sigma,
            numbers.gamma, key,
        )  # fmt: skip
        yield age + 1, np.asarray(rho[rows]), np.asarray(told[rows]), np.asarray(found)


def main():
    out = csv.writer(sys.stdout)
    out.writerow(["seed", "update", "age", "rho", "agrees", "agrees_large"])
    algo = ALGORITHMS["offpenfac"]
    cfg = algo.config(**(dict(algo.overrides) | {"reuse": REUSE, "dpg_share": 0.0}))
    for seed in SEEDS:
        job = Job(algo, cfg, "penfac/Pendulum-v0", EnvOptions(), STEPS)
        engine, counters = DeviceEngine(job, [seed]), Counters()
        while counters.update < max(UPDATES):
            [(_, progress)] = engine.advance([(0, counters)])
            count_update(counters, progress)
            if counters.update not in UPDATES:
                continue
            state = jax.tree.map(jnp.asarray, engine.groups[0].state(0))
            numbers = engine.groups[0].numbers[0]
            sigma = jnp.float32(job.sigma(counters.step))
            for age, rho, told, found in judged(engine, state, numbers, sigma):
                same = (told > 0) == (found > 0)
                large = np.abs(found) > np.median(np.abs(found))
                shares = [rho.mean(), same.mean(), same[large].mean()]
                out.writerow([seed, counters.update, age, *np.round(shares, 4)])
                sys.stdout.flush()


main()
