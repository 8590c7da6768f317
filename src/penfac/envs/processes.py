"""Gymnasium environments on every core: processes that step a share of the worlds each.

World w is in process w mod N, whose numbers count its own. A process that dies is replaced:
the world that it stepped is broken, its other worlds are brought back by their seeds and
actions. So no number of a run depends on how many processes there are.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from penfac.envs.calls import Watch
from penfac.envs.process import Died, EnvProcess
from penfac.envs.stepped import Stepped
from penfac.errors import EnvironmentFault
from penfac.types import EnvSpec


class Crew:
    """Processes that hold the worlds of a run: those of training and of evaluation."""

    def __init__(self, recipe: bytes, env_id: str, size: int, watch: Watch):
        self.id = env_id
        heard: set[str] = set()  # lines of the log
        self.processes = [EnvProcess(recipe, heard) for _ in range(size)]
        self.sets: dict[int, ProcessWorlds] = {}
        for process in self.processes:
            try:
                process.answer()
            except Died as death:
                raise self.fault(death) from None
        watch.elsewhere = [process.entered for process in self.processes]

    def __len__(self) -> int:
        return len(self.processes)

    def open(self, count: int) -> "ProcessWorlds":
        return ProcessWorlds(self, count)

    def ask(self, k: int, name: str, *more: Any) -> Any:
        """Ask process k and wait; its death is a fault of the environment."""
        self.processes[k].ask(name, *more)
        try:
            return self.processes[k].answer()
        except Died as death:
            self.revive(k)
            raise self.fault(death) from None

    def ask_all(self, name: str, which: int, more: Callable[[int], tuple]) -> None:
        """Ask every process, then wait: they work at the same time."""
        for k, process in enumerate(self.processes):
            process.ask(name, which, *more(k))
        for process in self.processes:
            try:
                process.answer()
            except Died as death:
                raise self.fault(death) from None

    def revive(self, k: int) -> None:
        """Replace a process that died; its worlds wait to be brought back."""
        self.processes[k].start()
        for which, worlds in self.sets.items():
            self.processes[k].ask("open", which, worlds.share(k))
            try:
                self.processes[k].answer()
            except Died as death:
                raise self.fault(death) from None
            worlds.lost.update(w for w in worlds.past if w % len(self) == k)

    def fault(self, death: Died) -> EnvironmentFault:
        return EnvironmentFault(f"{self.id}: its process {death}")

    def close(self) -> None:
        for process in self.processes:
            process.leave()


class ProcessWorlds:
    """See penfac.envs.worlds.Worlds."""

    repeats = True

    def __init__(self, crew: Crew, count: int):
        self.crew, self.count, self.seconds = crew, count, 0.0
        # of each world since its reset: seed and actions
        self.past: dict[int, tuple[int, list[np.ndarray]]] = {}
        self.lost: set[int] = set()  # worlds whose process died since then
        self.which = 1 + max(crew.sets, default=0)
        crew.ask_all("open", self.which, lambda k: (self.share(k),))
        crew.sets[self.which] = self
        self.id, self.actions, self.obs_dim = crew.ask(0, "about", self.which)
        self.obs = np.zeros((count, self.obs_dim), np.float32)

    def share(self, k: int) -> int:
        """The number of worlds of process k: at least one, which can be asked."""
        return max(1, len(range(k, self.count, len(self.crew))))

    def spec(self) -> EnvSpec:
        return self.crew.ask(0, "spec", self.which)

    def _ask(self, w: int, name: str, *more: Any) -> Any:
        """Ask the process of world w."""
        n = len(self.crew)
        return self.crew.ask(int(w) % n, name, self.which, int(w) // n, *more)

    def reset(self, w: int, seed: int) -> np.ndarray:
        self._forget(w)
        self.obs[w] = obs = self._ask(w, "reset", seed)
        self.past[w] = seed, []
        return obs

    def _forget(self, w: int) -> None:
        self.past.pop(w, None)
        self.lost.discard(w)

    def step(self, rows: np.ndarray, actions: np.ndarray) -> Stepped:
        n, home, entered = len(rows), rows % len(self.crew), time.monotonic()
        got = Stepped(
            np.zeros((n, self.obs_dim), np.float32), np.zeros(n), np.zeros(n, bool),
            np.zeros(n, bool), {}, {},
        )  # fmt: skip
        asked = {int(k): np.flatnonzero(home == k) for k in np.unique(home)}
        while asked:
            asked = self._step_once(asked, rows, actions, got)
        for i, w in enumerate(rows):
            if i not in got.faults:
                self.past[w][1].append(actions[i, ...])
        self.obs[rows] = got.obs
        self.seconds += time.monotonic() - entered
        return got._replace(faults=dict(sorted(got.faults.items())))

    def _step_once(
        self, asked: dict, rows: np.ndarray, actions: np.ndarray, got: Stepped
    ) -> dict:
        """Let the processes step their worlds, `asked[k]` by position; returns what to ask
        again, where a process died in another world."""
        again = {}
        for k, at in asked.items():
            while self.lost and (there := self._lost(at, rows, got)):
                self._bring_back(there[0], rows[there[0]], got)
            asked[k] = at = np.array([i for i in at if i not in got.faults], int)
            own = (rows[at] // len(self.crew)).astype(np.int64).tobytes()
            self.crew.processes[k].ask("step", self.which, own, actions[at])
        for k, at in asked.items():
            try:
                answer = self.crew.processes[k].answer()
            except Died as death:
                self.crew.revive(k)
                guilty = at[max(death.calls, 1) - 1]
                got.faults[int(guilty)] = self.crew.fault(death)
                again[k] = at[at != guilty]
                continue
            take(answer, at, got)
        return again

    def _lost(self, at: np.ndarray, rows: np.ndarray, got: Stepped) -> list[int]:
        return [int(i) for i in at if rows[i] in self.lost and i not in got.faults]

    def _bring_back(self, i: int, w: int, got: Stepped) -> None:
        """Repeat the episode of a world whose process died."""
        self.lost.discard(w)
        try:
            obs = self._ask(w, "repeat", *self.past[w])
            if not np.array_equal(obs, self.obs[w]):
                raise EnvironmentFault(
                    f"{self.id}: its process died, and the episode of world {w}, "
                    "repeated with its seed and actions, led to another state"
                )
        except EnvironmentFault as fault:
            got.faults[i] = fault

    def replace(self, w: int) -> None:
        self._forget(w)
        self._ask(w, "replace")

    def grow(self, count: int) -> None:
        if count > self.count:
            more = np.zeros((count - self.count, self.obs_dim), np.float32)
            self.count, self.obs = count, np.concatenate([self.obs, more])
            self.crew.ask_all("grow", self.which, lambda k: (self.share(k),))

    def close(self) -> None:
        del self.crew.sets[self.which]
        self.crew.ask_all("close", self.which, lambda k: ())


def take(answer: tuple, at: np.ndarray, got: Stepped) -> None:
    """Put the answer of a process where it belongs."""
    k, parts, terms, faults = len(at), answer[:4], *answer[4:]
    for array, part in zip(got[:4], parts, strict=True):
        array[at] = np.frombuffer(part, array.dtype).reshape(k, *array.shape[1:])
    for name, term in terms.items():
        whole = got.terms.setdefault(name, np.zeros(len(got.obs)))
        whole[at] = np.frombuffer(term)
    for i, fault in faults.items():
        got.faults[int(at[i])] = fault
