"""`penfac bench cpu`: speed and memory on this machine, against a peer and bare loops.

Absolute rates differ between machines and days. So every figure is a ratio of two
measurements, one after the other in the same run.
"""

import importlib.util
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
from penfac.rollout.padding import pad
from penfac.settings.penfac import Config
from penfac.types import EnvSpec, Transitions

ENV = "HalfCheetah-v5"
RETURN_TO_REACH = 3000.0


def run(seeds: int, quick: bool, say: Say) -> dict[str, Any]:
    figures = Figures(say)

    figures.add("penfac --help", f"{help_seconds():.2f} s", "under 0.5 s")
    figures.add(
        "first update of a Pendulum run",
        f"{first_update_seconds():.1f} s",
        "within 15 s",
    )
    ratio, rows = update_against_bare()
    figures.add(
        "update / the same Adam steps in a bare loop", f"{ratio:.2f}", "at most 1.3"
    )
    figures.add(
        "cost of an update, 8 times the batch", f"{rows:.1f} times", "linear: 8"
    )
    ours = collecting_shares(say)
    figures.add(
        "wall time that is neither env.step nor the update",
        f"{100 * ours['other']:.0f} %",
        "at most 20 %",
    )
    growth = memory_growth()
    figures.add(
        "memory over 1 000 updates after the first 100", f"{growth:+.1f} MB", "flat"
    )
    if quick:
        return {"figures": figures}
    if importlib.util.find_spec("stable_baselines3") is None:
        figures.add(
            "against Stable-Baselines3", 'needs pip install "penfac[peers]"', "-"
        )
        return {"figures": figures}
    from penfac.bench import peer

    one, eight = peer.steps_per_second(1), peer.steps_per_second(8)
    rate = ours["rate"]
    figures.add(
        "steps/s, SB3 PPO with 1 env",
        f"{rate / one:.1f} times ({one:.0f}/s)",
        "5 times",
    )
    figures.add(
        "steps/s, SB3 PPO with 8 envs",
        f"{rate / eight:.1f} times ({eight:.0f}/s)",
        "3 times",
    )
    race(seeds, figures)
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


def update_against_bare() -> tuple[float, float]:
    """Compare our update of 3 400 real steps with the same Adam steps alone; measure
    how the cost grows from 2 000 to 16 000 steps."""
    spec = EnvSpec(ENV, 17, -np.ones(6), np.ones(6), 1000)
    cfg, algo = Config(), ALGORITHMS["penfac"]
    plan, numbers = algo.plan(cfg, spec), algo.numbers(cfg)
    state = algo.init(jax.random.key(0), plan, numbers)
    now = moment(0, 0, 0, np.float32(0), np.float32(cfg.sigma))
    update = jax.jit(algo.update, static_argnums=2)

    def ours(steps: int) -> float:
        batch = pad(random_batch(steps, 17, 6))
        return best_of(lambda: update(state, batch, plan, numbers, now))

    real = 3400  # its bucket is 3584
    bare = jax.jit(lambda s, b: bare_adam_steps(s, b, cfg))
    batch = random_batch(real, 17, 6)
    reference = best_of(lambda: bare(state, batch))
    return ours(real) / reference, ours(16384) / ours(2048)


def bare_adam_steps(state: Any, batch: Transitions, cfg: Config) -> Any:
    """Take the same number of Adam steps, with the same networks and states."""
    actor_adam, critic_adam = optax.adam(cfg.actor_lr), optax.adam(cfg.critic_lr)
    rows = (batch.obs, batch.action, batch.reward)
    size = len(batch.reward) // cfg.minibatches

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

    def passed(step, k, carry):
        order = jax.random.permutation(jax.random.key(k), len(batch.reward))
        order = order[: size * cfg.minibatches].reshape(cfg.minibatches, size)
        take = lambda carry, part: step(carry, jax.tree.map(lambda r: r[part], rows))  # noqa: E731
        return jax.lax.scan(take, carry, order)[0]

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


def collecting_shares(say: Say) -> dict[str, float]:
    """Train on HalfCheetah for a while; return the shares of time and the speed."""
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
    return {"other": 1 - (env + update) / wall, "rate": steps / wall}


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


# --- the race ----------------------------------------------------------------------------


def race(seeds: int, figures: Figures) -> None:
    """Measure seconds of training to a return without noise, without evaluation
    time."""
    from penfac.bench import peer

    ours = [seconds_to_return(seed, figures.say) for seed in range(seeds)]
    theirs = peer.seconds_to_return(RETURN_TO_REACH, seeds, figures.say)
    # a seed that did not reach it counts with the time it spent: a lower bound
    ratio = statistics.fmean(t for t, _ in theirs) / statistics.fmean(
        t for t, _ in ours
    )
    figures.add(
        f"seconds to {RETURN_TO_REACH:.0f} on {ENV}, SB3 PPO / penfac",
        f"{ratio:.1f} times ({words(theirs)} s / {words(ours)} s)",
        "4 times",
    )


def words(times: list[tuple[float, bool]]) -> str:
    return ", ".join(f"{t:.0f}" if reached else f"over {t:.0f}" for t, reached in times)


def seconds_to_return(seed: int, say: Say) -> tuple[float, bool]:
    """Seconds to the return; compilation counts, since a user waits for it too."""
    job = Job(ALGORITHMS["penfac"], Config(), ENV, EnvOptions(), steps=2_000_000)
    started = time.perf_counter()
    engine, counters, judging = HostEngine(job, [seed]), Counters(), 0.0
    while True:
        [(_, progress)] = list(engine.advance([(0, counters)]))
        assert not isinstance(progress, Exception)  # noqa: S101
        counters.update += 1
        counters.step += progress.steps
        counters.episode = progress.next_episode
        if counters.update % 4:
            continue
        before = time.perf_counter()
        [(_, played)] = list(engine.evaluate([(0, counters)], 5, True))
        assert not isinstance(played, Exception)  # noqa: S101
        mean = statistics.fmean(played["mean"][0])
        judging += time.perf_counter() - before
        seconds = time.perf_counter() - started - judging
        if mean >= RETURN_TO_REACH or counters.step >= 2_000_000:
            say(
                f"  penfac seed {seed}: {mean:.0f} at {counters.step} steps, {seconds:.0f} s"
            )
            engine.close()
            return seconds, mean >= RETURN_TO_REACH
