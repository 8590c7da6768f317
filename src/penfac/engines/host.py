"""Gymnasium environments: a collector in numpy and one compiled update, per learner.

Learners never meet in a product of matrices, so eight seeds together end with the bits
of eight runs alone.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from penfac.engines.base import (
    Arrays,
    Counters,
    Job,
    Progress,
    as_row,
    diverged,
    flatten,
    moment,
    unflatten,
    with_rows,
    without_rows,
)
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import Divergence, EnvironmentFault, PenfacError
from penfac.evaluate import Candidate, Evaluator, chooser
from penfac.policy import Policy
from penfac.randomness import Stream, generator
from penfac.rollout.host import (
    Collected,
    Explorer,
    HostWorlds,
    Played,
    RunningWorlds,
)
from penfac.rollout.lockstep import Player, play_together
from penfac.rollout.packing import pack
from penfac.types import EpisodeStats


def stops_one(error: PenfacError) -> PenfacError:
    """A broken environment or a divergence ends one learner; anything else ends all."""
    if not isinstance(error, EnvironmentFault | Divergence):
        raise error
    return error


@dataclass
class Turn:
    """One learner on its way from one report to the next: nothing counts until the end."""

    counters: Counters
    state: Any
    episode: int
    steps: int = 0
    done: int = 0  # rounds
    metrics: dict[str, float] = field(default_factory=dict)  # sums over rounds
    stats: EpisodeStats = field(default_factory=lambda: EpisodeStats([], [], {}))
    seconds: dict[str, float] = field(
        default_factory=lambda: {"collect": 0.0, "env": 0.0, "update": 0.0}
    )


class HostEngine:
    """See penfac.engines.base.Engine."""

    def __init__(self, job: Job, seeds: list[int]):
        self.job, self.seeds = job, seeds
        self.how = job.collecting
        algo, cfg, running = job.algo, job.cfg, self.how.episodes is None
        count = self.how.worlds if self.how.episodes is None else self.how.episodes
        self.worlds = self._open(count * len(seeds))
        self.spec, self.actions = self.worlds.spec(), self.worlds.actions
        self.plan, self.numbers = algo.plan(cfg, self.spec), algo.numbers(cfg)
        self.states = [
            algo.init(
                jax.random.fold_in(jax.random.key(seed), int(Stream.INIT)),
                self.plan,
                self.numbers,
            )
            for seed in seeds
        ]
        # several rounds are one turn: it is stopped before or after, never inside
        poll = job.poll if self.how.rounds == 1 else lambda: None
        self.players = [
            HostWorlds(
                self.worlds, seed, count, first=i * count, restarts=job.restarts,
                poll=poll,
            )
            for i, seed in enumerate(seeds)
        ]  # fmt: skip
        self.evaluator = Evaluator(self._open, job.poll)
        self.standing = [p.snapshot() if running else None for p in self.players]
        self.compiled: dict[int, Any] = {}

    def advance(
        self, due: list[tuple[int, Counters]]
    ) -> Iterator[tuple[int, Progress | PenfacError]]:
        """All collect in lock-step, then each learns from its own batch."""
        if not due:
            return
        turns = {i: Turn(c, self.states[i], c.episode) for i, c in due}
        self.job.poll()
        for i, turn in turns.items():  # a resumed run has used up its restarts too
            self.players[i].faults = turn.counters.faults
        for _ in range(self.how.rounds):
            for i, error in self._round(turns):
                del turns[i]
                yield i, stops_one(error)
            if not turns:
                return
        for i, turn in turns.items():
            yield i, self._settle(i, turn)

    def _round(self, turns: dict[int, Turn]) -> Iterator[tuple[int, PenfacError]]:
        """Collect and learn once; who fails is told."""
        before, started = self.worlds.seconds, time.perf_counter()
        batches: dict[int, Collected] = {}
        failed: list[tuple[int, PenfacError]] = []
        players = {i: self._collect(i, turn) for i, turn in turns.items()}
        for i, got in play_together(self.worlds, players):
            if isinstance(got, PenfacError):
                failed.append((i, got))
            else:
                batches[i] = got
        share = len(turns)
        collect = (time.perf_counter() - started) / share
        env = (self.worlds.seconds - before) / share
        for i, batch in batches.items():
            turns[i].seconds["collect"] += collect
            turns[i].seconds["env"] += env
            try:
                self._learn(i, turns[i], batch)
            except PenfacError as error:
                failed.append((i, error))
        yield from failed

    def _collect(self, i: int, turn: Turn) -> Player[Collected]:
        algo, player = self.job.algo, self.players[i]
        acting, step = algo.behaviour(turn.state), turn.counters.step
        weights = algo.policy(acting, self.plan, self.numbers)
        sigma = algo.spread(acting, self.job.sigma(step), self.plan, self.numbers)
        act = Explorer(
            weights,
            self.how.exploration,
            sigma if isinstance(sigma, float) else np.asarray(sigma, float),
            anywhere=step + turn.steps < self.how.random_steps,
        )
        if self.how.episodes is None:
            return player.collect_steps(act, turn.episode, self.how.steps)
        return player.collect_episodes(
            act, turn.episode, self.how.episodes, self.how.min_steps
        )

    def _learn(self, i: int, turn: Turn, collected: Collected) -> None:
        steps, stats, turn.episode = collected
        started = time.perf_counter()
        whole = self.how.worlds * self.how.steps
        batch = pack(steps, whole if self.how.episodes is None else None)
        state, rows = without_rows(turn.state)
        new, metrics = self._update(i, turn, state, rows, batch)
        if hasattr(
            state, "replay"
        ):  # the old rows are gone; what was added lies behind their end
            kept, _ = without_rows(self.states[i])
            self.states[i] = with_rows(kept, without_rows(new)[1])
        if not metrics.finite:
            rest, _ = without_rows(new)
            raise diverged(rest, metrics, turn.counters.update + 1)
        turn.state = new
        for name, number in as_row(metrics).items():
            turn.metrics[name] = turn.metrics.get(name, 0) + number
        turn.stats.returns.extend(stats.returns)
        turn.stats.lengths.extend(stats.lengths)
        played = len(steps.reward)
        for name, mean in stats.terms.items():
            turn.stats.terms[name] = turn.stats.terms.get(name, 0) + mean * played
        turn.steps, turn.done = turn.steps + played, turn.done + 1
        turn.seconds["update"] += time.perf_counter() - started

    def _settle(self, i: int, turn: Turn) -> Progress:
        """The turn counts now."""
        self.states[i] = turn.state
        if self.standing[i] is not None:
            self.standing[i] = self.players[i].snapshot()
        metrics, terms = turn.metrics, turn.stats.terms
        if turn.done > 1:
            metrics = {k: v / turn.done for k, v in metrics.items()}
        terms = {k: v / turn.steps for k, v in terms.items()}
        sigma = self.job.sigma(turn.counters.step)
        spread = self.job.algo.spread(turn.state, sigma, self.plan, self.numbers)
        return Progress(
            metrics,
            turn.steps,
            turn.episode,
            turn.stats._replace(terms=terms),
            sigma if isinstance(spread, float) else float(np.mean(spread)),
            self.players[i].faults,
            turn.seconds,
        )

    def _update(self, i: int, turn: Turn, state: Any, rows: Any, batch: Any) -> Any:
        """The update compiled for this batch length; each compilation is logged."""
        algo, length = self.job.algo, len(batch.reward)
        step = turn.counters.step
        when = (
            np.uint32(self.seeds[i]),
            np.uint32(turn.counters.update % 2**32),
            np.uint32(turn.done),
            np.float32(self.job.progress(step)),
            np.float32(self.job.sigma(step)),
        )

        def update(rows, state, batch, when, numbers):
            whole = with_rows(state, rows)
            return algo.update(whole, batch, self.plan, numbers, moment(*when))

        if length not in self.compiled:
            started = time.perf_counter()
            program = jax.jit(update, donate_argnums=0)
            lowered = program.lower(rows, state, batch, when, self.numbers)
            self.compiled[length] = lowered.compile()
            seconds = time.perf_counter() - started
            self.job.note(f"compiled the update of {length} steps in {seconds:.1f} s")
        new, metrics = self.compiled[length](rows, state, batch, when, self.numbers)
        return new, jax.device_get(metrics)

    def evaluate(
        self, due: list[tuple[int, Counters]], episodes: int, fixed: bool
    ) -> Iterator[tuple[int, dict[str, Played] | PenfacError]]:
        """Every mode of every learner that is due, all in lock-step."""
        if not due:
            return
        algo, candidates = self.job.algo, {}
        for i, counters in due:
            weights = algo.policy(self.states[i], self.plan, self.numbers)
            which, step = 0 if fixed else counters.evaluations, counters.step
            sigma = algo.spread(
                self.states[i], self.job.sigma(step), self.plan, self.numbers
            )
            act = Explorer(weights, self.how.exploration, np.asarray(sigma, float))
            for k, mode in enumerate(algo.modes):
                drawn = (counters.evaluations, k)
                noise = generator(self.seeds[i], Stream.EVAL_NOISE, *drawn)
                candidates[i, mode] = Candidate(
                    self.seeds[i], chooser(mode, act, noise), which
                )
        found: dict[int, dict[str, Played]] = {i: {} for i, _ in due}
        failed: set[int] = set()
        for (i, mode), played in self.evaluator.play(candidates, episodes):
            if isinstance(played, PenfacError):
                if i not in failed:
                    yield i, stops_one(played)
                failed.add(i)
                continue
            found[i][mode] = played
            if len(found[i]) == len(algo.modes) and i not in failed:
                yield i, {mode: found[i][mode] for mode in algo.modes}

    def snapshot(self, i: int) -> Arrays:
        arrays = flatten(self.states[i], "state")
        standing = self.standing[i]
        if standing is not None:
            arrays |= flatten(standing, "worlds")
        return arrays

    def restore(self, i: int, arrays: Arrays) -> None:
        state = unflatten(self.states[i], arrays, "state")
        self.states[i] = jax.tree.map(jnp.array, state)  # our own copy
        if self.standing[i] is not None:
            standing = RunningWorlds(
                *(arrays[f"worlds.{k}"] for k in RunningWorlds._fields)
            )
            self.players[i].restore(standing)
            self.standing[i] = standing

    def policy(self, i: int) -> Policy:
        return self.job.policy(self.states[i], self.plan, self.numbers, self.actions)

    def close(self) -> None:
        self.worlds.close()
        self.evaluator.close()

    def _open(self, count: int) -> Worlds:
        return open_worlds(self.job.env_id, self.job.options, count, self.job.watch)
