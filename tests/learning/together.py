"""Many learners of one algorithm as one program, each in an environment of its own.

It is what DeviceEngine does, with one axis more: learners that differ in numbers, seeds
and environments of one size share what was compiled, and their steps.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos import (
    ALGORITHMS,
    ddpg_learner,
    online_critics,
)
from penfac.algos.base import Algorithm, plan_of_centre
from penfac.algos.nets import mlp
from penfac.algos.networks import running_inputs, value
from penfac.core.noise import annealed
from penfac.core.normalise import normalise
from penfac.engines.base import moment
from penfac.envs.base import JaxEnv
from penfac.envs.probes import PROBES
from penfac.randomness import Stream
from penfac.rollout.device import collect_steps, start_worlds
from penfac.rollout.device_step import Noise
from penfac.settings.configs import check
from penfac.settings.registry import config_class

Which = Any  # the number of an environment, traced inside the program
Family = Callable[[Which], JaxEnv]


class Learner(NamedTuple):
    """One learner as it ended."""

    algo: Algorithm
    plan: Any
    numbers: Any
    state: Any

    def mu(self, obs) -> np.ndarray:
        return np.asarray(self.algo.mu(self.state, _array(obs), *self[1:3]))

    def value(self, obs) -> np.ndarray:
        """V(s), or Q(s, mu(s)) of every critic there is."""
        s, mu, (_, plan, numbers, state) = _array(obs), _array(self.mu(obs)), self
        kind = self.algo.config
        if kind is config_class("ddpg"):
            normalised = numbers.normalise_critic.running
        elif kind is config_class("cacla"):
            normalised = numbers.normalise.running
        else:
            normalised = numbers.normalise_obs
        inputs = running_inputs(state.observed, normalised, numbers.obs_clip)
        x = normalise(s, *inputs)
        if hasattr(state, "replay"):
            learner = state.learner
            critics = getattr(learner, "online", learner).critics
            found = ddpg_learner.q_values(critics, s, mu, inputs, plan)
        elif kind is not config_class("cacla"):
            found = value(state.networks.critic, x, plan)
        elif plan.q == "network":
            both = jnp.concatenate([x, mu], axis=-1)
            found = mlp(state.critic, both, plan.activation)[..., 0]
        else:
            found = online_critics.through(state.critic, s, inputs, plan)[..., 0]
        return np.asarray(found)


def _array(x) -> jax.Array:
    return jnp.asarray(x, jnp.float32)


def learn(
    arms: dict[str, dict[str, Any]],
    family: Family,
    which: tuple[Which, ...],
    seeds: tuple[int, ...],
    updates: int,
) -> dict[tuple[str, Which, int], Learner]:
    """One learner for each arm, environment and seed, after so many updates.

    An arm is named by its algorithm first, and given by settings. They share a program:
    what they differ in are numbers.
    """
    algos = {arm: ALGORITHMS[arm.split()[0]] for arm in arms}
    cfgs = {}
    for arm, algo in algos.items():
        cfgs[arm] = algo.config(**(arms[arm] | dict(algo.overrides)))
        check(cfgs[arm])
    spec = family(which[0]).spec
    [(update, plan, how)] = {
        (algos[arm].update, algos[arm].plan(cfg, spec), algos[arm].collecting(cfg))
        for arm, cfg in cfgs.items()
    }
    name = next(a for a in ALGORITHMS if ALGORITHMS[a].update is update)
    numbers = {arm: algos[arm].numbers(cfg) for arm, cfg in cfgs.items()}
    places = [(arm, w, seed) for arm in arms for w in which for seed in seeds]
    each = [
        (numbers[arm], _sigmas(cfgs[arm]), np.int32(w), np.uint32(seed))
        for arm, w, seed in places
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *each)
    states, finite = _run(name, family, plan, how, jnp.int32(updates), stacked)
    assert np.all(finite)
    return {
        (arm, w, seed): Learner(
            algos[arm], plan, numbers[arm], jax.tree.map(lambda x, i=i: x[i], states)
        )
        for i, (arm, w, seed) in enumerate(places)
    }


def _sigmas(cfg) -> np.ndarray:
    """Exploration at the start and at the end."""
    end = getattr(cfg, "sigma_end", None)
    return np.float32([cfg.sigma, cfg.sigma if end is None else end])


# compiling takes longer than running: less of an effort is enough
EFFORT = {"xla_backend_optimization_level": 1}


@partial(jax.jit, static_argnums=(0, 1, 2, 3), compiler_options=EFFORT)
def _run(name, family, plan, how, updates, each):
    algo = ALGORITHMS[name]

    def alone(numbers, sigmas, which, seed):
        env = family(which)
        key = jax.random.fold_in(jax.random.key(seed), int(Stream.INIT))
        state = algo.init(key, plan, numbers)
        worlds = start_worlds(env, seed[None], how.worlds)

        def update(k, carry):
            state, worlds, finite = carry
            progress = k / updates
            sigma = annealed(sigmas[0], sigmas[1], progress)
            random = k * how.worlds * how.steps < how.random_steps
            acting = algo.behaviour(state)
            centre = plan_of_centre(plan, how.exploration)

            def mu(obs):
                return algo.mu(acting, obs[0], centre, numbers)[None]

            def spread(obs):
                width = algo.sigma(state, obs[0], sigma, plan, numbers)
                return jnp.asarray(width)[None]

            noise = Noise(how.exploration, spread, random[None])

            worlds, batch, _ = collect_steps(
                env, mu, noise, seed[None], worlds, how.steps
            )
            batch = jax.tree.map(lambda x: x[0], batch)
            now = moment(seed, k, 0, progress, sigma)
            state, metrics = algo.update(state, batch, plan, numbers, now)
            return state, worlds, finite & metrics.finite

        start = (state, worlds, jnp.bool_(True))
        state, _, finite = jax.lax.fori_loop(0, updates, update, start)
        if hasattr(state, "replay"):  # nobody looks at it again
            state = state._replace(replay=())
        return state, finite

    return jax.vmap(alone)(*each)


def probe(which: Which) -> JaxEnv:
    """The probe of this number, from 0: one environment for the program."""

    def chosen(parts):
        return jax.tree.map(lambda *x: jnp.stack([*map(jnp.asarray, x)])[which], *parts)

    longest = max(
        PROBES, key=lambda env: env.spec.horizon
    )  # the others end by themselves
    return longest._replace(
        reset=lambda key: chosen([env.reset(key) for env in PROBES]),
        step=lambda *now: chosen([env.step(*now) for env in PROBES]),
    )
