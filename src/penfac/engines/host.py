"""Gymnasium environments: a collector in numpy and one compiled update, per learner.

No product of matrices mixes two learners, so eight seeds together end with the bits of
eight single runs.
"""

import time
from collections.abc import Iterator
from functools import cached_property
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from penfac.algos.base import policy_weights, use_own_actor
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
    moment,
    split_replay,
    unflatten,
)
from penfac.engines.packing import Packed, pack, pack_for_device, unpack, unpack_on_host
from penfac.engines.turns import (
    PackedLearner,
    Turn,
    learn_all,
    pack_actor,
    raise_unless_one_learner,
)
from penfac.envs.worlds import Worlds, open_worlds
from penfac.errors import PenfacError
from penfac.policy import Policy, PolicyWeights
from penfac.randomness import Stream, generator
from penfac.rollout.episodes import Played
from penfac.rollout.evaluate import Candidate, Evaluator, action_chooser
from penfac.rollout.explorer import Explorer, Sigma
from penfac.rollout.host import Collected, HostWorlds
from penfac.rollout.lockstep import Player, play_together
from penfac.rollout.padding import pad
from penfac.rollout.running import UNEQUAL, UNREPEATED, RunningWorlds


class HostEngine:
    """See penfac.engines.base.Engine. `compiled` takes the updates that another engine of
    the same job has compiled."""

    def __init__(
        self, job: Job, seeds: list[int], compiled: dict[int, Any] | None = None
    ):
        self.job, self.seeds = job, seeds
        self.how = job.collecting
        algo, cfg, running = job.algo, job.cfg, self.how.episodes is None
        count = self.how.worlds if self.how.episodes is None else self.how.episodes
        self.worlds = self._open(count * len(seeds), count)
        self.spec, self.actions = self.worlds.spec(), self.worlds.actions
        self.plan, self.numbers = algo.plan(cfg, self.spec), job.numbers(self.spec)
        keys = [jax.random.fold_in(jax.random.key(s), int(Stream.INIT)) for s in seeds]
        self.learners = [
            PackedLearner.of(algo.init(k, self.plan, self.numbers)) for k in keys
        ]
        # a turn of several rounds is stopped before or after, never inside
        poll = job.poll if self.how.rounds == 1 else lambda: None
        self.players = [
            HostWorlds(
                self.worlds, seed, count, first=i * count, restarts=job.restarts,
                poll=poll, clip=self.how.exploration.clip,
            )
            for i, seed in enumerate(seeds)
        ]  # fmt: skip
        self.evaluator = Evaluator(self._open, job.poll)
        # the running worlds of each learner as they were at the end of its last turn
        self.running = [p.snapshot() if running else None for p in self.players]
        if running and not self.worlds.repeats:
            job.note(f"{job.env_id}: {UNREPEATED}")
        self.compiled = {} if compiled is None else compiled  # by length of a batch
        self.compiling = Lock()

    @cached_property
    def packed_numbers(self) -> Packed:
        return pack_for_device(self.numbers)

    # --- a turn -------------------------------------------------------------------------

    def advance(self, due: Due) -> Iterator[tuple[int, Progress | PenfacError]]:
        """All learners collect in lock-step, then each learns from its own batch."""
        if not due:
            return
        turns = {i: Turn(c, self.learners[i], c.episode) for i, c in due}
        self.job.poll()
        for i, turn in turns.items():  # restarts used before a resume count too
            self.players[i].faults = turn.counters.faults
        for _ in range(self.how.rounds):
            for i, error in self._play_round(turns):
                del turns[i]
                yield i, raise_unless_one_learner(error)
            if not turns:
                return
        for i, turn in turns.items():
            yield i, self._finish_turn(i, turn)

    def _play_round(self, turns: dict[int, Turn]) -> list[tuple[int, PenfacError]]:
        """Collect and learn once; the errors of the learners that failed."""
        before, started = self.worlds.seconds, time.perf_counter()
        batches: dict[int, Collected] = {}
        failed: list[tuple[int, PenfacError]] = []
        players = {i: self._collect(i, turn) for i, turn in turns.items()}
        for i, collected in play_together(self.worlds, players):
            if isinstance(collected, PenfacError):
                failed.append((i, collected))
            else:
                batches[i] = collected
        share = len(turns)
        collect = (time.perf_counter() - started) / share
        env = (self.worlds.seconds - before) / share
        for i in batches:
            turns[i].seconds["collect"] += collect
            turns[i].seconds["env"] += env
        learn = lambda i: self._learn(i, turns[i], batches[i])  # noqa: E731
        return failed + learn_all(learn, list(batches))

    def _collect(self, i: int, turn: Turn) -> Player[Collected]:
        player, step = self.players[i], turn.counters.step
        act = self._explorer(turn.learner, step, exploring=True)
        act = act._replace(anywhere=step + turn.steps < self.how.random_steps)
        if self.how.episodes is None:
            return player.collect_steps(act, turn.episode, self.how.steps)
        return player.collect_episodes(
            act, turn.episode, self.how.episodes, self.how.min_steps
        )

    def _weights(
        self, learner: PackedLearner, exploring: bool = False
    ) -> PolicyWeights:
        """The weights of mu, or of the policy that explores."""
        algo = self.job.algo
        behaviour = algo.behaviour if exploring else use_own_actor
        actor = pack_actor(
            algo.acting, behaviour, self.plan, learner.rest, self.packed_numbers
        )
        return policy_weights(unpack_on_host(actor), self.plan)

    def _explorer(self, learner: PackedLearner, step: int, exploring=False) -> Explorer:
        """The policy with exploration around it, or the one that explores."""
        weights, sigma = self._weights(learner, exploring), self._sigma(learner, step)
        return Explorer(weights, self.how.exploration, sigma)

    def _sigma(self, learner: PackedLearner, step: int) -> Sigma:
        """The width of exploration: the config's, or what the learner has learned."""
        algo, configured = self.job.algo, self.job.sigma(step)
        if not algo.learns_sigma or self.how.exploration.law == "squashed":
            return configured  # or the weights tell it
        state = learner.state

        def at(obs: np.ndarray) -> np.ndarray:
            seen = jnp.asarray(obs)
            width = algo.sigma(state, seen, configured, self.plan, self.numbers)
            return np.asarray(width, float)

        one = at(np.zeros((1, self.spec.obs_dim), np.float32))
        return at if one.ndim == 2 else one  # the same at every observation: asked once

    def _learn(self, i: int, turn: Turn, collected: Collected) -> None:
        steps, stats, turn.episode = collected
        started = time.perf_counter()
        whole = self.how.worlds * self.how.steps
        batch = pad(steps, whole if self.how.episodes is None else None)
        new, metrics = self._update(i, turn, batch)
        # the update has overwritten the replay's rows; new rows lie behind the old end
        self.learners[i] = PackedLearner(new.rows, self.learners[i].rest)
        if not metrics.finite:
            state = unpack_on_host(new.rest)
            raise divergence(state, metrics, turn.counters.update + 1)
        turn.learner = new
        turn.add_round(metrics_row(metrics), stats, len(steps.reward))
        turn.seconds["update"] += time.perf_counter() - started

    def _update(self, i: int, turn: Turn, batch: Any) -> tuple[PackedLearner, Any]:
        """The update, compiled once for each length of a batch; the log says when."""
        algo, length = self.job.algo, len(batch.reward)
        step = turn.counters.step
        when = (
            np.uint32(self.seeds[i]),
            np.uint32(turn.counters.update % 2**32),
            np.uint32(turn.rounds),
            np.float32(self.job.progress(step)),
            np.float32(self.job.sigma(step)),
        )

        def update(rows, rest, batch, when, numbers):
            state, numbers = join_replay(unpack(rest), rows), unpack(numbers)
            new, metrics = algo.update(state, batch, self.plan, numbers, moment(*when))
            rest, rows = split_replay(new)
            return rows, pack(rest), pack(metrics)

        learner = turn.learner
        args = (learner.rows, learner.rest, batch, when, self.packed_numbers)
        with self.compiling:  # once
            if length not in self.compiled:
                started = time.perf_counter()
                program = jax.jit(update, donate_argnums=0)
                self.compiled[length] = program.lower(*args).compile()
                seconds = time.perf_counter() - started
                text = f"compiled the update of {length} steps in {seconds:.1f} s"
                self.job.note(text + self.job.settled_text(self.spec))
        rows, rest, metrics = self.compiled[length](*args)
        return PackedLearner(rows, rest), unpack_on_host(metrics)

    def _finish_turn(self, i: int, turn: Turn) -> Progress:
        """Keep what the turn learned, and report it."""
        self.learners[i] = turn.learner
        if self.running[i] is not None:
            self.running[i] = self.players[i].snapshot()
        explorer = self._explorer(turn.learner, turn.counters.step)
        _, sigma = explorer.around(np.zeros((1, self.spec.obs_dim), np.float32))
        return turn.progress(float(np.mean(sigma)), self.players[i].faults)

    # --- evaluation ---------------------------------------------------------------------

    def evaluate(
        self, due: Due, episodes: int, fixed: bool
    ) -> Iterator[tuple[int, dict[str, Played] | PenfacError]]:
        """Every mode of every learner that is due, all in lock-step."""
        if not due:
            return
        modes = self.job.algo.modes
        candidates = {
            (i, mode): self._candidate(i, counters, k, fixed)
            for i, counters in due
            for k, mode in enumerate(modes)
        }
        finished: dict[int, dict[str, Played]] = {i: {} for i, _ in due}
        failed: set[int] = set()
        for (i, mode), played in self.evaluator.play(candidates, episodes):
            if isinstance(played, PenfacError):
                if i not in failed:
                    yield i, raise_unless_one_learner(played)
                failed.add(i)
                continue
            finished[i][mode] = played
            if len(finished[i]) == len(modes) and i not in failed:
                yield i, {mode: finished[i][mode] for mode in modes}

    def _candidate(self, i: int, counters: Counters, k: int, fixed: bool) -> Candidate:
        """Learner i in its mode number k."""
        learner, mode = self.learners[i], self.job.algo.modes[k]
        act = self._explorer(learner, counters.step)
        counted = (counters.evaluations, k)
        noise = generator(self.seeds[i], Stream.EVAL_NOISE, *counted)
        which = 0 if fixed else counters.evaluations
        # the mean is clipped to the bounds, as when it is deployed
        clip = self.how.exploration.clip or mode == "mean"
        return Candidate(self.seeds[i], action_chooser(mode, act, noise), which, clip)

    # --- state --------------------------------------------------------------------------

    def snapshot(self, i: int) -> Arrays:
        arrays = flatten(self.learners[i].state, "state")
        running = self.running[i]
        if running is not None:
            arrays |= flatten(running, "worlds")
        return arrays

    def restore(self, i: int, arrays: Arrays) -> None:
        state = unflatten(self.learners[i].state, arrays, "state")
        # a copy: updates overwrite the rows of a replay
        self.learners[i] = PackedLearner.of(jax.tree.map(jnp.array, state))
        if self.running[i] is None:
            return
        if not self.worlds.repeats:
            self.job.note(f"{self.job.env_id}: new episodes begin")
            return
        running = RunningWorlds(*(arrays[f"worlds.{x}"] for x in RunningWorlds._fields))
        if astray := self.players[i].restore(running):
            self.job.note(f"{self.job.env_id}: {UNEQUAL.format(astray)}")
            running = self.players[i].snapshot()
        self.running[i] = running

    def policy(self, i: int) -> Policy:
        learner = self.learners[i]
        weights, state = self._weights(learner), learner.state
        return self.job.policy(weights, state, self.plan, self.numbers, self.actions)

    def close(self) -> None:
        self.worlds.close()
        self.evaluator.close()

    def _open(self, count: int, size: int | None = None) -> Worlds:
        job = self.job
        return open_worlds(job.env_id, job.options, count, job.watch, job.crew, size)
