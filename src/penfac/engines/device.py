"""Environments that are JAX functions: collecting and learning are one compiled program.

A program always has an axis of learners. On an accelerator all learners share one program,
spread over all devices; on a CPU each learner runs its own, so that `--seeds 8` ends with
the bits of eight single runs. `at_once` overrides both.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from penfac.engines.ahead import Ahead
from penfac.engines.base import (
    Arrays,
    Counters,
    Due,
    Job,
    Progress,
    divergence,
    flatten,
    join_replay,
    metrics_row,
    split_replay,
)
from penfac.engines.compiled import (
    AXIS,
    Compiled,
    abstract_learners,
    compile_programs,
    learner_sharding,
)
from penfac.engines.groups import LearnerGroup
from penfac.engines.kept import programs_are_kept
from penfac.engines.plans import environment, one_plan
from penfac.engines.programs import Clock, Programs, TurnResult
from penfac.errors import EnvironmentFault, PenfacError
from penfac.machine import runs_on_accelerator
from penfac.policy import ActionScale, Policy
from penfac.rollout.device import Finished
from penfac.types import EpisodeStats

Rows = dict[int, tuple[int, Counters]]  # row of a group -> learner and its counters


class DeviceEngine:
    """See penfac.engines.base.Engine. `configs` has a config for each learner; they may
    differ in everything that does not shape the program. `compiled` takes the programs of
    another engine of the same shape."""

    def __init__(
        self,
        job: Job,
        seeds: Sequence[int],
        configs: Sequence[Any] | None = None,
        at_once: int | None = None,
        devices: Sequence[Any] | None = None,
        compiled: Compiled | None = None,
    ):
        self.job, self.env = job, environment(job)
        configs = configs or [job.cfg] * len(seeds)
        self.jobs = [job._replace(cfg=cfg) for cfg in configs]
        self.plan = one_plan([job.algo.plan(cfg, self.env.spec) for cfg in configs])
        self.programs = Programs(job.algo, self.plan, job.collecting, self.env)
        usual = len(seeds) if runs_on_accelerator() else 1
        size = min(at_once or usual, len(seeds))
        self.mesh = Mesh(np.array((devices or jax.local_devices())[:size]), (AXIS,))
        self.compiled = compiled or compile_programs(self.programs, self.mesh)
        numbers = {
            cfg: job.numbers(self.env.spec, cfg) for cfg in dict.fromkeys(configs)
        }
        learners = [(s, numbers[c]) for s, c in zip(seeds, configs, strict=True)]
        sharding = learner_sharding(self.mesh)
        self.groups = [
            LearnerGroup(learners[k : k + size], self.compiled.begin, sharding)
            for k in range(0, len(learners), size)
        ]
        # learner -> (group, row)
        self.place = [divmod(i, size) for i in range(len(learners))]
        self.ahead, self.noted = Ahead(), False

    def _compile_ahead(self) -> None:
        """Compile what every run needs, to learn and to evaluate, at the same time."""
        group, clock = self.groups[0], self.clock(self.groups[0], {})
        learners = abstract_learners(self.compiled, group.inputs, self.mesh)
        lowered = self.compiled.advance.lower(learners, group.inputs, clock)
        self.ahead.compile("advance", lowered)
        if episodes := self.job.eval_episodes:
            state, _ = split_replay(learners.state)
            args = (clock.update, clock.update, clock.sigma, clock.active, episodes)
            for mode in self.job.algo.modes:
                lowered = self.compiled.evaluate.lower(state, group.inputs, *args, mode)
                self.ahead.compile(mode, lowered)

    # --- the engine -------------------------------------------------------------------

    def advance(self, due: Due) -> Iterator[tuple[int, Progress | PenfacError]]:
        for group, rows in self._groups_of(due):
            self.job.poll()
            started = time.perf_counter()
            clock = self.clock(group, rows)
            self.ahead.wait("advance")
            result = group.advance(self.compiled.advance, clock)
            seconds = time.perf_counter() - started
            self._note_compilation(seconds)
            for row, (i, counters) in rows.items():
                share = seconds / len(rows)
                yield i, self._progress(group, row, counters, result, share)

    def _groups_of(self, due: Due) -> Iterator[tuple[LearnerGroup, Rows]]:
        """The groups that have something to do, and for which learners."""
        if due and not self.ahead.begun:
            self.ahead.begun = True
            if programs_are_kept():
                self._compile_ahead()
        for g, group in enumerate(self.groups):
            rows = {self.place[i][1]: (i, c) for i, c in due if self.place[i][0] == g}
            if rows:
                yield group, rows

    def _note_compilation(self, seconds: float) -> None:
        """Once, how long the first update took."""
        if not self.noted:
            self.noted = True
            text = f"first update in {seconds:.1f} s, compilation included"
            if (size := self.groups[0].size) > 1:
                text += f"; {size} learners in one program"
            self.job.note(text + self.job.settled_text(self.env.spec))

    def _progress(
        self, group: LearnerGroup, row: int, counters: Counters, result: TurnResult,
        seconds: float,
    ) -> Progress | PenfacError:  # fmt: skip
        """One learner's part of a turn, or why the learner stops."""
        metrics = jax.tree.map(lambda x: x[row], result.metrics)
        if not metrics.finite:
            return divergence(group.state(row), metrics, counters.update + 1)
        broken = result.finished.broken[row]
        faults = counters.faults + int(broken.sum())
        if faults > self.job.restarts:
            world = int(np.flatnonzero(broken.any(-1))[0])
            what = (
                f"{self.job.env_id}: the simulation of world {world} became non-finite"
            )
            where = {"seed": int(group.seeds[row]), "world": world}
            return EnvironmentFault(what, where)
        stats = ended_episodes(result.finished, row)
        return Progress(
            metrics=metrics_row(metrics),
            steps=int(result.steps[row]),
            next_episode=counters.episode + len(stats.returns) + int(broken.sum()),
            stats=stats,
            sigma=float(result.sigma[row]),
            faults=faults,
            seconds={"collect": 0.0, "env": 0.0, "update": seconds},
        )

    def clock(self, group: LearnerGroup, rows: Rows) -> Clock:
        """The counters of a group's learners as arrays; all others are inactive."""
        size = group.size
        first, update = np.zeros(size, np.uint32), np.zeros(size, np.uint32)
        step, progress = np.zeros(size, np.int32), np.zeros(size, np.float32)
        sigma, active = np.full(size, 0.1, np.float32), np.zeros(size, bool)
        for row, (i, counters) in rows.items():
            first[row] = counters.episode % 2**32  # keys are named by 32 bits
            update[row] = counters.update % 2**32
            step[row] = min(counters.step, 2**30)  # compared with random_steps alone
            progress[row] = self.job.progress(counters.step)
            sigma[row] = self.jobs[i].sigma(counters.step)
            active[row] = True
        return Clock(first, update, step, progress, sigma, active)  # type: ignore[arg-type]

    def evaluate(
        self, due: Due, episodes: int, fixed: bool
    ) -> Iterator[tuple[int, Any]]:
        for group, rows in self._groups_of(due):
            self.job.poll()
            modes = self._evaluate_group(group, rows, episodes, fixed)
            for row, (i, _) in rows.items():
                played = {
                    mode: tuple(x[row].tolist() for x in arrays)
                    for mode, arrays in modes.items()
                }
                if all(np.isfinite(returns).all() for returns, *_ in played.values()):
                    yield i, played
                else:
                    what = "the simulation became non-finite in an evaluation"
                    yield i, EnvironmentFault(f"{self.job.env_id}: {what}")

    def _evaluate_group(
        self, group: LearnerGroup, rows: Rows, episodes: int, fixed: bool
    ) -> dict[str, Any]:
        """Returns, lengths and terminations of a group by mode."""
        drawn, clock = np.zeros(group.size, np.uint32), self.clock(group, rows)
        for row, (_, counters) in rows.items():
            drawn[row] = counters.evaluations % 2**32
        evaluation = np.zeros_like(drawn) if fixed else drawn
        state, _ = split_replay(group.learners.state)
        args = (evaluation, drawn, clock.sigma, clock.active, episodes)
        played = {}
        for mode in self.job.algo.modes:
            self.ahead.wait(mode)
            program = self.compiled.evaluate
            result = group.run(program, state, group.inputs, *args, mode)
            played[mode] = jax.device_get(result)
        return played

    def snapshot(self, i: int) -> Arrays:
        group, row = self._at(i)
        state = join_replay(group.state(row), group.replay_rows(row))
        return flatten(state, "state") | flatten(group.worlds(row), "worlds")

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

    def _at(self, i: int) -> tuple[LearnerGroup, int]:
        g, row = self.place[i]
        return self.groups[g], row


def ended_episodes(finished: Finished, row: int) -> EpisodeStats:
    """The episodes of one learner that ended in a turn."""
    ended = finished.ended[row]
    returns = finished.returned[row][ended].tolist()
    return EpisodeStats(returns, finished.length[row][ended].tolist(), {})
