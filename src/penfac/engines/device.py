"""Environments that are JAX functions: collecting and learning are one compiled program.

The program has a learner axis L always. On an accelerator all learners share one program,
spread over every device there is; on a CPU each runs its own with L = 1, so that
`--seeds 8` ends with the bits of eight single runs. `at_once` says otherwise.
"""

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from penfac.engines import memory
from penfac.engines.ahead import Ahead, remember_programs, remembered
from penfac.engines.base import (
    Arrays,
    Counters,
    Job,
    Progress,
    as_row,
    diverged,
    flatten,
    unflatten,
    with_rows,
    without_rows,
)
from penfac.engines.programs import Learners, Programs, When, Who
from penfac.envs.base import JaxEnv
from penfac.envs.builtin import jax_env
from penfac.errors import EnvironmentFault, PenfacError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.policy import ActionScale, Policy
from penfac.rollout.device import Finished
from penfac.types import EpisodeStats

AXIS = "learners"


class DeviceEngine:
    """See penfac.engines.base.Engine. `configs` gives each learner one of its own; they
    may differ in whatever does not shape the program."""

    def __init__(
        self,
        job: Job,
        seeds: Sequence[int],
        configs: Sequence[Any] | None = None,
        at_once: int | None = None,
        devices: Sequence[Any] | None = None,
    ):
        remember_programs()
        self.job, self.env = job, environment(job)
        configs = configs or [job.cfg] * len(seeds)
        self.jobs = [job._replace(cfg=cfg) for cfg in configs]
        self.plan = one_plan([job.algo.plan(cfg, self.env.spec) for cfg in configs])
        self.how = job.collecting
        self.programs = Programs(job.algo, self.plan, self.how, self.env)
        self.devices = list(devices or jax.local_devices())
        size = min(at_once or usual_size(len(seeds)), len(seeds))
        self.mesh = Mesh(np.array(self.devices[:size]), (AXIS,))
        self.sharding = NamedSharding(self.mesh, PartitionSpec(AXIS))
        # said, not inferred: what comes out goes in again, and must not compile anew
        jit = functools.partial(
            jax.jit,
            out_shardings=self.sharding,
            compiler_options=compiling(self.devices[0].platform),
        )
        self.begin_program = jit(self._spread(self.programs.begin))
        self.advance_program = jit(
            self._spread(self.programs.advance), donate_argnums=0
        )
        self.evaluate_program = jit(self._evaluate, static_argnums=(6, 7))
        numbers = {
            cfg: job.numbers(self.env.spec, cfg) for cfg in dict.fromkeys(configs)
        }
        learners = [(s, numbers[c]) for s, c in zip(seeds, configs, strict=True)]
        self.groups = [
            Group(self, learners[k : k + size]) for k in range(0, len(learners), size)
        ]
        # learner -> (group, row)
        self.place = [divmod(i, size) for i in range(len(learners))]
        memory.check(self)
        self.compiled, self.ahead = False, Ahead()

    def _spread(self, program):
        """The program, each device at its own learners; none ever waits for another."""
        if self.mesh.size == 1:
            return program
        part = PartitionSpec(AXIS)
        return jax.shard_map(
            program, mesh=self.mesh, in_specs=part, out_specs=part, check_vma=False
        )

    def _evaluate(self, state, who, evaluation, drawn, sigma, active, episodes, mode):
        def program(state, who, evaluation, drawn, sigma, active):
            given = (evaluation, drawn, sigma, active, episodes, mode)
            return self.programs.evaluate(state, who, *given)

        return self._spread(program)(state, who, evaluation, drawn, sigma, active)

    def _compile_ahead(self) -> None:
        """What every run needs, beside each other: to learn, and to judge."""
        group, when = self.groups[0], self.when(self.groups[0], {})
        learners = self.shapes()
        lowered = self.advance_program.lower(learners, group.who, when)
        self.ahead.compile("advance", lowered)
        if episodes := self.job.eval_episodes:
            state, _ = without_rows(learners.state)
            given = (when.update, when.update, when.sigma, when.active, episodes)
            for mode in self.job.algo.modes:
                program = self.evaluate_program.lower(state, group.who, *given, mode)
                self.ahead.compile(mode, program)

    def shapes(self) -> Learners:
        """Of a group's learners: exactly what a program will be given, so that it is
        traced once."""
        group = self.groups[0]
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self.sharding),
            jax.eval_shape(self.begin_program, group.who),
        )

    # --- the engine -------------------------------------------------------------------

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        for group, rows in self._due(due):
            self.job.poll()
            yield from self._advance_group(group, rows)

    def _due(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple["Group", dict[int, tuple[int, Counters]]]]:
        """The groups that have something to do, and for whom."""
        if due and not self.ahead.begun:  # and every engine has been seen to fit
            self.ahead.begun = True
            if remembered():
                self._compile_ahead()
        for g, group in enumerate(self.groups):
            rows = {self.place[i][1]: (i, c) for i, c in due if self.place[i][0] == g}
            if rows:
                yield group, rows

    def _advance_group(self, group: "Group", rows: dict[int, tuple[int, Counters]]):
        started = time.perf_counter()
        when = self.when(group, rows)
        self.ahead.wait("advance")
        told = jax.device_get(group.advance(self.advance_program, when))
        seconds = time.perf_counter() - started
        if not self.compiled:
            self.compiled = True
            said = f"first update in {seconds:.1f} s, compilation included"
            self.job.note(said + self.job.left_open(self.env.spec))
        timing = {"collect": 0.0, "env": 0.0, "update": seconds / len(rows)}
        for row, (i, counters) in rows.items():
            own = jax.tree.map(lambda x, row=row: x[row], told.metrics)
            if not own.finite:
                yield i, diverged(group.state(row), own, counters.update + 1)
                continue
            broken = told.finished.broken[row]
            faults = counters.faults + int(broken.sum())
            if faults > self.job.restarts:
                world = int(np.flatnonzero(broken.any(-1))[0])
                what = f"{self.job.env_id}: the physics of world {world} blew up"
                where = {"seed": int(group.seeds[row]), "world": world}
                yield i, EnvironmentFault(what, where)
                continue
            stats = ended_episodes(told.finished, row)
            yield (
                i,
                Progress(
                    metrics=as_row(own),
                    steps=int(told.steps[row]),
                    next_episode=counters.episode
                    + len(stats.returns)
                    + int(broken.sum()),
                    stats=stats,
                    sigma=float(told.sigma[row]),
                    faults=faults,
                    seconds=timing,
                ),
            )

    def when(self, group: "Group", rows: dict[int, tuple[int, Counters]]) -> When:
        """Counters of the learners as arrays; those not due take no part."""
        size = group.size
        first, update = np.zeros(size, np.uint32), np.zeros(size, np.uint32)
        step, progress = np.zeros(size, np.int32), np.zeros(size, np.float32)
        sigma, active = np.full(size, 0.1, np.float32), np.zeros(size, bool)
        for row, (i, counters) in rows.items():
            first[row] = counters.episode % 2**32  # keys are named by 32 bits
            update[row] = counters.update % 2**32
            step[row] = min(counters.step, 2**30)  # to know when random ones end
            progress[row] = self.job.progress(counters.step)
            sigma[row] = self.jobs[i].sigma(counters.step)
            active[row] = True
        return When(first, update, step, progress, sigma, active)  # type: ignore[arg-type]

    def evaluate(
        self, due: list[tuple[int, Counters]], episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]:
        for group, rows in self._due(due):
            self.job.poll()
            drawn, when = np.zeros(group.size, np.uint32), self.when(group, rows)
            for row, (_, counters) in rows.items():
                drawn[row] = counters.evaluations % 2**32
            which = np.zeros_like(drawn) if fixed else drawn
            state, _ = without_rows(group.learners.state)
            given = (which, drawn, when.sigma, when.active, episodes)
            played = {}
            for mode in self.job.algo.modes:
                self.ahead.wait(mode)
                told = self.evaluate_program(state, group.who, *given, mode)
                played[mode] = jax.device_get(told)
            for row, (i, _) in rows.items():
                found = {
                    mode: tuple(x[row].tolist() for x in out)
                    for mode, out in played.items()
                }
                if all(np.isfinite(out[0]).all() for out in found.values()):
                    yield i, found
                    continue
                what = "the physics blew up in an evaluation"
                yield i, EnvironmentFault(f"{self.job.env_id}: {what}")

    def snapshot(self, i: int) -> Arrays:
        group, row = self._at(i)
        state = with_rows(group.state(row), group.rows(row))
        return flatten(state, "state") | flatten(group.world(row), "worlds")

    def restore(self, i: int, arrays: Arrays) -> None:
        group, row = self._at(i)
        group.restore(row, arrays)

    def policy(self, i: int) -> Policy:
        group, row = self._at(i)
        spec, numbers = self.env.spec, group.numbers[row]
        actions = ActionScale(spec.action_low, spec.action_high, (spec.action_dim,))
        state = jax.tree.map(jnp.asarray, group.state(row))
        weights = self.job.algo.policy(state, self.plan, numbers)
        return self.jobs[i].policy(weights, state, self.plan, numbers, actions)

    def close(self) -> None:
        pass

    def _at(self, i: int) -> tuple["Group", int]:
        g, row = self.place[i]
        return self.groups[g], row


class Group:
    """The learners that run at once: arrays with a leading axis L on the devices, and a
    copy on the host when somebody asks for one learner's."""

    def __init__(self, engine: DeviceEngine, learners: list[tuple[int, Any]]):
        self.numbers = [numbers for _, numbers in learners]
        # every device has as many rows: those added repeat the last and take no part
        missing = -len(learners) % engine.mesh.size
        padded = learners + learners[-1:] * missing
        self.seeds = np.array([seed for seed, _ in padded], np.uint32)
        stacked = jax.tree.map(lambda *x: np.stack(x), *(n for _, n in padded))
        self.sharding = engine.sharding
        self.who = Who(*jax.device_put((self.seeds, stacked), self.sharding))
        self.begin = engine.begin_program
        self.begun, self._learners = False, None
        # state without rows and worlds as numpy arrays, and whether they were changed
        self.copy: Any = None
        self.changed = False

    @property
    def size(self) -> int:
        return len(self.seeds)

    @property
    def learners(self) -> Learners:
        """On the devices; begun when first asked for."""
        if not self.begun:
            self.begun, self._learners = True, self.begin(self.who)
        there = self._learners
        if there is None:  # nothing may be saved in their place
            raise RuntimeError("the learners were lost in a program that failed")
        if self.changed:
            _, rows = without_rows(there.state)
            state, worlds = jax.device_put(self.copy, self.sharding)
            there = Learners(with_rows(state, rows), worlds)
            self.changed = False
        self._learners = there
        return there

    def advance(self, program, when: When):
        learners = self.learners
        self.copy = self._learners = None  # donated: gone from here on
        self._learners, told = program(learners, self.who, when)
        return told

    def on_host(self) -> Any:
        """One transfer for all learners, however many ask."""
        if self.copy is None:
            state, _ = without_rows(self.learners.state)
            self.copy = jax.device_get((state, self.learners.worlds))
        return self.copy

    def state(self, row: int) -> Any:
        """One learner's, without the rows of its replay."""
        return jax.tree.map(lambda x: x[row], self.on_host()[0])

    def world(self, row: int) -> Any:
        return jax.tree.map(lambda x: x[row], self.on_host()[1])

    def rows(self, row: int) -> Any:
        _, rows = without_rows(self.learners.state)
        return jax.tree.map(lambda x: jax.device_get(x[row]), rows)

    def restore(self, row: int, arrays: Arrays) -> None:
        """Put one learner where a checkpoint has it; all of them travel together."""
        if not self.changed:
            self.copy = jax.tree.map(np.array, self.on_host())  # ours to write into
            self.changed = True
        there: Any = self._learners
        left, rows = without_rows(there.state)
        like = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype)  # noqa: E731
        state = with_rows(self.copy[0], rows)
        own = unflatten(jax.tree.map(like, state), arrays, "state")
        own, own_rows = without_rows(own)
        worlds = unflatten(jax.tree.map(like, self.copy[1]), arrays, "worlds")
        leaves = jax.tree.leaves(self.copy), jax.tree.leaves((own, worlds))
        for whole, part in zip(*leaves, strict=True):
            whole[row] = part
        rows = jax.tree.map(lambda whole, own: whole.at[row].set(own), rows, own_rows)
        self._learners = there._replace(state=with_rows(left, rows))


def compiling(platform: str) -> dict[str, int] | None:
    """For a GPU on every core. Left alone XLA took twice as long on one with 16, it seems
    because of PJRT_NPROC, which MJX needs to be 1 on a CPU."""
    if platform != "gpu":
        return None
    return {"xla_gpu_force_compilation_parallelism": len(usable_cores())}


def usual_size(learners: int) -> int:
    """How many learners run at once if nobody says."""
    return learners if runs_on_accelerator() else 1


def environment(job: Job) -> JaxEnv:
    """The environment as JAX functions, with the user's time limit if one was given."""
    env = jax_env(job.env_id, job.options.kwargs)
    limit = job.options.max_episode_steps
    return env if limit is None else env._replace(spec=env.spec._replace(horizon=limit))


def one_plan(plans: Sequence[Any]) -> Any:
    """The plan that serves all of them, if there is one: batch norm is in it if any
    needs it, and off in the numbers of the others."""
    found = {joined(plan, plans) for plan in plans}
    if len(found) > 1:
        raise ValueError("these configs need programs of different shapes")
    return found.pop()


def joined(plan: Any, plans: Sequence[Any]) -> Any:
    """The plan, with room for batch norm if a plan that is otherwise the same has it."""
    if not hasattr(plan, "batch_norm") or plan.batch_norm:
        return plan
    roomy = plan._replace(batch_norm=True)
    return roomy if roomy in plans else plan


def ended_episodes(finished: Finished, row: int) -> EpisodeStats:
    ended = finished.ended[row]
    returns = finished.returned[row][ended].tolist()
    return EpisodeStats(returns, finished.length[row][ended].tolist(), {})
