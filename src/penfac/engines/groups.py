"""The learners that run at once in one program of a device engine."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from penfac.engines.base import Arrays, join_replay, split_replay, unflatten
from penfac.engines.programs import Clock, Inputs, Learners, TurnResult
from penfac.errors import OutOfMemory


class LearnerGroup:
    """Arrays with a leading axis of learners on the devices, and a copy of them on the host
    while single learners are saved or restored."""

    def __init__(
        self,
        learners: list[tuple[int, Any]],  # (seed, numbers)
        begin: Callable[[Inputs], Learners],
        sharding: NamedSharding,
    ):
        self.numbers = [numbers for _, numbers in learners]
        self.sharding, self.devices = sharding, sharding.mesh.size
        # every device has as many rows: copies of the last learner fill up, inactive
        missing = -len(learners) % self.devices
        padded = learners + learners[-1:] * missing
        self.seeds = np.array([seed for seed, _ in padded], np.uint32)
        stacked = jax.tree.map(lambda *x: np.stack(x), *(n for _, n in padded))
        self.inputs = Inputs(*jax.device_put((self.seeds, stacked), sharding))
        self._begin, self._begun = begin, False
        self._learners: Learners | None = None
        # the states without replays, and the worlds, as numpy arrays
        self._copy: Any = None
        self._changed = False  # whether the copy is newer than the devices

    @property
    def size(self) -> int:
        return len(self.seeds)

    @property
    def learners(self) -> Learners:
        """The learners on the devices; initialised at the first use."""
        if not self._begun:
            self._learners = self.run(self._begin, self.inputs)
            self._begun = True
        learners = self._learners
        if learners is None:  # a checkpoint of anything else would be wrong
            raise RuntimeError("the learners were lost in a program that failed")
        if self._changed:
            _, rows = split_replay(learners.state)
            state, worlds = jax.device_put(self._copy, self.sharding)
            learners = Learners(join_replay(state, rows), worlds)
            self._changed = False
        self._learners = learners
        return learners

    def advance(self, program: Any, clock: Clock) -> TurnResult:
        """One turn of all active learners; the result as numpy arrays."""
        learners = self.learners
        self._copy = self._learners = None  # the program overwrites these buffers
        self._learners, result = self.run(program, learners, self.inputs, clock)
        return jax.device_get(result)

    def run(self, program: Any, *args: Any) -> Any:
        """Run a program to its end; if memory does not suffice, say what helps."""
        try:
            return jax.block_until_ready(program(*args))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise OutOfMemory(self._memory_advice()) from error

    def _memory_advice(self) -> str:
        device = next(iter(self.sharding.device_set))
        limit = (device.memory_stats() or {}).get("bytes_limit")
        room = f" ({limit / 1e9:.1f} GB)" if limit else ""
        each = self.size // self.devices
        way = "use fewer worlds, fewer steps or a smaller replay"
        if each > 1:
            fewer = each // 2 * self.devices
            way = f"--slice {fewer} runs {fewer} at a time; or {way}"
        learners = "one learner" if self.size == 1 else f"{self.size} learners at once"
        return f"{learners}: too much for the memory of this device{room}; {way}"

    def state(self, row: int) -> Any:
        """One learner's state, without its replay."""
        return jax.tree.map(lambda x: x[row], self._on_host()[0])

    def worlds(self, row: int) -> Any:
        return jax.tree.map(lambda x: x[row], self._on_host()[1])

    def replay_rows(self, row: int) -> Any:
        _, rows = split_replay(self.learners.state)
        return jax.tree.map(lambda x: jax.device_get(x[row]), rows)

    def _on_host(self) -> Any:
        """One transfer for all learners, however many of them are saved."""
        if self._copy is None:
            state, _ = split_replay(self.learners.state)
            self._copy = jax.device_get((state, self.learners.worlds))
        return self._copy

    def restore(self, row: int, arrays: Arrays) -> None:
        """Put a checkpoint into one row of the copy; all rows travel together later."""
        if not self._changed:
            self._copy = jax.tree.map(np.array, self._on_host())  # writable
            self._changed = True
        learners: Any = self._learners
        on_device, rows = split_replay(learners.state)
        like = lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype)  # noqa: E731
        template = jax.tree.map(like, join_replay(self._copy[0], rows))
        state, new_rows = split_replay(unflatten(template, arrays, "state"))
        worlds = unflatten(jax.tree.map(like, self._copy[1]), arrays, "worlds")
        leaves = jax.tree.leaves(self._copy), jax.tree.leaves((state, worlds))
        for whole, part in zip(*leaves, strict=True):
            whole[row] = part
        rows = jax.tree.map(lambda whole, new: whole.at[row].set(new), rows, new_rows)
        self._learners = learners._replace(state=join_replay(on_device, rows))
