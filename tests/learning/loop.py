"""Collect and update, as the device engine does it, as two programs: the update takes its
numbers as an argument, so all environments of one size and both algorithms share it."""

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos import ALGORITHMS
from penfac.algos.networks import running_inputs, value
from penfac.algos.numbers import Numbers, Plan
from penfac.algos.penfac import State
from penfac.core.noise import Exploration
from penfac.core.normalise import normalise
from penfac.engines.base import moment
from penfac.engines.programs import episodes_for
from penfac.envs.base import JaxEnv
from penfac.randomness import Stream
from penfac.rollout.device import collect_episodes
from penfac.rollout.device_step import Noise

ALGORITHM = ALGORITHMS["penfac"]
UPDATE = jax.jit(ALGORITHM.update, static_argnums=2)
COLLECTORS = {}  # compiled, by environment, sizes and number of episodes


class Learner:
    """One learner of one environment."""

    def __init__(self, env: JaxEnv, algo: str, seed: int = 0, **settings):
        self.env, self.algo = env, ALGORITHMS[algo]
        self.cfg = self.algo.config(**(settings | self.algo.overrides))
        self.plan = self.algo.plan(self.cfg, env.spec)
        self.numbers = self.algo.numbers(self.cfg)
        key = jax.random.fold_in(jax.random.key(seed), int(Stream.INIT))
        self.state = self.algo.init(key, self.plan, self.numbers)
        self.seed = jnp.array([seed], jnp.uint32)
        self.episodes = episodes_for(self.algo.collecting(self.cfg), env)
        self.played, self.updates = 0, 0

    def update(self, times: int) -> "Learner":
        how = self.algo.collecting(self.cfg).exploration
        collect = collector(self.env, self.plan, self.episodes, how)
        sigma = jnp.full(1, self.cfg.sigma, jnp.float32)
        for _ in range(times):
            first = jnp.array([self.played], jnp.uint32)
            batch = collect(self.state, self.numbers, sigma, self.seed, first)
            # no run, so no end of it: nothing may anneal over its progress
            now = moment(self.seed[0], self.updates, 0, jnp.float32(0), sigma[0])
            self.state, metrics = UPDATE(
                self.state, batch, self.plan, self.numbers, now
            )
            self.played += self.episodes
            self.updates += 1
        assert metrics.finite
        return self

    def mu(self, obs) -> np.ndarray:
        obs = jnp.asarray(obs, jnp.float32)
        return np.asarray(self.algo.mu(self.state, obs, self.plan, self.numbers))

    def value(self, obs) -> np.ndarray:
        return value_of(self.state, obs, self.plan, self.numbers)


def collector(env: JaxEnv, plan: Plan, episodes: int, how: Exploration):
    """Whole episodes of one learner as one batch."""

    def collect(state, numbers, sigma, seeds, first):
        def mu(obs):
            return ALGORITHM.mu(state, obs[0], plan, numbers)[None]

        noise, active = Noise(how, sigma, jnp.zeros(1, bool)), jnp.ones(1, bool)
        batch, _ = collect_episodes(env, mu, noise, seeds, first, active, episodes)
        return jax.tree.map(lambda x: x[0], batch)

    name = (env.spec.id, plan, episodes, how)
    if name not in COLLECTORS:
        COLLECTORS[name] = jax.jit(collect)
    return COLLECTORS[name]


def value_of(state: State, obs, plan: Plan, numbers: Numbers) -> np.ndarray:
    """V(s) of a learner's critic."""
    inputs = running_inputs(
        state.observed, numbers.normalise_critic.running, numbers.obs_clip
    )
    x = normalise(jnp.asarray(obs, jnp.float32), *inputs)
    return np.asarray(value(state.critic, x, plan))
