"""A search that learns where to look: Optuna's TPE, with asynchronous successive halving.

Each config is a process. Who is free takes the config that goes on, or draws one. A
decision is in config.json before anything follows from it. Several processes, also of
several machines, may work on one search in one folder.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from penfac.algos import ALGORITHMS
from penfac.errors import ConfigError
from penfac.machine import runs_on_accelerator, usable_cores
from penfac.runs.config import FILE, RunConfig
from penfac.runs.folder import RunFolder
from penfac.runs.learners import arm_config
from penfac.runs.run import Run
from penfac.runs.status import LASTING
from penfac.runs.storage import Lock
from penfac.search.optuna_study import OptunaStudy
from penfac.search.rungs import (
    RungResult,
    SearchOutcome,
    conclude,
    is_behind,
    rung_result,
    rungs,
    search_of,
    worker_error,
    write_table,
)
from penfac.search.sharing import Share
from penfac.settings.configs import check, from_values, to_values
from penfac.training.interruption import Interruption, StopRequested
from penfac.training.limits import Limits
from penfac.training.listener import Listener
from penfac.training.trial import train_silently, write_configs
from penfac.workers import LOST, RETRIES, Task, how_it_ended, run_growing

LOOK_EVERY = 0.5  # seconds, while only other processes work
NO_LOCKS = "this file system has no locks, so one process alone may search here"
TRIES = 100  # draws in a row that are no new config, before the search ends


def search_tpe(
    run: Run,
    named: Path,
    limits: Limits,
    listener: Listener,
    storage: str | None = None,
) -> SearchOutcome:
    """Draw, train and judge configs until there are enough of them."""
    refuse_device(run.config, limits)
    limits = dataclasses.replace(limits, pictures=False, home=run.path)
    reason, code = "finished", 0
    with Lock(run.path, shared=True) as lock:
        if not lock.held:
            listener.noted(NO_LOCKS)
        search = TpeSearch(run, limits, listener, storage)
        try:
            with Interruption(limits.stop_after) as interruption:
                search.work(interruption)
        except StopRequested as stop:
            reason, code = str(stop), stop.exit_code
        finally:
            search.share.close()
        with search.deciding():
            search.write()
            return conclude(search.run, named, search.table(), reason, code)


def refuse_device(config: RunConfig, limits: Limits) -> None:
    shared = config.engine == "device" and runs_on_accelerator()
    if shared or limits.at_once is not None:
        raise ConfigError(
            "--sampler tpe: trains each config in a process of its own; for one program "
            "on a device use --sampler random"
        )


class TpeSearch:
    """A search as it stands: the configs drawn, and what was decided on each."""

    def __init__(
        self, run: Run, limits: Limits, listener: Listener, storage: str | None
    ):
        self.run, self.limits, self.listener = run, limits, listener
        self.rungs = rungs(run.config)
        self.rows: list[RungResult] = []
        self.lost: dict[str, int] = {}
        self.exhausted = False
        self.count = search_of(run.config).processes or len(usable_cores())
        self.storage, self.share = storage, Share(run.path)
        self.study: OptunaStudy
        asked = search_of(run.config)
        with self.deciding():  # what this command says of it holds for all
            known = search_of(self.run.config)
            own = {"configs": asked.configs, "processes": asked.processes}
            self.save(search=replace(known, **own))

    @property
    def arms(self) -> dict:
        return self.run.config.arms or {}

    @contextlib.contextmanager
    def deciding(self, poll: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Decide alone, after hearing what other processes decided."""
        with self.share.alone(poll) as heard_late:
            if heard_late:
                self.retell()
            yield

    def retell(self) -> None:
        """Tell the study what the folders hold."""
        self.run = Run(self.run.path, Run.open(self.run.path).config)
        known, self.rows = search_of(self.run.config), []
        self.study = OptunaStudy(self.run.path, known.space, self.storage)
        for arm, cfg in self.arms.items():
            self.study.begin(arm, to_values(cfg))
        for arm, rung, goes_on in known.told:
            row = rung_result(self.run, arm, rung, self.rungs[rung])
            self.rows.append(row._replace(kept=goes_on))
            self.tell(self.rows[-1])

    def tell(self, row: RungResult) -> None:
        if row.failed:
            self.study.prune(row.config, next(iter(row.failed.values())))
        elif row.rung == search_of(self.run.config).halvings:
            self.study.finish(row.config, row.score)
        else:
            self.study.report(row.config, row.score, row.steps)
            self.is_behind(row)  # the pruner notes who came to the rung
            if not row.kept:
                self.study.prune(row.config)

    def is_behind(self, row: RungResult) -> bool:
        return self.study.is_behind(row.config, self.rungs[0])

    # --- working -----------------------------------------------------------------------

    def work(self, interruption: Interruption) -> None:
        waiting: list[Task] = []
        while not self.is_done():
            with self.deciding(interruption.poll):
                self.fill(waiting, self.count, interruption)
            for name, code in run_growing(waiting, self.count, interruption.poll):
                with self.deciding(interruption.poll):
                    task = self.ended(name, code, interruption)
                    if task is not None:  # what was begun ends before more begins
                        waiting.insert(0, task)
                    else:
                        self.share.release(name.rpartition(":")[0])
                        self.fill(waiting, 1, interruption)
            self.look(interruption)

    def look(self, interruption: Interruption) -> None:
        """Wait until there is something to do for this process, or nothing for anyone."""
        while True:
            interruption.poll()
            self.run = Run(self.run.path, Run.open(self.run.path).config)
            left = [arm for arm, _ in unfinished(self.run.config)]
            if self.is_done() or any(map(self.share.is_free, left)) or self.may_draw():
                return
            time.sleep(LOOK_EVERY)

    def task(self, arm: str, rung: int, interruption: Interruption) -> Task:
        part = Run(self.run.path / arm, arm_config(self.run.config, arm))
        limits = dataclasses.replace(
            self.limits, until=self.rungs[rung], stop_after=interruption.left()
        )
        return Task(f"{arm}:{rung}", train_silently, (part, limits))

    def fill(self, waiting: list[Task], count: int, interruption: Interruption) -> None:
        """Take configs that nobody trains, then draw some, until so many wait."""
        for arm, rung in list(unfinished(self.run.config)):
            mine = arm in self.share.claims
            if len(waiting) < count and not mine and self.share.claim(arm):
                waiting.append(self.task(arm, rung, interruption))
        while len(waiting) < count and self.may_draw():
            arm = self.draw()
            if arm is not None:
                self.share.claim(arm)
                waiting.append(self.task(arm, 0, interruption))

    def may_draw(self) -> bool:
        enough = len(self.arms) >= search_of(self.run.config).configs
        return not (enough or self.exhausted)

    def ended(self, name: str, code: int, interruption: Interruption) -> Task | None:
        """Judge a config that came to a rung; its next task, if it goes on."""
        arm, _, rung = name.rpartition(":")
        steps = self.rungs[int(rung)]
        again = self.task(arm, int(rung), interruption)
        part = again.arguments[0]
        if code >= LOST and self.lost.get(name, 0) < RETRIES:
            self.lost[name] = self.lost.get(name, 0) + 1
            self.listener.noted(f"{arm}: {how_it_ended(code)}; it is tried again")
            return again
        if code not in (0, *LASTING):
            raise worker_error(part, code)
        if is_behind(part, steps):
            interruption.poll()
            raise StopRequested("stopped", 0)
        row = self.judge(rung_result(self.run, arm, int(rung), steps))
        done = sum(not x.kept for x in self.rows)
        result = "failed" if row.failed else f"{row.score:.1f}"
        wanted = search_of(self.run.config).configs
        self.listener.noted(f"{arm} at {steps:,} steps: {result} ({done}/{wanted})")
        if not row.kept:
            return None
        return self.task(arm, row.rung + 1, interruption)

    def judge(self, row: RungResult) -> RungResult:
        """Whether a config goes on, written down before anything follows from it."""
        between = row.rung < search_of(self.run.config).halvings and not row.failed
        if between:
            self.study.report(row.config, row.score, row.steps)
            row = row._replace(kept=not self.is_behind(row))
        self.rows.append(row)
        told = tuple((x.config, x.rung, x.kept) for x in self.rows)
        self.save(search=replace(search_of(self.run.config), told=told))
        if not row.kept:
            self.study.prune(row.config) if between else self.tell(row)
        self.write()
        return row

    def draw(self) -> str | None:
        """A config that was not drawn before, in a folder of its own."""
        found, algo = self.run.config, ALGORITHMS[self.run.config.algo]
        base, seed = to_values(found.settings), search_of(found).seed
        for k in range(TRIES):
            number = len(self.arms)
            trial, values = self.study.ask(TRIES * (seed * 10_000 + number) + k)
            try:
                cfg = from_values(algo.config, base | values)
                check(cfg)
            except ConfigError as error:  # each value may be, but not all together
                self.study.refuse(trial, str(error))
                continue
            if cfg in self.arms.values():
                self.study.refuse(trial, "it was drawn before")
                continue
            arm = name_of(number, search_of(found).configs)
            self.study.keep(arm, trial)
            self.add(arm, cfg)
            return arm
        self.exhausted = True
        drawn = len(self.arms)
        self.listener.noted(f"the space holds no other config; {drawn} were drawn")
        return None

    # --- what is left behind -----------------------------------------------------------

    def add(self, arm: str, cfg: object) -> None:
        config = replace(self.run.config, arms=self.arms | {arm: cfg})
        write_configs(Run(self.run.path / arm, arm_config(config, arm)))
        self.save(arms=config.arms)

    def save(self, **changes: object) -> None:
        """config.json of the search; it lists what is in the folder, never more."""
        self.run = Run(self.run.path, replace(self.run.config, **changes))
        document = self.run.config.to_document()
        RunFolder(self.run.path).write_json(FILE, document, sync=True)

    def table(self) -> list[RungResult]:
        """The rows rung by rung, the best first; at the end one is kept."""
        last = search_of(self.run.config).halvings
        rows = sorted(self.rows, key=lambda row: (row.rung, -row.score))
        sound = [row for row in rows if row.rung == last and not row.failed]
        best = sound[0].config if sound and self.is_done() else None
        return [
            row._replace(kept=row.config == best) if row.rung == last else row
            for row in rows
        ]

    def is_done(self) -> bool:
        return not self.may_draw() and not list(unfinished(self.run.config))

    def write(self) -> None:
        write_table(self.run, self.table())


def unfinished(config: RunConfig) -> Iterator[tuple[str, int]]:
    """Configs and the rung that each has to reach."""
    last = {arm: (rung, goes_on) for arm, rung, goes_on in search_of(config).told}
    for arm in config.arms or ():
        rung, goes_on = last.get(arm, (-1, True))
        if goes_on:
            yield arm, rung + 1


def name_of(number: int, configs: int) -> str:
    return f"c{number:0{len(str(configs - 1))}d}"
