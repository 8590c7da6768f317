"""`penfac bench cpu`: speed and memory on this machine, against bare loops.

Absolute rates differ between machines and days. So every figure is a ratio of two
measurements, one after the other in the same run.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from penfac.algos import ALGORITHMS
from penfac.algos.nets import mlp
from penfac.bench.figures import Figures, Say
from penfac.engines.base import Counters, Job, moment
from penfac.engines.host import HostEngine
from penfac.envs.options import EnvOptions
from penfac.settings.penfac import Config
from penfac.types import EnvSpec, Transitions

ENV = "HalfCheetah-v5"


def run(quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    figures.add("penfac --help", f"{help_seconds():.2f} s", "under 0.5 s")
    figures.add(
        "first update of a Pendulum run",
        f"{first_update_seconds():.1f} s",
        "within 15 s",
    )
    ratio, rows, step = update_against_bare()
    figures.add(
        "update / the same Adam steps in a bare loop", f"{ratio:.2f}", "at most 1.3"
    )
    figures.add(
        "update / its Adam steps, minibatches of 64", f"{step:.3f} ms", "0.06 ms"
    )
    figures.add(
        "cost of an update, 8 times the batch", f"{rows:.1f} times", "linear: 8"
    )
    figures.add(
        "wall time that is neither env.step nor the update",
        f"{100 * collecting_share(say):.0f} %",
        "at most 20 %",
    )
    growth = memory_growth()
    figures.add(
        "memory over 1 000 updates after the first 100", f"{growth:+.1f} MB", "flat"
    )
    return {"figures": figures}


# --- start-up ----------------------------------------------------------------------------


def help_seconds() -> float:
    command = [sys.executable, "-m", "penfac", "--help"]
    return min(_seconds(command) for _ in range(5))


def first_update_seconds() -> float:
    """Seconds from the command to the end of its first update, compilation included."""
    with tempfile.TemporaryDirectory() as out:
        options = ["train", "--env", "Pendulum-v1", "-n", "1", "--out", out, "--json"]
        options += ["--eval-episodes", "1"]
        return _seconds([sys.executable, "-m", "penfac", *options])


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


# --- the update --------------------------------------------------------------------------


def random_batch(steps: int, n: int, m: int) -> Transitions:
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    last: Any = np.arange(steps) % 1000 == 999
    none: Any = np.zeros(steps, bool)
    columns: list[Any] = [normal(steps, n), normal(steps, n), normal(steps, m)]
    return Transitions(~none, *columns, normal(steps), none, last, last)  # type: ignore[arg-type]


def update_against_bare() -> tuple[float, float, float]:
    """Compare our update of 2 048 steps with the same Adam steps alone; measure how the
    cost grows to 16 384 steps, and milliseconds per Adam step of smaller minibatches."""
    spec = EnvSpec(ENV, 17, -np.ones(6), np.ones(6), 1000)
    cfg, algo = Config(), ALGORITHMS["penfac"]
    update = jax.jit(algo.update, static_argnums=2)
    now = moment(0, 0, 0, np.float32(0), np.float32(cfg.sigma))
    state = algo.init(jax.random.key(0), algo.plan(cfg, spec), algo.numbers(cfg))

    def ours(steps: int, cfg: Config = cfg) -> float:
        plan, numbers = algo.plan(cfg, spec), algo.numbers(cfg)
        batch = random_batch(steps, 17, 6)
        return best_of(lambda: update(state, batch, plan, numbers, now))

    bare = jax.jit(lambda s, b, order: bare_adam_steps(s, b, order, cfg))
    batch = random_batch(2048, 17, 6)
    order = np.random.default_rng(0).permutation(2048).reshape(cfg.minibatches, -1)
    reference, real = best_of(lambda: bare(state, batch, order)), ours(2048)
    small = replace(cfg, minibatches=32)
    steps = 32 * (cfg.actor_steps + cfg.fitted_iterations * cfg.critic_steps)
    return real / reference, ours(16384) / real, 1e3 * ours(2048, small) / steps


def bare_adam_steps(state: Any, batch: Transitions, order: Any, cfg: Config) -> Any:
    """Take the same number of Adam steps, with the same networks and states, on
    minibatches that are always the same."""
    actor_adam, critic_adam = optax.adam(cfg.actor_lr), optax.adam(cfg.critic_lr)
    rows = [x[order] for x in (batch.obs, batch.action, batch.reward)]

    def critic_step(carry, part):
        (critic, opt), (x, _, g) = carry, part
        grad = jax.grad(lambda c: jnp.mean((mlp(c, x, cfg.activation)[:, 0] - g) ** 2))
        change, opt = critic_adam.update(grad(critic), opt)
        return (optax.apply_updates(critic, change), opt), None

    def actor_step(carry, part):
        (layers, opt), (x, a, _) = carry, part
        grad = jax.grad(lambda p: jnp.sum((mlp(p, x, cfg.activation) - a) ** 2))
        change, opt = actor_adam.update(grad(layers), opt)
        return (optax.apply_updates(layers, change), opt), None

    def passed(step, _, carry):
        return jax.lax.scan(step, carry, rows)[0]

    critic, layers = state.critic, state.actor.layers
    passes = cfg.fitted_iterations * cfg.critic_steps
    fit_critic, fit_actor = partial(passed, critic_step), partial(passed, actor_step)
    started = (critic, critic_adam.init(critic)), (layers, actor_adam.init(layers))
    return (
        jax.lax.fori_loop(0, passes, fit_critic, started[0]),
        jax.lax.fori_loop(0, cfg.actor_steps, fit_actor, started[1]),
    )


def best_of(call: Callable[[], Any], times: int = 5) -> float:
    jax.block_until_ready(call())
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - started)
    return min(seconds)


# --- collecting and learning -------------------------------------------------------------


def collecting_share(say: Say) -> float:
    """Train on HalfCheetah for a while; return the share of time that is all our own."""
    job = Job(ALGORITHMS["penfac"], Config(), ENV, EnvOptions(), steps=10**6)
    engine = HostEngine(job, [0])
    counters = Counters()
    [(_, _)] = list(engine.advance([(0, counters)]))  # compiles
    env = update = 0.0
    steps = 0
    started = time.perf_counter()
    for _ in range(20):
        [(_, progress)] = list(engine.advance([(0, counters)]))
        assert not isinstance(progress, Exception)  # noqa: S101
        env += progress.seconds["env"]
        update += progress.seconds["update"]
        steps += progress.steps
        counters.episode, counters.step = progress.next_episode, counters.step + steps
    wall = time.perf_counter() - started
    engine.close()
    say(f"  {steps} steps in {wall:.1f} s: env.step {env:.1f} s, update {update:.1f} s")
    return 1 - (env + update) / wall


def memory_growth() -> float:
    """Return the megabytes gained from update 100 to update 1 100 of a small run."""
    cfg = Config(
        actor_hidden=(8,), critic_hidden=(8,), worlds=1, steps_per_world=20,
        minibatches=1, fitted_iterations=1, critic_steps=1, actor_steps=1,
    )  # fmt: skip
    job = Job(
        ALGORITHMS["penfac"],
        cfg,
        "Pendulum-v1",
        EnvOptions(max_episode_steps=20),
        10**9,
    )
    engine, counters = HostEngine(job, [0]), Counters()
    start = 0.0
    for update in range(1100):
        if update == 100:
            start = resident_megabytes()
        [(_, progress)] = list(engine.advance([(0, counters)]))
        assert not isinstance(progress, Exception)  # noqa: S101
        counters.episode = progress.next_episode
    engine.close()
    return resident_megabytes() - start


def resident_megabytes() -> float:
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
